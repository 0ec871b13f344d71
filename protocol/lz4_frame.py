"""Which LZ4 frames Java's clients read: one, of independent blocks, and nothing else before it.

Their reader stops at what it does not know; so a partition with another frame in it would stop
every consumer, though any LZ4 library reads it. What lies behind the first frame they never see.
Source: LZ4 frame format 1.6; org.apache.kafka.common.compress.Lz4BlockInputStream. Pure.

    magic u32 | FLG u8 | BD u8 | length u64 if FLG says so | header checksum u8
    block: size u32 (high bit: not compressed), bytes, checksum u32 if FLG says so ...
    end mark u32 of 0 | checksum u32 if FLG says so
"""

import struct
from typing import Final

from tailrace.protocol.errors import BadValue

BLOCKS_MAX: Final = 10_000
"""A batch of the largest size has a tenth; each is a step of a quarter of a microsecond."""

_HEAD: Final = struct.Struct("<IBBB")
_SIZE: Final = struct.Struct("<I")
_MAGIC: Final = 0x184D2204
_VERSION_AND_RESERVED: Final = 0b1100_0011
"""Of FLG; the last bit announces a dictionary."""
_VERSION: Final = 0b0100_0000
_INDEPENDENT: Final = 0b0010_0000
_BLOCK_CHECKSUM: Final = 0b0001_0000
_LENGTH: Final = 0b0000_1000
_CHECKSUM: Final = 0b0000_0100
_PLAIN: Final = 1 << 31
_CUT: Final = "the frame is cut"


def frame_end(data: memoryview) -> int:
    """Return where the frame ends that Java's clients read; behind it may be padding.

    Shape: what `compression.decompress` takes; what is no LZ4 at all is for that to refuse.
    Errors: BadValue says why they would not read all that an LZ4 library does. Cost: a step a
    block, 2 ms at most.
    """
    if len(data) < _HEAD.size:
        raise BadValue(_CUT)
    magic, flags, _, _ = _HEAD.unpack_from(data)
    if magic != _MAGIC or flags & _VERSION_AND_RESERVED != _VERSION:
        raise BadValue("a frame of another kind than Kafka's")
    if not flags & _INDEPENDENT:
        raise BadValue("its blocks are linked; Kafka's clients read independent ones only")
    end = _end_of_blocks(data, flags)
    if end > len(data):
        raise BadValue(_CUT)
    return end


def _end_of_blocks(data: memoryview, flags: int) -> int:
    at = _HEAD.size + (8 if flags & _LENGTH else 0)
    around = _SIZE.size + (4 if flags & _BLOCK_CHECKSUM else 0)
    blocks = 0
    while at + _SIZE.size <= len(data) and blocks < BLOCKS_MAX:
        (size,) = _SIZE.unpack_from(data, at)
        if not size:
            return at + _SIZE.size + (4 if flags & _CHECKSUM else 0)
        if size == _PLAIN:
            raise BadValue("an empty block; Kafka's clients take it for the end")
        at += around + (size & ~_PLAIN)
        blocks += 1
    raise BadValue(_CUT if blocks < BLOCKS_MAX else f"{BLOCKS_MAX} blocks or more")
