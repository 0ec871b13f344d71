"""How a request to a proxy fails: core's error of its code, with the stream, the host, the code.

except dlog.LogNotFound       what went wrong, as with an embedded log
except dlog.ProxyError        that it came from a proxy: `code`, `stream`, `host`
"""

from collections.abc import Mapping
from typing import Final

from tailrace.core import errors
from tailrace.core.errors import CoreError
from tailrace.proxy.client.reactions import Outcome, Trouble
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.routing.ring import Host


class ProxyError(CoreError):
    """A request to a proxy failed. Each one is an error of core as well, by its code."""

    code: StatusCode | None = None
    """What the last proxy answered; None: no answer came."""
    stream: str = ""
    host: Host | None = None
    """The proxy that was asked last; None: none was known."""
    is_unknown: bool = False
    """Whether what was asked may have been done."""


class Failures:
    """The first failure of some records, for a caller that asks after all of them."""

    def __init__(self) -> None:
        self._first: ProxyError | None = None

    def note(self, error: ProxyError) -> None:
        """Keep a failure, unless there is one already."""
        if self._first is None:
            self._first = error

    def raise_first(self) -> None:
        """Raise what was kept, once. Errors: ProxyError."""
        first, self._first = self._first, None
        if first is not None:
            raise first


_KINDS: Final[Mapping[Outcome, type[CoreError]]] = {
    StatusCode.REQUEST_DENIED: CoreError,
    StatusCode.TOO_LARGE_RECORD: errors.LogRecordTooLong,
    StatusCode.NOT_IMPLEMENTED: errors.NotYetImplemented,
    StatusCode.FOUND: errors.OwnershipLost,
    StatusCode.LOCKING_EXCEPTION: errors.OwnershipLost,
    StatusCode.METADATA_EXCEPTION: errors.CorruptData,
    StatusCode.ZOOKEEPER_ERROR: errors.MetadataConflict,
    StatusCode.BK_TRANSMIT_ERROR: errors.NotEnoughBookies,
    StatusCode.LOG_NOT_FOUND: errors.LogNotFound,
    StatusCode.LOG_EXISTS: errors.LogExists,
    StatusCode.TRUNCATED_TRANSACTION: errors.AlreadyTruncatedTransaction,
    StatusCode.LOG_SEGMENT_IS_TRUNCATED: errors.LogTruncated,
    StatusCode.END_OF_STREAM: errors.EndOfStream,
    StatusCode.TRANSACTION_OUT_OF_ORDER: errors.TransactionIdOutOfOrder,
    StatusCode.WRITE_CANCELLED_EXCEPTION: errors.WriteCancelled,
    StatusCode.OVER_CAPACITY: errors.OverCapacity,
    StatusCode.TOO_MANY_STREAMS: errors.OverCapacity,
    StatusCode.INVALID_ENVELOPED_ENTRY: errors.InvalidEnvelopedEntry,
    StatusCode.UNSUPPORTED_METADATA_VERSION: errors.CorruptData,
    StatusCode.ILLEGAL_STATE: errors.DLIllegalState,
    StatusCode.CHECKSUM_FAILED: errors.CorruptData,
    StatusCode.INVALID_STREAM_NAME: errors.InvalidStreamName,
    StatusCode.LOG_SEGMENT_NOT_FOUND: errors.LedgerNotFound,
    StatusCode.LOG_READ_ERROR: errors.EntryNotFound,
    StatusCode.UNEXPECTED: CoreError,
    StatusCode.INTERNAL_SERVER_ERROR: CoreError,
    Trouble.REFUSED: CoreError,
    Trouble.TOO_LARGE: errors.OverCapacity,
}


def error_kind(outcome: Outcome | None) -> type[ProxyError]:
    """Return the class of an outcome's error: a ProxyError, and core's. None: no proxy was known.

    LOG_EMPTY has no error: it is an answer.
    """
    kind = errors.Unavailable if outcome is None else _KINDS.get(outcome, errors.Unavailable)
    return _kind(kind)


def proxy_error(
    outcome: Outcome | None,
    text: str,
    stream: str,
    host: Host | None = None,
    *,
    is_unknown: bool = False,
) -> ProxyError:
    """Return the error of a request that failed; its text has the place and what is unknown."""
    at = "" if host is None else f" at {host.name}:{host.port}"
    name = "" if outcome is None else f"{outcome.name}: "
    doubt = "; it may have been done" if is_unknown else ""
    error = error_kind(outcome)(f"stream {stream!r}{at}: {name}{text}{doubt}")
    error.code = outcome if isinstance(outcome, StatusCode) else None
    error.stream, error.host, error.is_unknown = stream, host, is_unknown
    return error


def _kind(kind: type[CoreError]) -> type[ProxyError]:
    if kind not in _MADE:
        _MADE[kind] = type(kind.__name__, (ProxyError, kind), {"__doc__": kind.__doc__})
    return _MADE[kind]


_MADE: Final[dict[type[CoreError], type[ProxyError]]] = {CoreError: ProxyError}
