"""Answers of a proxy's streams as messages of the contract. Pure."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.proxy.common_pb2 import Dlsn, ResponseHeader
from tailrace.protocol.proxy.write_proxy_pb2 import (
    WriteBulkResponse,
    WriteContext,
    WriteResponse,
    WriteStreamResponse,
)
from tailrace.protocol.varint import write_unsigned
from tailrace.proxy.owner.operations import Answer, WriterSequence

_LENGTH_DELIMITED: Final = 2
_DLSNS_TAG: Final = write_unsigned(
    WriteStreamResponse.DESCRIPTOR.fields_by_name["dlsns"].number << 3 | _LENGTH_DELIMITED
)
_SLOT_TAG: Final = write_unsigned(Dlsn.DESCRIPTOR.fields_by_name["slot_id"].number << 3)


def header_of(answer: Answer) -> ResponseHeader:
    """Return what an answer says of its request."""
    return ResponseHeader(code=answer.code.name, error=answer.error, location=answer.location)


def dlsn_message(dlsn: DLSN) -> Dlsn:
    """Return a position as a message."""
    return Dlsn(log_segment_sequence_number=dlsn.lssn, entry_id=dlsn.entry_id, slot_id=dlsn.slot)


def dlsn_of(message: Dlsn) -> DLSN:
    """Return the position that a message names; whether there can be such a one is not checked."""
    return DLSN(message.log_segment_sequence_number, message.entry_id, message.slot_id)


def writer_of(context: WriteContext) -> WriterSequence | None:
    """Return the writer and the number of its request; None: it has no number."""
    if not context.HasField("writer"):
        return None
    return WriterSequence(context.writer.writer_id, context.writer.sequence)


def write_response(answer: Answer) -> WriteResponse:
    """Return the answer to a request of one stream."""
    if answer.dlsn is None:
        return WriteResponse(header=header_of(answer))
    return WriteResponse(header=header_of(answer), dlsn=dlsn_message(answer.dlsn))


def bulk_response(answer: Answer) -> WriteBulkResponse:
    """Return the answer to a bulk."""
    each = [write_response(one) for one in answer.each]
    return WriteBulkResponse(header=header_of(answer), responses=each)


def stream_response(number: int, answer: Answer) -> bytes:
    """Return the encoded answer to a request of a write stream.

    By hand: its thousands of positions take a fiftieth of the time that messages of them take.
    """
    parts = [WriteStreamResponse(id=number, header=header_of(answer)).SerializeToString()]
    for (lssn, entry_id, first), count in answer.runs:
        place = Dlsn(log_segment_sequence_number=lssn, entry_id=entry_id).SerializeToString()
        for low, high in pairwise(_LONGER_FROM):
            ends = _slots(max(first, low), min(first + count, high))
            if ends:  # all of one length, and so all that comes before each
                lead = _DLSNS_TAG + write_unsigned(len(place) + len(ends[0])) + place
                parts += (lead, lead.join(ends))
    return b"".join(parts)


def _slots(start: int, stop: int) -> Sequence[bytes]:
    """Return how a position of each slot ends."""
    if stop <= len(_SLOTS):
        return _SLOTS[start:stop]
    return [_slot(slot) for slot in range(start, stop)]


def _slot(slot: int) -> bytes:
    return _SLOT_TAG + write_unsigned(slot) if slot else b""


_SLOTS: Final = [_slot(slot) for slot in range(4096)]
"""More than most entries have."""
_LONGER_FROM: Final = (0, 1, *(1 << bits for bits in range(7, 64, 7)))
"""Slots from which on more bytes are needed than before."""
