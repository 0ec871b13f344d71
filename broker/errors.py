"""The one table from what goes wrong in the log to what Kafka calls it, and handlers' own errors.

A client acts on the code: on a Ⓜ code it refreshes metadata and retries, on others it fails. What
is unknown (was the batch written?) is answered with a retriable code; an idempotent producer then
retries and the sequence check tells. Source: reference Kafka 14; org.apache.kafka Errors.
"""

from tailrace.core import errors as core_errors
from tailrace.core.errors import CoreError
from tailrace.protocol.errors import ErrorCode

_TABLE: dict[type[CoreError], ErrorCode] = {
    CoreError: ErrorCode.UNKNOWN_SERVER_ERROR,
    core_errors.LedgerFenced: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    core_errors.LedgerClosed: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    core_errors.OwnershipLost: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    core_errors.OwnershipAcquireFailed: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    core_errors.NotEnoughBookies: ErrorCode.NOT_ENOUGH_REPLICAS,
    core_errors.AddEntryQuorumTimeout: ErrorCode.NOT_ENOUGH_REPLICAS,
    core_errors.InvalidQuorums: ErrorCode.INVALID_REPLICATION_FACTOR,
    core_errors.BookieUnavailable: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.EntryNotFound: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.LedgerNotFound: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.LedgerExists: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.DuplicateEntryId: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.UnauthorizedAccess: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.DigestMismatch: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.LogNotFound: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    core_errors.LogExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    core_errors.LogTruncated: ErrorCode.OFFSET_OUT_OF_RANGE,
    core_errors.AlreadyTruncatedTransaction: ErrorCode.OFFSET_OUT_OF_RANGE,
    core_errors.LogRecordTooLong: ErrorCode.MESSAGE_TOO_LARGE,
    core_errors.InvalidStreamName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    core_errors.TransactionIdOutOfOrder: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.EndOfStream: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.WriteCancelled: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    core_errors.OverCapacity: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.IdleReader: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.CorruptData: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.InvalidEnvelopedEntry: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.DLIllegalState: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.MetadataConflict: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.NoNode: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.NodeExists: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.BadVersion: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.NotEmpty: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.Unavailable: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    core_errors.AuthFailed: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    core_errors.NoAuth: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.ReadCancelled: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    core_errors.ColdStorageDisabled: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.ColdStorageUnavailable: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.ColdObjectNotFound: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.ColdObjectCorrupt: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.CannotRewrite: ErrorCode.KAFKA_STORAGE_ERROR,
    core_errors.NotYetImplemented: ErrorCode.KAFKA_STORAGE_ERROR,
}


class KafkaError(Exception):
    """A handler's own refusal, with the code that the client gets."""

    def __init__(self, code: ErrorCode, detail: str = "") -> None:
        super().__init__(f"{code.name}: {detail}" if detail else code.name)
        self.code = code
        self.detail = detail


class CloseConnection(Exception):
    """The client can only be told by closing: a failed produce with acks=0."""


def error_code(error: CoreError | KafkaError) -> ErrorCode:
    """Return what the client is told; a class without a row gets its nearest ancestor's."""
    if isinstance(error, KafkaError):
        return error.code
    return next(_TABLE[kind] for kind in type(error).__mro__ if kind in _TABLE)


def admin_error_code(error: CoreError | KafkaError) -> ErrorCode:
    """Return what who changes topics or configs is told.

    As `error_code`, but REQUEST_TIMED_OUT where somebody who produces would be told to look for the
    leader, as when the metadata store does not answer or another broker holds a stream: Kafka says
    so when its controller has not answered, and there is no leader to look for.
    """
    code = error_code(error)
    if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and isinstance(error, CoreError):
        return ErrorCode.REQUEST_TIMED_OUT
    return code
