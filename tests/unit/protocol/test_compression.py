import gzip
import io
import os
import struct
import zlib

import cramjam
import lz4.block
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.compression import STREAMS_MAX, Codec, compress, decompress, decompress_into
from tailrace.protocol.errors import BadLength, BadValue, DecodeError
from tests.strategies import hostile

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"a partition is a log, and a log is a row of ledgers. " * 3000
BOMB_BYTES = 40 * 1024 * 1024


@pytest.mark.parametrize("codec", list(Codec))
@given(data=st.binary(max_size=5000))
def test_comes_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data
    assert decompress(codec, memoryview(compress(codec, memoryview(data)))) == data


@pytest.mark.parametrize("codec", COMPRESSED)
def test_long_data_comes_back_and_the_limit_is_exact(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert len(packed) < len(TEXT) // 10
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(BadLength):
        decompress(codec, packed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_is_refused_without_being_unpacked(codec: Codec) -> None:
    packed = compress(codec, bytes(BOMB_BYTES))
    with pytest.raises(BadLength):
        decompress(codec, packed, 100_000)


@pytest.mark.parametrize("codec", list(Codec))
@given(data=st.data())
def test_into_a_buffer_comes_what_comes_without_one(codec: Codec, data: st.DataObject) -> None:
    packed = st.binary(max_size=300).map(lambda plain: compress(codec, plain))
    some = data.draw(hostile(packed))
    size = data.draw(st.integers(0, 400))
    try:
        expected = bytes(decompress(codec, some, size))
    except DecodeError as error:
        with pytest.raises(type(error)):
            decompress_into(codec, memoryview(some), memoryview(bytearray(size)))
        return
    room = bytearray(size)
    assert decompress_into(codec, memoryview(some), memoryview(room)) == len(expected)
    assert room[: len(expected)] == expected


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size", [1000, 60_000, 65_536, 65_537, 150_000])
def test_into_a_buffer_of_exactly_its_size(codec: Codec, size: int) -> None:
    plain = os.urandom(size // 2) + bytes(size - size // 2)
    packed, room = memoryview(compress(codec, plain)), bytearray(size)
    assert decompress_into(codec, packed, memoryview(room)) == size
    assert room == plain
    with pytest.raises(BadLength):
        decompress_into(codec, packed, memoryview(room)[1:])


def test_an_lz4_block_with_its_length_before_it_is_none_of_a_frame() -> None:
    """A library takes it for one where it has room; Java's readers refuse it."""
    plain = bytes(range(256)) * 4
    block = lz4.block.compress(plain, store_size=True)
    head = compress(Codec.LZ4, plain)[:7]
    frame = memoryview(head + len(block).to_bytes(4, "little") + block + bytes(4))
    for room in (bytearray(len(plain)), bytearray(100_000)):
        with pytest.raises(BadValue):
            decompress_into(Codec.LZ4, frame, memoryview(room))


@pytest.mark.parametrize("second", [0, 1, 2, 3, 255])
@pytest.mark.parametrize("size", [4, 14, 15, 300, 1024])
def test_lz4_blocks_that_begin_like_a_length_are_read_as_they_are(second: int, size: int) -> None:
    """Their first four bytes, as a number, lie at both sides of what a block may hold."""
    for first in (0, 5, 255):
        plain = bytes([first, 0, second, 0]) + os.urandom(size - 4)
        room = bytearray(100_000)
        packed = memoryview(compress(Codec.LZ4, plain))
        assert decompress_into(Codec.LZ4, packed, memoryview(room)) == size
        assert room[:size] == plain


def test_codec_none_hands_back_the_same_bytes_within_the_limit() -> None:
    data = memoryview(b"abc")
    assert decompress(0, data) is data
    with pytest.raises(BadLength):
        decompress(0, data, 2)


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_a_codec_that_kafka_does_not_have(codec: int) -> None:
    with pytest.raises(BadValue):
        decompress(codec, b"")


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_cut_is_refused(codec: Codec) -> None:
    packed = compress(codec, TEXT[:500])
    for length in range(len(packed)):
        if codec == Codec.SNAPPY and length == 16:
            continue  # the header of an xerial stream with no block in it: an empty stream
        with pytest.raises(DecodeError):
            decompress(codec, packed[:length])


@pytest.mark.parametrize("codec", COMPRESSED)
@given(data=st.data())
def test_hostile_bytes_give_data_or_a_decode_error(codec: Codec, data: st.DataObject) -> None:
    packed = st.binary(max_size=300).map(lambda plain: compress(codec, plain))
    try:
        plain = decompress(codec, data.draw(hostile(packed)), 10_000)
    except DecodeError:
        return
    assert len(plain) <= 10_000


def test_gzip_of_several_members_as_the_rfc_allows() -> None:
    members = b"".join(gzip.compress(part, mtime=0) for part in (b"one ", b"", b"two"))
    assert decompress(Codec.GZIP, members) == b"one two"
    with pytest.raises(BadLength):
        decompress(Codec.GZIP, members, 6)
    with pytest.raises(BadValue):
        decompress(Codec.GZIP, members + gzip.compress(b"three")[:-1])


@pytest.mark.parametrize("padding", [bytes(1), bytes(30), b"abc", gzip.compress(b"", mtime=0)[:17]])
def test_padding_behind_gzip_members_is_left_out(padding: bytes) -> None:
    """As Java's reader does: it ends where no header of a member begins."""
    assert decompress(Codec.GZIP, gzip.compress(b"one") + padding) == b"one"


def test_gzip_members_are_counted() -> None:
    """Each costs a copy of the rest, so their number is a limit on time, not on memory."""
    unit = gzip.compress(b"x")
    assert decompress(Codec.GZIP, unit * STREAMS_MAX) == b"x" * STREAMS_MAX
    with pytest.raises(BadValue):
        decompress(Codec.GZIP, unit * (STREAMS_MAX + 1))


def test_lz4_ends_with_its_first_frame() -> None:
    frame = lz4.frame.compress(b"x", store_size=False)
    assert decompress(Codec.LZ4, frame * 3) == b"x"
    assert decompress(Codec.LZ4, frame + b"abc") == b"x"


def test_gzip_with_a_wrong_checksum_is_refused() -> None:
    packed = bytearray(gzip.compress(TEXT))
    packed[-8] ^= 1
    with pytest.raises(BadValue):
        decompress(Codec.GZIP, packed)


def test_snappy_raw_as_librdkafka_sends_it() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_snappy_written_as_javas_stream_of_32_kib_blocks() -> None:
    packed = compress(Codec.SNAPPY, TEXT)
    assert packed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    stream = io.BytesIO(packed[16:])
    sizes = []
    while length := stream.read(4):
        block = stream.read(int.from_bytes(length, "big"))
        sizes.append(len(bytes(cramjam.snappy.decompress_raw(block))))
    assert set(sizes[:-1]) == {32 * 1024}


@pytest.mark.parametrize("length", [b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x09"])
def test_snappy_block_lengths_that_lie(length: bytes) -> None:
    packed = compress(Codec.SNAPPY, b"12345678901234567890")
    with pytest.raises(BadValue):
        decompress(Codec.SNAPPY, packed[:16] + length + packed[20:])


def test_a_snappy_block_claims_what_its_bytes_can_stand_for() -> None:
    """The library takes room for the claim at once: 64 MiB for six bytes."""
    with pytest.raises(BadValue, match="claims"):
        decompress(Codec.SNAPPY, bytes.fromhex("808080200061"))
    highest = bytes(cramjam.snappy.compress_raw(bytes(1 << 20)))
    assert decompress(Codec.SNAPPY, highest) == bytes(1 << 20)


def test_lz4_frames_have_independent_blocks_because_java_refuses_others() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))
    assert info["block_linked"] is False


def test_lz4_reads_linked_blocks_and_checksums() -> None:
    linked = lz4.frame.compress(TEXT, block_linked=True, content_checksum=True, block_checksum=True)
    assert decompress(Codec.LZ4, linked) == TEXT


_SMALL_RECORDS = st.lists(
    st.builds(
        lambda size, rest: bytes([size, 0, 0]) + rest, st.integers(0, 255), st.binary(max_size=30)
    ),
    min_size=1,
).map(b"".join)
"""Bytes that begin as small records do: a length, attributes, a timestamp delta of 0."""


@given(
    _SMALL_RECORDS | st.binary(min_size=1, max_size=5000),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3),
)
def test_lz4_of_one_block_is_what_the_frame_reader_makes_of_it(
    data: bytes, changes: list[tuple[int, int]]
) -> None:
    packed = bytearray(compress(Codec.LZ4, data))
    for at, byte in changes:
        packed[11 + at % (len(packed) - 15)] = byte
    try:
        expected = lz4.frame.decompress(packed)
    except RuntimeError:
        with pytest.raises(BadValue):
            decompress(Codec.LZ4, packed)
    else:
        assert decompress(Codec.LZ4, packed) == expected


def test_lz4_blocks_longer_than_their_frame_allows_are_refused() -> None:
    """Java's reader refuses them: one such batch would stop every consumer."""
    head = lz4.frame.compress(b"x", block_linked=False, store_size=False)[:7]
    block = lz4.block.compress(os.urandom(64 * 1024), store_size=False)
    assert len(block) > 64 * 1024
    with pytest.raises(BadValue):
        decompress(Codec.LZ4, head + struct.pack("<I", len(block)) + block + bytes(4))


def test_lz4_with_a_wrong_header_checksum_as_in_kafkas_own_test() -> None:
    packed = bytearray(compress(Codec.LZ4, TEXT))
    packed[6] ^= 0xFF
    with pytest.raises(BadValue):
        decompress(Codec.LZ4, packed)


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 5_000_000])
def test_lz4_of_any_ratio(size: int) -> None:
    frame = compress(Codec.LZ4, bytes(size))
    assert decompress(Codec.LZ4, frame) == bytes(size)
    with pytest.raises(BadLength):
        decompress(Codec.LZ4, frame, size - 1)
    with pytest.raises(BadValue):
        decompress(Codec.LZ4, frame[:-5])


def test_zstd_of_any_ratio_and_several_frames() -> None:
    zeros = bytes(3_000_000)
    packed = bytes(cramjam.zstd.compress(zeros)) + bytes(cramjam.zstd.compress(b"end"))
    assert decompress(Codec.ZSTD, packed) == zeros + b"end"


def test_zlib_without_the_gzip_wrapper_is_not_gzip() -> None:
    with pytest.raises(BadValue):
        decompress(Codec.GZIP, zlib.compress(TEXT))


def test_snappy_blocks_count_by_their_number_too() -> None:
    """A block of one byte takes as long as one of many: there are no more than may come out."""
    blocks = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    blocks += b"\0\0\0\3\1\0a" * 1000
    assert decompress(Codec.SNAPPY, blocks) == b"a" * 1000
    with pytest.raises(BadLength):
        decompress(Codec.SNAPPY, blocks, 100_000)
