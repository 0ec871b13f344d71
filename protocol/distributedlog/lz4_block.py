"""LZ4's raw block format, as DistributedLog uses it: no frame, the length is known from outside."""

import lz4.block

from tailrace.protocol.errors import BadLength, BadValue
from tailrace.protocol.ids import Buffer

UNPACKED_BYTES_MAX = 16 * 1024 * 1024
"""What a compressed entry may hold; an honest one is below the frame limit of 5 MiB."""
RATIO_MAX = 255
"""Bytes that one byte of a block can stand for: a byte of a match's length says up to 255 more."""


def pack_lz4(data: Buffer) -> bytes:
    """Return one block."""
    packed: bytes = lz4.block.compress(data, store_size=False)
    return packed


def unpack_lz4(data: Buffer, size: int) -> bytes:
    """Return the `size` bytes that a block holds. Errors: BadLength, BadValue.

    Cost: `size` bytes are taken at once, so no more of them than a block of this length can hold.
    """
    if not 0 <= size <= min(UNPACKED_BYTES_MAX, RATIO_MAX * len(data)):
        raise BadLength(f"LZ4 block of {size} bytes in {len(data)}")
    try:
        unpacked: bytes = lz4.block.decompress(data, uncompressed_size=size)
    except (lz4.block.LZ4BlockError, ValueError) as error:
        raise BadValue(f"LZ4 block: {error}") from None
    if len(unpacked) != size:
        raise BadLength(f"LZ4 block: {len(unpacked)} bytes came out, {size} were announced")
    return unpacked
