from tailrace.protocol.proxy import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WriteContext(_message.Message):
    __slots__ = ("tried_hosts", "crc32", "is_record_set", "writer")
    TRIED_HOSTS_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    IS_RECORD_SET_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    tried_hosts: _containers.RepeatedScalarFieldContainer[str]
    crc32: int
    is_record_set: bool
    writer: WriterSequence
    def __init__(self, tried_hosts: _Optional[_Iterable[str]] = ..., crc32: _Optional[int] = ..., is_record_set: _Optional[bool] = ..., writer: _Optional[_Union[WriterSequence, _Mapping]] = ...) -> None: ...

class WriterSequence(_message.Message):
    __slots__ = ("writer_id", "sequence")
    WRITER_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    writer_id: bytes
    sequence: int
    def __init__(self, writer_id: _Optional[bytes] = ..., sequence: _Optional[int] = ...) -> None: ...

class HandshakeRequest(_message.Message):
    __slots__ = ("stream_name_regex", "get_ownerships")
    STREAM_NAME_REGEX_FIELD_NUMBER: _ClassVar[int]
    GET_OWNERSHIPS_FIELD_NUMBER: _ClassVar[int]
    stream_name_regex: str
    get_ownerships: bool
    def __init__(self, stream_name_regex: _Optional[str] = ..., get_ownerships: _Optional[bool] = ...) -> None: ...

class ServerInfo(_message.Message):
    __slots__ = ("ownerships", "server_status")
    class ServerStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SERVER_STATUS_UNSPECIFIED: _ClassVar[ServerInfo.ServerStatus]
        WRITE_AND_ACCEPT: _ClassVar[ServerInfo.ServerStatus]
        WRITE_ONLY: _ClassVar[ServerInfo.ServerStatus]
        DOWN: _ClassVar[ServerInfo.ServerStatus]
    SERVER_STATUS_UNSPECIFIED: ServerInfo.ServerStatus
    WRITE_AND_ACCEPT: ServerInfo.ServerStatus
    WRITE_ONLY: ServerInfo.ServerStatus
    DOWN: ServerInfo.ServerStatus
    class OwnershipsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    OWNERSHIPS_FIELD_NUMBER: _ClassVar[int]
    SERVER_STATUS_FIELD_NUMBER: _ClassVar[int]
    ownerships: _containers.ScalarMap[str, str]
    server_status: ServerInfo.ServerStatus
    def __init__(self, ownerships: _Optional[_Mapping[str, str]] = ..., server_status: _Optional[_Union[ServerInfo.ServerStatus, str]] = ...) -> None: ...

class StreamRequest(_message.Message):
    __slots__ = ("stream", "context")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    stream: str
    context: WriteContext
    def __init__(self, stream: _Optional[str] = ..., context: _Optional[_Union[WriteContext, _Mapping]] = ...) -> None: ...

class WriteRequest(_message.Message):
    __slots__ = ("stream", "payload", "context")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    stream: str
    payload: bytes
    context: WriteContext
    def __init__(self, stream: _Optional[str] = ..., payload: _Optional[bytes] = ..., context: _Optional[_Union[WriteContext, _Mapping]] = ...) -> None: ...

class WriteResponse(_message.Message):
    __slots__ = ("header", "dlsn")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DLSN_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    dlsn: _common_pb2.Dlsn
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., dlsn: _Optional[_Union[_common_pb2.Dlsn, _Mapping]] = ...) -> None: ...

class WriteBulkRequest(_message.Message):
    __slots__ = ("stream", "payloads", "context")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    stream: str
    payloads: _containers.RepeatedScalarFieldContainer[bytes]
    context: WriteContext
    def __init__(self, stream: _Optional[str] = ..., payloads: _Optional[_Iterable[bytes]] = ..., context: _Optional[_Union[WriteContext, _Mapping]] = ...) -> None: ...

class WriteBulkResponse(_message.Message):
    __slots__ = ("header", "responses")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    responses: _containers.RepeatedCompositeFieldContainer[WriteResponse]
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., responses: _Optional[_Iterable[_Union[WriteResponse, _Mapping]]] = ...) -> None: ...

class WriteStreamRequest(_message.Message):
    __slots__ = ("open", "records")
    class Open(_message.Message):
        __slots__ = ("stream", "context")
        STREAM_FIELD_NUMBER: _ClassVar[int]
        CONTEXT_FIELD_NUMBER: _ClassVar[int]
        stream: str
        context: WriteContext
        def __init__(self, stream: _Optional[str] = ..., context: _Optional[_Union[WriteContext, _Mapping]] = ...) -> None: ...
    class Records(_message.Message):
        __slots__ = ("id", "payloads", "crc32")
        ID_FIELD_NUMBER: _ClassVar[int]
        PAYLOADS_FIELD_NUMBER: _ClassVar[int]
        CRC32_FIELD_NUMBER: _ClassVar[int]
        id: int
        payloads: _containers.RepeatedScalarFieldContainer[bytes]
        crc32: int
        def __init__(self, id: _Optional[int] = ..., payloads: _Optional[_Iterable[bytes]] = ..., crc32: _Optional[int] = ...) -> None: ...
    OPEN_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    open: WriteStreamRequest.Open
    records: WriteStreamRequest.Records
    def __init__(self, open: _Optional[_Union[WriteStreamRequest.Open, _Mapping]] = ..., records: _Optional[_Union[WriteStreamRequest.Records, _Mapping]] = ...) -> None: ...

class WriteStreamResponse(_message.Message):
    __slots__ = ("id", "header", "dlsns")
    ID_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DLSNS_FIELD_NUMBER: _ClassVar[int]
    id: int
    header: _common_pb2.ResponseHeader
    dlsns: _containers.RepeatedCompositeFieldContainer[_common_pb2.Dlsn]
    def __init__(self, id: _Optional[int] = ..., header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., dlsns: _Optional[_Iterable[_Union[_common_pb2.Dlsn, _Mapping]]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("stream", "context", "send_heartbeat_to_reader")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SEND_HEARTBEAT_TO_READER_FIELD_NUMBER: _ClassVar[int]
    stream: str
    context: WriteContext
    send_heartbeat_to_reader: bool
    def __init__(self, stream: _Optional[str] = ..., context: _Optional[_Union[WriteContext, _Mapping]] = ..., send_heartbeat_to_reader: _Optional[bool] = ...) -> None: ...

class TruncateRequest(_message.Message):
    __slots__ = ("stream", "dlsn", "context")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    DLSN_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    stream: str
    dlsn: _common_pb2.Dlsn
    context: WriteContext
    def __init__(self, stream: _Optional[str] = ..., dlsn: _Optional[_Union[_common_pb2.Dlsn, _Mapping]] = ..., context: _Optional[_Union[WriteContext, _Mapping]] = ...) -> None: ...

class SetAcceptNewStreamRequest(_message.Message):
    __slots__ = ("enabled",)
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    def __init__(self, enabled: _Optional[bool] = ...) -> None: ...
