"""Values of a client as messages of the contract, and back. Pure."""

from collections.abc import Sequence
from typing import Final

from tailrace.protocol.distributedlog.dlsn import DLSN, slots_from
from tailrace.protocol.proxy.checksum import request_checksum
from tailrace.protocol.proxy.common_pb2 import Dlsn, ResponseHeader
from tailrace.protocol.proxy.write_proxy_pb2 import WriteContext, WriteStreamRequest
from tailrace.protocol.varint import write_unsigned
from tailrace.proxy.owner.codes import StatusCode

_LENGTH_DELIMITED: Final = 2
_RECORDS_TAG: Final = write_unsigned(
    WriteStreamRequest.DESCRIPTOR.fields_by_name["records"].number << 3 | _LENGTH_DELIMITED
)
_PAYLOADS_TAG: Final = write_unsigned(
    WriteStreamRequest.Records.DESCRIPTOR.fields_by_name["payloads"].number << 3 | _LENGTH_DELIMITED
)


def code_of(header: ResponseHeader) -> StatusCode:
    """Return the code of an answer; UNEXPECTED for one that this version does not know."""
    try:
        return StatusCode(header.code)
    except ValueError:
        return StatusCode.UNEXPECTED


def dlsn_of(message: Dlsn) -> DLSN:
    """Return the position in a message."""
    return DLSN(message.log_segment_sequence_number, message.entry_id, message.slot_id)


def dlsns_of(messages: Sequence[Dlsn]) -> list[DLSN]:
    """Return the positions of records in their order, which rise, as those of a log do.

    So of many in one entry only the first and the last are read: those between are what they must
    be. Positions that are not known come first, in segment 0.
    """
    found: list[DLSN] = []
    left = [(0, len(messages))] if messages else []
    while left:
        start, stop = left.pop()
        first = dlsn_of(messages[start])
        if stop - start == 1:
            found.append(first)
            continue
        last = dlsn_of(messages[stop - 1])
        count = stop - start
        if last == (first.lssn, first.entry_id, first.slot + count - 1):
            found += slots_from(first, count)
        else:
            middle = start + count // 2
            left += ((middle, stop), (start, middle))
    return found


def dlsn_message(dlsn: DLSN) -> Dlsn:
    """Return a position as a message."""
    return Dlsn(log_segment_sequence_number=dlsn.lssn, entry_id=dlsn.entry_id, slot_id=dlsn.slot)


def write_context(stream: str, tried: list[str], *covered: bytes) -> WriteContext:
    """Return the context of a request: the proxies that were asked before, and the checksum."""
    return WriteContext(tried_hosts=tried, crc32=request_checksum(stream, *covered))


def records_request(stream: str, number: int, payloads: Sequence[bytes]) -> bytes:
    """Return the encoded request of a write stream with these records.

    By hand: protobuf copies half a MiB of payloads three times, into memory that it gets from the
    system each time; that takes longer than all else that is done for a record.
    """
    crc32 = request_checksum(stream, *payloads)
    parts = [WriteStreamRequest.Records(id=number, crc32=crc32).SerializeToString()]
    size, prefix, prefixed = len(parts[0]), b"", -1
    for payload in payloads:
        length = len(payload)
        if length != prefixed:
            prefix, prefixed = _PAYLOADS_TAG + write_unsigned(length), length
        parts += (prefix, payload)
        size += len(prefix) + length
    return b"".join((_RECORDS_TAG, write_unsigned(size), *parts))
