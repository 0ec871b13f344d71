"""Values of a client as messages of the contract, and back. Pure."""

from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.proxy.checksum import request_checksum
from tailrace.protocol.proxy.common_pb2 import Dlsn, ResponseHeader
from tailrace.protocol.proxy.write_proxy_pb2 import WriteContext
from tailrace.proxy.owner.codes import StatusCode


def code_of(header: ResponseHeader) -> StatusCode:
    """Return the code of an answer; UNEXPECTED for one that this version does not know."""
    try:
        return StatusCode(header.code)
    except ValueError:
        return StatusCode.UNEXPECTED


def dlsn_of(message: Dlsn) -> DLSN:
    """Return the position in a message."""
    return DLSN(message.log_segment_sequence_number, message.entry_id, message.slot_id)


def dlsn_message(dlsn: DLSN) -> Dlsn:
    """Return a position as a message."""
    return Dlsn(log_segment_sequence_number=dlsn.lssn, entry_id=dlsn.entry_id, slot_id=dlsn.slot)


def write_context(stream: str, tried: list[str], *covered: bytes) -> WriteContext:
    """Return the context of a request: the proxies that were asked before, and the checksum."""
    return WriteContext(tried_hosts=tried, crc32=request_checksum(stream, *covered))
