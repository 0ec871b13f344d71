"""Which frames a produce may bring; held to Java's reader in tests/java/test_lz4.py."""

import os
import struct
from itertools import product

import lz4.frame
import pytest

from tailrace.protocol.compression import Codec, compress, decompress
from tailrace.protocol.errors import BadValue
from tailrace.protocol.lz4_frame import BLOCKS_MAX, frame_end

TEXTS = {"empty": b"", "short": b"abc", "plain": os.urandom(200_000), "packed": bytes(200_000)}
SKIPPABLE = struct.pack("<II", 0x184D2A50, 3) + b"abc"
HEAD = lz4.frame.compress(b"", block_linked=False, store_size=False)[:7]
END = bytes(4)


def fault(data: bytes) -> str | None:
    try:
        frame_end(memoryview(data))
    except BadValue as error:
        return str(error)
    return None


def plain_block(data: bytes) -> bytes:
    return struct.pack("<I", len(data) | 1 << 31) + data


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_a_frame_of_independent_blocks_passes_whatever_it_carries(
    text: str, block_size: int
) -> None:
    for size, block_checksum, checksum in product([False, True], repeat=3):
        frame = lz4.frame.compress(
            TEXTS[text],
            block_size=block_size,
            block_linked=False,
            store_size=size,
            block_checksum=block_checksum,
            content_checksum=checksum,
        )
        assert fault(frame) is None
        for cut in range(0, len(frame), max(1, len(frame) // 50)):
            assert fault(frame[:cut]) is not None
        for more in (frame, SKIPPABLE, b"abc"):  # which no client reads
            assert frame_end(memoryview(frame + more)) == len(frame)
            assert decompress(Codec.LZ4, frame + more) == TEXTS[text]


def test_other_frames() -> None:
    linked = lz4.frame.compress(TEXTS["packed"], block_size=4, block_linked=True)
    assert decompress(Codec.LZ4, linked) == TEXTS["packed"]
    assert "linked" in str(fault(linked))
    good = compress(Codec.LZ4, b"abc")
    assert fault(good) is None
    assert "another kind" in str(fault(SKIPPABLE + good))
    for bit in (0, 1, 6, 7):  # a dictionary, what is reserved, the version
        changed = bytearray(good)
        changed[4] ^= 1 << bit
        assert "another kind" in str(fault(bytes(changed)))


def test_an_empty_block_ends_the_frame_for_java_only() -> None:
    frame = HEAD + plain_block(b"abc") + plain_block(b"") + plain_block(b"def") + END
    assert decompress(Codec.LZ4, frame) == b"abcdef"
    assert "empty block" in str(fault(frame))


def test_blocks_are_counted() -> None:
    most = plain_block(b"x") * (BLOCKS_MAX - 1)
    assert fault(HEAD + most + END) is None
    assert "blocks" in str(fault(HEAD + most + plain_block(b"x") + END))
