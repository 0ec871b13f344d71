from tailrace.protocol.proxy import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LogRecord(_message.Message):
    __slots__ = ("dlsn", "transaction_id", "sequence_id", "payload")
    DLSN_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_ID_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    dlsn: _common_pb2.Dlsn
    transaction_id: int
    sequence_id: int
    payload: bytes
    def __init__(self, dlsn: _Optional[_Union[_common_pb2.Dlsn, _Mapping]] = ..., transaction_id: _Optional[int] = ..., sequence_id: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

class ReadRequest(_message.Message):
    __slots__ = ("stream", "edge", "dlsn", "transaction_id", "behind", "records_max", "tail")
    class Edge(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OLDEST: _ClassVar[ReadRequest.Edge]
        LATEST: _ClassVar[ReadRequest.Edge]
    OLDEST: ReadRequest.Edge
    LATEST: ReadRequest.Edge
    class Behind(_message.Message):
        __slots__ = ("dlsn", "transaction_id", "ledger_id", "taken")
        DLSN_FIELD_NUMBER: _ClassVar[int]
        TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
        LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
        TAKEN_FIELD_NUMBER: _ClassVar[int]
        dlsn: _common_pb2.Dlsn
        transaction_id: int
        ledger_id: int
        taken: int
        def __init__(self, dlsn: _Optional[_Union[_common_pb2.Dlsn, _Mapping]] = ..., transaction_id: _Optional[int] = ..., ledger_id: _Optional[int] = ..., taken: _Optional[int] = ...) -> None: ...
    STREAM_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    DLSN_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    RECORDS_MAX_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    stream: str
    edge: ReadRequest.Edge
    dlsn: _common_pb2.Dlsn
    transaction_id: int
    behind: ReadRequest.Behind
    records_max: int
    tail: bool
    def __init__(self, stream: _Optional[str] = ..., edge: _Optional[_Union[ReadRequest.Edge, str]] = ..., dlsn: _Optional[_Union[_common_pb2.Dlsn, _Mapping]] = ..., transaction_id: _Optional[int] = ..., behind: _Optional[_Union[ReadRequest.Behind, _Mapping]] = ..., records_max: _Optional[int] = ..., tail: _Optional[bool] = ...) -> None: ...

class ReadResponse(_message.Message):
    __slots__ = ("header", "records", "at_tail", "ledger_id")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    AT_TAIL_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    records: _containers.RepeatedCompositeFieldContainer[LogRecord]
    at_tail: bool
    ledger_id: int
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., records: _Optional[_Iterable[_Union[LogRecord, _Mapping]]] = ..., at_tail: _Optional[bool] = ..., ledger_id: _Optional[int] = ...) -> None: ...

class ReadLastRequest(_message.Message):
    __slots__ = ("stream",)
    STREAM_FIELD_NUMBER: _ClassVar[int]
    stream: str
    def __init__(self, stream: _Optional[str] = ...) -> None: ...

class ReadLastResponse(_message.Message):
    __slots__ = ("header", "record")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    record: LogRecord
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., record: _Optional[_Union[LogRecord, _Mapping]] = ...) -> None: ...

class ListSegmentsRequest(_message.Message):
    __slots__ = ("stream", "from_log_segment_sequence_number")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FROM_LOG_SEGMENT_SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    stream: str
    from_log_segment_sequence_number: int
    def __init__(self, stream: _Optional[str] = ..., from_log_segment_sequence_number: _Optional[int] = ...) -> None: ...

class LogSegment(_message.Message):
    __slots__ = ("log_segment_sequence_number", "first_transaction_id", "last_transaction_id", "last_dlsn", "record_count", "completion_time_ms", "in_progress", "truncation_status", "min_active_dlsn")
    class TruncationStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ACTIVE: _ClassVar[LogSegment.TruncationStatus]
        PARTIALLY_TRUNCATED: _ClassVar[LogSegment.TruncationStatus]
        TRUNCATED: _ClassVar[LogSegment.TruncationStatus]
    ACTIVE: LogSegment.TruncationStatus
    PARTIALLY_TRUNCATED: LogSegment.TruncationStatus
    TRUNCATED: LogSegment.TruncationStatus
    LOG_SEGMENT_SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    FIRST_TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_TRANSACTION_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_DLSN_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_STATUS_FIELD_NUMBER: _ClassVar[int]
    MIN_ACTIVE_DLSN_FIELD_NUMBER: _ClassVar[int]
    log_segment_sequence_number: int
    first_transaction_id: int
    last_transaction_id: int
    last_dlsn: _common_pb2.Dlsn
    record_count: int
    completion_time_ms: int
    in_progress: bool
    truncation_status: LogSegment.TruncationStatus
    min_active_dlsn: _common_pb2.Dlsn
    def __init__(self, log_segment_sequence_number: _Optional[int] = ..., first_transaction_id: _Optional[int] = ..., last_transaction_id: _Optional[int] = ..., last_dlsn: _Optional[_Union[_common_pb2.Dlsn, _Mapping]] = ..., record_count: _Optional[int] = ..., completion_time_ms: _Optional[int] = ..., in_progress: _Optional[bool] = ..., truncation_status: _Optional[_Union[LogSegment.TruncationStatus, str]] = ..., min_active_dlsn: _Optional[_Union[_common_pb2.Dlsn, _Mapping]] = ...) -> None: ...

class ListSegmentsResponse(_message.Message):
    __slots__ = ("header", "segments", "has_more")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    header: _common_pb2.ResponseHeader
    segments: _containers.RepeatedCompositeFieldContainer[LogSegment]
    has_more: bool
    def __init__(self, header: _Optional[_Union[_common_pb2.ResponseHeader, _Mapping]] = ..., segments: _Optional[_Iterable[_Union[LogSegment, _Mapping]]] = ..., has_more: _Optional[bool] = ...) -> None: ...
