from tailrace.protocol.proxy import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListStreamsRequest(_message.Message):
    __slots__ = ("stream_name_regex",)
    STREAM_NAME_REGEX_FIELD_NUMBER: _ClassVar[int]
    stream_name_regex: str
    def __init__(self, stream_name_regex: _Optional[str] = ...) -> None: ...

class StreamLoad(_message.Message):
    __slots__ = ("stream", "records_per_second", "bytes_per_second")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    RECORDS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    stream: str
    records_per_second: float
    bytes_per_second: float
    def __init__(self, stream: _Optional[str] = ..., records_per_second: _Optional[float] = ..., bytes_per_second: _Optional[float] = ...) -> None: ...

class ListStreamsResponse(_message.Message):
    __slots__ = ("streams",)
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    streams: _containers.RepeatedCompositeFieldContainer[StreamLoad]
    def __init__(self, streams: _Optional[_Iterable[_Union[StreamLoad, _Mapping]]] = ...) -> None: ...

class ReleaseToRequest(_message.Message):
    __slots__ = ("stream", "location")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    stream: str
    location: str
    def __init__(self, stream: _Optional[str] = ..., location: _Optional[str] = ...) -> None: ...

class ReleaseToResponse(_message.Message):
    __slots__ = ("header",)
    HEADER_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ...) -> None: ...
