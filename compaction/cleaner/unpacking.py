"""The payloads of a block of batches unpacked, one behind the other in one buffer. Pure."""

from typing import Final

import numpy as np

from tailrace.compaction.cleaner.block import Block
from tailrace.compaction.cleaner.errors import CorruptBatch
from tailrace.compaction.cleaner.headers import Headers
from tailrace.protocol.compression import decompress, decompress_into
from tailrace.protocol.errors import BadLength, BadValue, DecodeError
from tailrace.protocol.ids import Buffer

_GUESS: Final = 4
"""Times what is packed; what stays unused of it costs no memory."""
_BYTES_MIN: Final = 64 * 1024


def unpack(payloads: Block, headers: Headers) -> Block:
    """Return the records of batches. Errors: CorruptBatch.

    `payloads`: what follows the headers, packed or not. Cost: a copy of what is not.
    """
    data, ends, behind = memoryview(payloads.data), [0], 0
    room = _new_room(_GUESS * int(payloads.sizes.sum()))
    starts, codecs = payloads.starts.tolist(), headers.codec.tolist()
    counts = headers.record_count.tolist()
    try:
        for at, end, codec, count in zip(
            starts, payloads.ends.tolist(), codecs, counts, strict=True
        ):
            if count <= 0:
                _check_empty(data[at:end], codec, count)
            else:
                try:
                    behind += decompress_into(codec, data[at:end], room[behind:])
                except BadLength:
                    plain = decompress(codec, data[at:end])  # fails if it is too long for all
                    room = _grown(room, behind, len(plain))
                    room[behind : behind + len(plain)] = plain
                    behind += len(plain)
            ends.append(behind)
    except DecodeError as error:
        index = len(ends) - 1
        raise CorruptBatch(index, headers[index].base_offset, str(error)) from None
    bounds = np.array(ends, np.int64)
    return Block(room[:behind].toreadonly(), bounds[:-1], bounds[1:])


def _check_empty(payload: Buffer, codec: int, count: int) -> None:
    """Errors: DecodeError. Whatever unpacks is none of a batch that has no records."""
    if count:
        raise BadValue(f"{count} records in {len(payload)} bytes")
    decompress(codec, payload)


def _grown(room: memoryview, filled: int, by: int) -> memoryview:
    """Return one for so much more at least, and as much behind that as there was."""
    grown = _new_room(filled + by + len(room))
    grown[:filled] = room[:filled]
    return grown


def _new_room(size_bytes: int) -> memoryview:
    return np.empty(max(size_bytes, _BYTES_MIN), np.uint8).data  # a bytearray would be zeroed
