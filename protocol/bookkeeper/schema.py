"""BookKeeper's protobuf messages (proto2), built here from a table instead of generated code.

Field numbers and labels are BookkeeperProtocol.proto's. One difference: enums are declared int32,
which has the same bytes, so that a number that we do not know can be read and answered.

Source: reference BookKeeper 1.4.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

_PACKAGE = "tailrace.bookkeeper"
_TYPES = {
    "enum": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "uint32": descriptor_pb2.FieldDescriptorProto.TYPE_UINT32,
    "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
}
_LABELS = {
    "required": descriptor_pb2.FieldDescriptorProto.LABEL_REQUIRED,
    "optional": descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
    "repeated": descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED,
}

SCHEMA = """
BKPacketHeader
  required enum version = 1
  required enum operation = 2
  required uint64 txnId = 3
  optional uint32 priority = 4
ContextPair
  required string key = 1
  required string value = 2
ReadRequest
  optional enum flag = 100
  required int64 ledgerId = 1
  required int64 entryId = 2
  optional bytes masterKey = 3
  optional int64 previousLAC = 4
  optional int64 timeOut = 5
AddRequest
  optional enum flag = 100
  required int64 ledgerId = 1
  required int64 entryId = 2
  required bytes masterKey = 3
  required bytes body = 4
  optional int32 writeFlags = 5
StartTLSRequest
WriteLacRequest
  required int64 ledgerId = 1
  required int64 lac = 2
  required bytes masterKey = 3
  required bytes body = 4
ForceLedgerRequest
  required int64 ledgerId = 1
ReadLacRequest
  required int64 ledgerId = 1
GetBookieInfoRequest
  optional int64 requested = 1
GetListOfEntriesOfLedgerRequest
  required int64 ledgerId = 1
AuthMessage
  required string authPluginName = 1
  required bytes payload = 2
ReadResponse
  required enum status = 1
  required int64 ledgerId = 2
  required int64 entryId = 3
  optional bytes body = 4
  optional int64 maxLAC = 5
  optional int64 lacUpdateTimestamp = 6
AddResponse
  required enum status = 1
  required int64 ledgerId = 2
  required int64 entryId = 3
StartTLSResponse
WriteLacResponse
  required enum status = 1
  required int64 ledgerId = 2
ForceLedgerResponse
  required enum status = 1
  required int64 ledgerId = 2
ReadLacResponse
  required enum status = 1
  required int64 ledgerId = 2
  optional bytes lacBody = 3
  optional bytes lastEntryBody = 4
GetBookieInfoResponse
  required enum status = 1
  optional int64 totalDiskCapacity = 2
  optional int64 freeDiskSpace = 3
GetListOfEntriesOfLedgerResponse
  required enum status = 1
  required int64 ledgerId = 2
  optional bytes availabilityOfEntriesOfLedger = 3
Request
  required BKPacketHeader header = 1
  optional ReadRequest readRequest = 100
  optional AddRequest addRequest = 101
  optional AuthMessage authRequest = 102
  optional WriteLacRequest writeLacRequest = 103
  optional ReadLacRequest readLacRequest = 104
  optional GetBookieInfoRequest getBookieInfoRequest = 105
  optional StartTLSRequest startTLSRequest = 106
  optional ForceLedgerRequest forceLedgerRequest = 107
  optional GetListOfEntriesOfLedgerRequest getListOfEntriesOfLedgerRequest = 108
  repeated ContextPair requestContext = 200
Response
  required BKPacketHeader header = 1
  required enum status = 2
  optional ReadResponse readResponse = 100
  optional AddResponse addResponse = 101
  optional AuthMessage authResponse = 102
  optional WriteLacResponse writeLacResponse = 103
  optional ReadLacResponse readLacResponse = 104
  optional GetBookieInfoResponse getBookieInfoResponse = 105
  optional StartTLSResponse startTLSResponse = 106
  optional ForceLedgerResponse forceLedgerResponse = 107
  optional GetListOfEntriesOfLedgerResponse getListOfEntriesOfLedgerResponse = 108
"""


def _build() -> dict[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(
        name="tailrace/bookkeeper.proto", package=_PACKAGE, syntax="proto2"
    )
    message = file.message_type.add()
    file.message_type.pop()
    for line in SCHEMA.strip().splitlines():
        if not line.startswith(" "):
            message = file.message_type.add(name=line)
            continue
        label, kind, name, _, number = line.split()
        field = message.field.add(name=name, number=int(number), label=_LABELS[label])
        if kind in _TYPES:
            field.type = _TYPES[kind]
        else:
            field.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
            field.type_name = f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = (message.name for message in file.message_type)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in names
    }


MESSAGES: dict[str, Any] = _build()
"""Message classes by BookKeeper's names. Any: their fields exist only at run time."""
