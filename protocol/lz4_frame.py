"""Which LZ4 frames Java's clients read: one, of independent blocks, and nothing else before it.

Their reader stops at what it does not know, and at the end of the first frame; so a partition with
another frame in it would stop every consumer, or hide records from it, though any LZ4 library reads
it. Source: LZ4 frame format 1.6; org.apache.kafka.common.compress.Lz4BlockInputStream. Pure.

    magic u32 | FLG u8 | BD u8 | length u64 if FLG says so | header checksum u8
    block: size u32 (high bit: not compressed), bytes, checksum u32 if FLG says so ...
    end mark u32 of 0 | checksum u32 if FLG says so
"""

import struct
from typing import Final

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
_BEHIND: Final = "more than one frame; Kafka's clients read the first"


def frame_fault(data: memoryview) -> str | None:
    """Return why Java's clients would not read all of what an LZ4 library does; None: they would.

    Shape: what `compression.decompress` takes; what is no LZ4 at all is for that to refuse.
    Cost: a step a block, 2 ms at most.
    """
    if len(data) < _HEAD.size:
        return _CUT
    magic, flags, _, _ = _HEAD.unpack_from(data)
    if magic != _MAGIC or flags & _VERSION_AND_RESERVED != _VERSION:
        return "a frame of another kind than Kafka's"
    if not flags & _INDEPENDENT:
        return "its blocks are linked; Kafka's clients read independent ones only"
    return _blocks_fault(data, flags)


def _blocks_fault(data: memoryview, flags: int) -> str | None:
    at = _HEAD.size + (8 if flags & _LENGTH else 0)
    around = _SIZE.size + (4 if flags & _BLOCK_CHECKSUM else 0)
    blocks = 0
    while at + _SIZE.size <= len(data) and blocks < BLOCKS_MAX:
        (size,) = _SIZE.unpack_from(data, at)
        if not size:
            behind = len(data) - at - _SIZE.size - (4 if flags & _CHECKSUM else 0)
            return _BEHIND if behind > 0 else _CUT if behind else None
        if size == _PLAIN:
            return "an empty block; Kafka's clients take it for the end"
        at += around + (size & ~_PLAIN)
        blocks += 1
    return _CUT if blocks < BLOCKS_MAX else f"{BLOCKS_MAX} blocks or more"
