"""DistributedLog's status codes, and the one table from core's errors to them. Pure.

A thin client acts on the code: it fails the call, or takes another proxy (reference 9.4). Whether a
record of a failed write is in the log is not known, unless the code says that nothing was written.
Source: reference DistributedLog 9.1; thrift StatusCode of DistributedLogService.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from tailrace.core import errors
from tailrace.core.errors import CoreError


class StatusCode(IntEnum):
    """What became of a request."""

    SUCCESS = 200
    CLIENT_CLOSED = 301
    FOUND = 302
    """Another proxy owns the stream; the answer has its location."""
    REQUEST_DENIED = 403
    TOO_LARGE_RECORD = 413
    INTERNAL_SERVER_ERROR = 500
    NOT_IMPLEMENTED = 501
    ALREADY_CLOSED_EXCEPTION = 502
    SERVICE_UNAVAILABLE = 503
    """The proxy takes no request, or no new stream: another one may."""
    LOCKING_EXCEPTION = 504
    ZOOKEEPER_ERROR = 505
    METADATA_EXCEPTION = 506
    BK_TRANSMIT_ERROR = 507
    FLUSH_TIMEOUT = 508
    LOG_EMPTY = 509
    LOG_NOT_FOUND = 510
    TRUNCATED_TRANSACTION = 511
    END_OF_STREAM = 512
    TRANSACTION_OUT_OF_ORDER = 513
    WRITE_EXCEPTION = 514
    STREAM_UNAVAILABLE = 515
    """The proxy does not serve this stream now: another one may."""
    WRITE_CANCELLED_EXCEPTION = 516
    OVER_CAPACITY = 517
    """A limit is reached; nothing was written."""
    STREAM_NOT_READY = 518
    REGION_UNAVAILABLE = 519
    INVALID_ENVELOPED_ENTRY = 520
    UNSUPPORTED_METADATA_VERSION = 521
    LOG_EXISTS = 522
    CHECKSUM_FAILED = 523
    TOO_MANY_STREAMS = 524
    """The proxy owns, or knows, as many streams as it may: another one may take this one."""
    LOG_SEGMENT_NOT_FOUND = 525
    END_OF_LOG_SEGMENT = 526
    LOG_SEGMENT_IS_TRUNCATED = 527
    UNEXPECTED = 600
    INTERRUPTED = 601
    INVALID_STREAM_NAME = 602
    ILLEGAL_STATE = 603
    RETRYABLE_READ_EXCEPTION = 1000
    LOG_READ_ERROR = 1001
    READ_CANCELLED_EXCEPTION = 1002


class ServerStatus(IntEnum):
    """Which requests a proxy takes."""

    WRITE_AND_ACCEPT = 100
    WRITE_ONLY = 200
    """Only those of streams that it has: it is drained."""
    DOWN = 300


class StreamReserved(CoreError):
    """A stream is not for thin clients, as a partition of Kafka's; the text says whose it is."""


_TABLE: Final[Mapping[type[CoreError], StatusCode]] = {
    CoreError: StatusCode.UNEXPECTED,
    StreamReserved: StatusCode.REQUEST_DENIED,
    errors.LedgerFenced: StatusCode.BK_TRANSMIT_ERROR,
    errors.LedgerClosed: StatusCode.BK_TRANSMIT_ERROR,
    errors.OwnershipLost: StatusCode.LOCKING_EXCEPTION,
    errors.OwnershipAcquireFailed: StatusCode.FOUND,
    errors.NotEnoughBookies: StatusCode.BK_TRANSMIT_ERROR,
    errors.AddEntryQuorumTimeout: StatusCode.BK_TRANSMIT_ERROR,
    errors.InvalidQuorums: StatusCode.ILLEGAL_STATE,
    errors.BookieUnavailable: StatusCode.BK_TRANSMIT_ERROR,
    errors.EntryNotFound: StatusCode.LOG_READ_ERROR,
    errors.LedgerNotFound: StatusCode.LOG_SEGMENT_NOT_FOUND,
    errors.LedgerExists: StatusCode.BK_TRANSMIT_ERROR,
    errors.DuplicateEntryId: StatusCode.BK_TRANSMIT_ERROR,
    errors.UnauthorizedAccess: StatusCode.BK_TRANSMIT_ERROR,
    errors.DigestMismatch: StatusCode.BK_TRANSMIT_ERROR,
    errors.LogNotFound: StatusCode.LOG_NOT_FOUND,
    errors.LogExists: StatusCode.LOG_EXISTS,
    errors.LogTruncated: StatusCode.LOG_SEGMENT_IS_TRUNCATED,
    errors.AlreadyTruncatedTransaction: StatusCode.TRUNCATED_TRANSACTION,
    errors.LogRecordTooLong: StatusCode.TOO_LARGE_RECORD,
    errors.InvalidStreamName: StatusCode.INVALID_STREAM_NAME,
    errors.TransactionIdOutOfOrder: StatusCode.TRANSACTION_OUT_OF_ORDER,
    errors.EndOfStream: StatusCode.END_OF_STREAM,
    errors.WriteCancelled: StatusCode.WRITE_CANCELLED_EXCEPTION,
    errors.OverCapacity: StatusCode.OVER_CAPACITY,
    errors.IdleReader: StatusCode.RETRYABLE_READ_EXCEPTION,
    errors.CorruptData: StatusCode.METADATA_EXCEPTION,
    errors.InvalidEnvelopedEntry: StatusCode.INVALID_ENVELOPED_ENTRY,
    errors.DLIllegalState: StatusCode.ILLEGAL_STATE,
    errors.MetadataConflict: StatusCode.ZOOKEEPER_ERROR,
    errors.NoNode: StatusCode.ZOOKEEPER_ERROR,
    errors.NodeExists: StatusCode.ZOOKEEPER_ERROR,
    errors.BadVersion: StatusCode.ZOOKEEPER_ERROR,
    errors.NotEmpty: StatusCode.ZOOKEEPER_ERROR,
    errors.Unavailable: StatusCode.STREAM_UNAVAILABLE,
    errors.AuthFailed: StatusCode.STREAM_UNAVAILABLE,
    errors.NoAuth: StatusCode.ZOOKEEPER_ERROR,
    errors.ReadCancelled: StatusCode.READ_CANCELLED_EXCEPTION,
    errors.ColdStorageDisabled: StatusCode.ILLEGAL_STATE,
    errors.ColdStorageUnavailable: StatusCode.STREAM_UNAVAILABLE,
    errors.ColdObjectNotFound: StatusCode.LOG_SEGMENT_NOT_FOUND,
    errors.ColdObjectCorrupt: StatusCode.LOG_READ_ERROR,
    errors.CannotRewrite: StatusCode.ILLEGAL_STATE,
    errors.NotYetImplemented: StatusCode.NOT_IMPLEMENTED,
}


def status_code(error: CoreError) -> StatusCode:
    """Return the code of an error of core; a class without a row has its nearest ancestor's.

    Shape: FOUND for OwnershipAcquireFailed; `operations.answer_of` gives the location.
    Errors: none. Source: DLException.getCode, ResponseUtils.exceptionToHeader.
    """
    return next(_TABLE[kind] for kind in type(error).__mro__ if kind in _TABLE)
