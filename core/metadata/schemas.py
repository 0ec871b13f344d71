"""BookKeeper's protobuf messages that live in metadata nodes, built here instead of generated.

Any stops at this module's users: `ledger_metadata`, `bookie_service_info` and `underreplication`
turn messages into our own values and back. Source: BookKeeper DataFormats.proto (proto2, which
takes any bytes for a string; here they must be UTF-8, because the library would hand out bytes).
"""

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FieldProto = descriptor_pb2.FieldDescriptorProto
_Features = descriptor_pb2.FeatureSet
_PACKAGE: Final = "tailrace.metadata"
_TYPES: Final = {
    "int32": _FieldProto.TYPE_INT32,
    "int64": _FieldProto.TYPE_INT64,
    "string": _FieldProto.TYPE_STRING,
    "bytes": _FieldProto.TYPE_BYTES,
}
_LABELS: Final = {
    "required": _FieldProto.LABEL_OPTIONAL,  # and a feature: editions have no such label
    "optional": _FieldProto.LABEL_OPTIONAL,
    "repeated": _FieldProto.LABEL_REPEATED,
}

# message -> fields as "label type name number"; a type that is not a scalar is an enum or message
_MESSAGES: Final = {
    "Segment": ["repeated string ensembleMember 1", "required int64 firstEntryId 2"],
    "CustomMetadata": ["optional string key 1", "optional bytes value 2"],
    "LedgerMetadataFormat": [
        "required int32 quorumSize 1",
        "required int32 ensembleSize 2",
        "required int64 length 3",
        "optional int64 lastEntryId 4",
        "required enum:State state 5",
        "repeated Segment segment 6",
        "optional enum:DigestType digestType 7",
        "optional bytes password 8",
        "optional int32 ackQuorumSize 9",
        "optional int64 ctime 10",
        "repeated CustomMetadata customMetadata 11",
        "optional int64 cToken 12",
    ],
    "Endpoint": [
        "required string id 1",
        "required int32 port 2",
        "required string host 3",
        "required string protocol 4",
        "repeated string auth 5",
        "repeated string extensions 6",
    ],
    "Property": ["optional string key 1", "optional string value 2"],
    "LedgerRereplicationLayoutFormat": ["required string type 1", "required int32 version 2"],
    "UnderreplicatedLedgerFormat": ["repeated string replica 1", "optional int64 ctime 2"],
    "LockDataFormat": ["optional string bookieId 1"],
    "AuditorVoteFormat": ["optional string bookieId 1"],
    "CheckAllLedgersFormat": ["optional int64 checkAllLedgersCTime 1"],
    "BookieServiceInfoFormat": ["repeated Endpoint endpoints 6", "repeated Property properties 7"],
}
_ENUMS: Final = {
    "State": {"OPEN": 1, "IN_RECOVERY": 2, "CLOSED": 3},
    "DigestType": {"CRC32": 1, "HMAC": 2, "CRC32C": 3, "DUMMY": 4},
}


def _add_field(message: descriptor_pb2.DescriptorProto, declared: str) -> None:
    label, kind, name, number = declared.split()
    field = message.field.add(name=name, number=int(number), label=_LABELS[label])
    if label == "required":
        field.options.features.field_presence = _Features.LEGACY_REQUIRED
    if kind in _TYPES:
        field.type = _TYPES[kind]
        return
    enum = kind.startswith("enum:")
    field.type = _FieldProto.TYPE_ENUM if enum else _FieldProto.TYPE_MESSAGE
    field.type_name = f".{_PACKAGE}.{kind.removeprefix('enum:')}"


def _build() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(
        name="tailrace/metadata.proto",
        package=_PACKAGE,
        syntax="editions",
        edition=descriptor_pb2.EDITION_2023,
    )
    features = file.options.features  # proto2's, but for the check of strings
    features.enum_type = _Features.CLOSED
    features.repeated_field_encoding = _Features.EXPANDED
    features.utf8_validation = _Features.VERIFY
    features.json_format = _Features.LEGACY_BEST_EFFORT
    for name, values in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for value_name, number in values.items():
            enum.value.add(name=value_name, number=number)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for declared in fields:
            _add_field(message, declared)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _message_class(pool: descriptor_pool.DescriptorPool, name: str) -> Any:
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


_POOL: Final = _build()
LedgerMetadataFormat: Final = _message_class(_POOL, "LedgerMetadataFormat")
BookieServiceInfoFormat: Final = _message_class(_POOL, "BookieServiceInfoFormat")
UnderreplicatedLedgerFormat: Final = _message_class(_POOL, "UnderreplicatedLedgerFormat")
LedgerRereplicationLayoutFormat: Final = _message_class(_POOL, "LedgerRereplicationLayoutFormat")
LockDataFormat: Final = _message_class(_POOL, "LockDataFormat")
AuditorVoteFormat: Final = _message_class(_POOL, "AuditorVoteFormat")
CheckAllLedgersFormat: Final = _message_class(_POOL, "CheckAllLedgersFormat")
