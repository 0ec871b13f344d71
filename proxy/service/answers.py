"""Answers of a proxy's streams as messages of the contract. Pure."""

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

    By hand: its thousands of positions take a quarter of the time that messages of them take.
    """
    head = WriteStreamResponse(id=number, header=header_of(answer)).SerializeToString()
    parts = [head]
    at: tuple[int, int] | None = None
    prefix = b""
    for lssn, entry_id, slot in answer.dlsns:
        if at != (lssn, entry_id):
            at = lssn, entry_id
            prefix = Dlsn(log_segment_sequence_number=lssn, entry_id=entry_id).SerializeToString()
        position = prefix + _SLOT_TAG + write_unsigned(slot) if slot else prefix
        parts.append(_DLSNS_TAG + write_unsigned(len(position)) + position)
    return b"".join(parts)
