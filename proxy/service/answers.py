"""Answers of a proxy's streams as messages of the contract. Pure."""

from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.proxy.common_pb2 import Dlsn, ResponseHeader
from tailrace.protocol.proxy.write_proxy_pb2 import WriteBulkResponse, WriteResponse
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.operations import Answer


def header_of(answer: Answer) -> ResponseHeader:
    """Return what an answer says of its request."""
    return ResponseHeader(code=answer.code.name, error=answer.error, location=answer.location)


def dlsn_message(dlsn: DLSN) -> Dlsn:
    """Return a position as a message."""
    return Dlsn(log_segment_sequence_number=dlsn.lssn, entry_id=dlsn.entry_id, slot_id=dlsn.slot)


def dlsn_of(message: Dlsn) -> DLSN:
    """Return the position that a message names; whether there can be such a one is not checked."""
    return DLSN(message.log_segment_sequence_number, message.entry_id, message.slot_id)


def write_response(answer: Answer) -> WriteResponse:
    """Return the answer to a request of one stream."""
    if answer.dlsn is None:
        return WriteResponse(header=header_of(answer))
    return WriteResponse(header=header_of(answer), dlsn=dlsn_message(answer.dlsn))


def bulk_response(answer: Answer) -> WriteBulkResponse:
    """Return the answer to a bulk."""
    each = [write_response(one) for one in answer.each]
    return WriteBulkResponse(header=header_of(answer), responses=each)


def refused(code: StatusCode, error: str) -> Answer:
    """Return the answer to a request that no stream hears of."""
    return Answer(code, error)
