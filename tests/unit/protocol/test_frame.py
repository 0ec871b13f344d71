"""Frames out of a stream: whole, in pieces of any size, bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import BadLength, FrameTooLarge
from protocol.frame import FrameReader

LIMIT = 100


def framed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@given(st.lists(st.binary(max_size=LIMIT), max_size=6), st.data())
def test_any_cut_gives_the_same_frames(frames: list[bytes], data: st.DataObject) -> None:
    stream = framed(*frames)
    reader = FrameReader(LIMIT)
    found: list[memoryview] = []
    while stream:
        count = data.draw(st.integers(1, len(stream)))
        found += reader.feed(stream[:count])
        stream = stream[count:]
    assert found == frames
    assert reader.pending_bytes == 0


def test_byte_by_byte() -> None:
    reader = FrameReader(LIMIT)
    found = [frame for byte in framed(b"one", b"", b"two") for frame in reader.feed(bytes([byte]))]
    assert found == [b"one", b"", b"two"]


def test_frames_are_writable_and_their_own() -> None:
    source = bytearray(framed(b"abc", b"def"))
    first, second = FrameReader(LIMIT).feed(source)
    first[:] = b"xyz"
    source[:] = bytes(len(source))
    assert (first, second) == (b"xyz", b"def")


def test_pending_bytes_tell_a_cut_frame() -> None:
    reader = FrameReader(LIMIT)
    assert reader.feed(b"\0\0\0\5ab") == []
    assert reader.pending_bytes == 6
    assert reader.feed(b"cde") == [b"abcde"]


@pytest.mark.parametrize(
    ("size", "error"), [(-1, BadLength), (-(2**31), BadLength), (LIMIT + 1, FrameTooLarge)]
)
def test_sizes_out_of_bounds_are_refused(size: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        FrameReader(LIMIT).feed(framed(b"fine") + size.to_bytes(4, "big", signed=True))


def test_the_limit_itself_is_allowed() -> None:
    assert FrameReader(LIMIT).feed(framed(bytes(LIMIT))) == [bytes(LIMIT)]
