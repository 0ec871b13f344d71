"""What a proxy's peers send over gRPC, and what it keeps in its streams."""

import struct
from typing import Any, Final

from google.protobuf.message import Message

from tailrace.core.errors import CorruptData, DLIllegalState
from tailrace.core.log.owner_records import pack_delta, read_delta
from tailrace.protocol.errors import BadLength, BufferUnderflow
from tailrace.protocol.ids import EntryId, TxId
from tailrace.protocol.proxy.methods import PROXY_ADMIN, READ_PROXY, WRITE_PROXY
from tailrace.protocol.proxy.write_proxy_pb2 import WriteContext
from tailrace.proxy.owner.writer_state import WriterState
from tailrace.proxy.service.grpc_server import decode
from tailrace.proxy.service.invalid import InvalidRequest
from tests.fuzz.target import Target
from tests.proxy_client import opening, records

_METHODS: Final = tuple(
    method
    for service in (WRITE_PROXY, READ_PROXY, PROXY_ADMIN)
    for method in service.methods.values()
)


def _request(data: bytes) -> tuple[int, bytes]:
    """Read a request; the first byte says of which method. Return it as it is encoded again."""
    number = (data[0] if data else 0) % len(_METHODS)
    request = decode(_METHODS[number].request, data[1:])
    return number, request.SerializeToString(deterministic=True)


def _sample(kind: type[Message]) -> Any:
    """Return a request with a little in each field."""
    context = WriteContext(tried_hosts=["h:1"], crc32=7, is_record_set=True)
    context.writer.writer_id = b"w"
    values: dict[str, Any] = {
        "stream": "s", "payload": b"p", "payloads": [b"a", b""], "context": context,
        "records_max": 5, "transaction_id": 3, "stream_name_regex": "s.*",
        "location": "1;0;h:1",
    }  # fmt: skip
    names = [each.name for each in kind.DESCRIPTOR.fields]
    return kind(**{name: value for name, value in values.items() if name in names})


def _writers(data: bytes) -> bytes:
    """Read what a stream keeps of its writers: a control record's delta, or else a snapshot."""
    state = WriterState(10_000, 1 << 64)
    delta = read_delta(data)
    if delta is None:
        for _ in state.restoring(data):
            pass
    else:
        state.apply(1, EntryId(2), TxId(3), delta)
    return state.snapshot()


_DELTAS: Final = tuple(
    pack_delta(delta)
    for delta in (
        b"",
        b"\x01w" + struct.pack(">qII", 0, 2, 0),
        b"\x01w" + struct.pack(">qII", 5, 1, 3) + b"\x00" + struct.pack(">qII", 6, 9, 4),
        b"\x02ab" + struct.pack(">qII", 0, 1, 0) + b"\x01w" + struct.pack(">qII", 0, 1, 1),
    )
)

_BEYOND: Final = pack_delta(b"\x01w" + struct.pack(">qII", 2**63 - 1, 2, 0))
"""Its next number is none that a snapshot could keep."""

TARGETS = (
    Target(
        name="stream-writers",
        decode=_writers,
        encode=lambda value: value,
        errors=(BufferUnderflow, BadLength, DLIllegalState, CorruptData),
        seeds=lambda: [*_DELTAS, *map(_writers, _DELTAS), _BEYOND],
        memory_per_byte=400,
        dictionary=(b"TRWS\x01", b"TRD1", b"\x00", b"\xff" * 8, b"\x40"),
    ),
    Target(
        name="proxy-request",
        decode=_request,
        encode=lambda value: bytes((value[0],)) + value[1],
        errors=(InvalidRequest,),
        seeds=lambda: [
            *(
                bytes((number,)) + _sample(each.request).SerializeToString()
                for number, each in enumerate(_METHODS)
            ),
            bytes((_STREAM,)) + opening("s", crc32=1).SerializeToString(),
            bytes((_STREAM,)) + records(3, [b"a", b"b"], crc32=1).SerializeToString(),
            bytes((_STREAM,)) + b"\x13" * 200,
        ],
        bytes_max=8192,
        dictionary=(b"\x0a\x00", b"\x12\x00", b"\x1a\x00", b"\x0b\x0c", b"\xff" * 9 + b"\x01"),
    ),
)
_STREAM: Final = [each.name for each in _METHODS].index("write_stream")
