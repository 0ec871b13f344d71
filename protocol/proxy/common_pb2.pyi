from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StatusCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATUS_CODE_UNSPECIFIED: _ClassVar[StatusCode]
    SUCCESS: _ClassVar[StatusCode]
    CLIENT_CLOSED: _ClassVar[StatusCode]
    FOUND: _ClassVar[StatusCode]
    REQUEST_DENIED: _ClassVar[StatusCode]
    TOO_LARGE_RECORD: _ClassVar[StatusCode]
    INTERNAL_SERVER_ERROR: _ClassVar[StatusCode]
    NOT_IMPLEMENTED: _ClassVar[StatusCode]
    ALREADY_CLOSED_EXCEPTION: _ClassVar[StatusCode]
    SERVICE_UNAVAILABLE: _ClassVar[StatusCode]
    LOCKING_EXCEPTION: _ClassVar[StatusCode]
    ZOOKEEPER_ERROR: _ClassVar[StatusCode]
    METADATA_EXCEPTION: _ClassVar[StatusCode]
    BK_TRANSMIT_ERROR: _ClassVar[StatusCode]
    FLUSH_TIMEOUT: _ClassVar[StatusCode]
    LOG_EMPTY: _ClassVar[StatusCode]
    LOG_NOT_FOUND: _ClassVar[StatusCode]
    TRUNCATED_TRANSACTION: _ClassVar[StatusCode]
    END_OF_STREAM: _ClassVar[StatusCode]
    TRANSACTION_OUT_OF_ORDER: _ClassVar[StatusCode]
    WRITE_EXCEPTION: _ClassVar[StatusCode]
    STREAM_UNAVAILABLE: _ClassVar[StatusCode]
    WRITE_CANCELLED_EXCEPTION: _ClassVar[StatusCode]
    OVER_CAPACITY: _ClassVar[StatusCode]
    STREAM_NOT_READY: _ClassVar[StatusCode]
    REGION_UNAVAILABLE: _ClassVar[StatusCode]
    INVALID_ENVELOPED_ENTRY: _ClassVar[StatusCode]
    UNSUPPORTED_METADATA_VERSION: _ClassVar[StatusCode]
    LOG_EXISTS: _ClassVar[StatusCode]
    CHECKSUM_FAILED: _ClassVar[StatusCode]
    TOO_MANY_STREAMS: _ClassVar[StatusCode]
    LOG_SEGMENT_NOT_FOUND: _ClassVar[StatusCode]
    END_OF_LOG_SEGMENT: _ClassVar[StatusCode]
    LOG_SEGMENT_IS_TRUNCATED: _ClassVar[StatusCode]
    UNEXPECTED: _ClassVar[StatusCode]
    INTERRUPTED: _ClassVar[StatusCode]
    INVALID_STREAM_NAME: _ClassVar[StatusCode]
    ILLEGAL_STATE: _ClassVar[StatusCode]
    RETRYABLE_READ_EXCEPTION: _ClassVar[StatusCode]
    LOG_READ_ERROR: _ClassVar[StatusCode]
    READ_CANCELLED_EXCEPTION: _ClassVar[StatusCode]
STATUS_CODE_UNSPECIFIED: StatusCode
SUCCESS: StatusCode
CLIENT_CLOSED: StatusCode
FOUND: StatusCode
REQUEST_DENIED: StatusCode
TOO_LARGE_RECORD: StatusCode
INTERNAL_SERVER_ERROR: StatusCode
NOT_IMPLEMENTED: StatusCode
ALREADY_CLOSED_EXCEPTION: StatusCode
SERVICE_UNAVAILABLE: StatusCode
LOCKING_EXCEPTION: StatusCode
ZOOKEEPER_ERROR: StatusCode
METADATA_EXCEPTION: StatusCode
BK_TRANSMIT_ERROR: StatusCode
FLUSH_TIMEOUT: StatusCode
LOG_EMPTY: StatusCode
LOG_NOT_FOUND: StatusCode
TRUNCATED_TRANSACTION: StatusCode
END_OF_STREAM: StatusCode
TRANSACTION_OUT_OF_ORDER: StatusCode
WRITE_EXCEPTION: StatusCode
STREAM_UNAVAILABLE: StatusCode
WRITE_CANCELLED_EXCEPTION: StatusCode
OVER_CAPACITY: StatusCode
STREAM_NOT_READY: StatusCode
REGION_UNAVAILABLE: StatusCode
INVALID_ENVELOPED_ENTRY: StatusCode
UNSUPPORTED_METADATA_VERSION: StatusCode
LOG_EXISTS: StatusCode
CHECKSUM_FAILED: StatusCode
TOO_MANY_STREAMS: StatusCode
LOG_SEGMENT_NOT_FOUND: StatusCode
END_OF_LOG_SEGMENT: StatusCode
LOG_SEGMENT_IS_TRUNCATED: StatusCode
UNEXPECTED: StatusCode
INTERRUPTED: StatusCode
INVALID_STREAM_NAME: StatusCode
ILLEGAL_STATE: StatusCode
RETRYABLE_READ_EXCEPTION: StatusCode
LOG_READ_ERROR: StatusCode
READ_CANCELLED_EXCEPTION: StatusCode

class Dlsn(_message.Message):
    __slots__ = ("log_segment_sequence_number", "entry_id", "slot_id")
    LOG_SEGMENT_SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    ENTRY_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_ID_FIELD_NUMBER: _ClassVar[int]
    log_segment_sequence_number: int
    entry_id: int
    slot_id: int
    def __init__(self, log_segment_sequence_number: _Optional[int] = ..., entry_id: _Optional[int] = ..., slot_id: _Optional[int] = ...) -> None: ...

class ResponseHeader(_message.Message):
    __slots__ = ("code", "error", "location")
    CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    code: StatusCode
    error: str
    location: str
    def __init__(self, code: _Optional[_Union[StatusCode, str]] = ..., error: _Optional[str] = ..., location: _Optional[str] = ...) -> None: ...
