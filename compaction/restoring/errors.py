"""Why a restore ends early: cause, place, remedy. What was saved before stays as it was."""

from tailrace.protocol.errors import ErrorCode


class RestoreError(Exception):
    """Ends a restore. `cause` says what is wrong, `place` where, `remedy` what to try."""

    def __init__(self, cause: str, *, place: str = "", remedy: str = "") -> None:
        super().__init__(f"{place}: {cause}" if place else cause)
        self.cause = cause
        self.place = place
        self.remedy = remedy


class Unreachable(RestoreError):
    """No broker answered in time."""


class TopicGone(RestoreError):
    """The topic, or a partition of it, does not exist (any more)."""


class LogTruncated(RestoreError):
    """Records between the position and the end were deleted before they were read."""


class CorruptBatch(RestoreError):
    """A batch does not match its checksum, or is no batch."""


class WrongCheckpoint(RestoreError):
    """What was saved belongs to something else."""


class Refused(RestoreError):
    """The broker refuses the request, and asking again would not help."""


class Transient(Exception):
    """Ask again, after a look at who leads. Never leaves the package: `Unreachable` does, in time.

    `place` is the broker or the partition.
    """

    def __init__(self, cause: str, place: str) -> None:
        super().__init__(f"{place}: {cause}")
        self.cause = cause
        self.place = place


_TRANSIENT = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""A broker that has just started does not know a topic yet, so even that is asked again."""

_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_DENIED = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


_CODES = frozenset(ErrorCode)


def check(code: int, place: str) -> None:
    """Let an answer without an error pass. Errors: Transient, RestoreError."""
    if not code:
        return
    name = ErrorCode(code).name if code in _CODES else "an unknown error"
    if code in _TRANSIENT:
        raise Transient(f"{name} ({code})", place)
    remedy = "allow READ and DESCRIBE on the topic" if code in _DENIED else ""
    raise Refused(f"{name} ({code})", place=place, remedy=remedy)


def is_gone(code: int) -> bool:
    """Say whether an error means that the topic is not there."""
    return code in _GONE
