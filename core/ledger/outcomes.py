"""What a bookie's status means to whoever uses the ledger: one table, and which error wins.

When several replicas fail a read, the caller hears the answer that says most: a replica that failed
says more than one that could not be reached, and both more than one that has nothing, because "not
found" may only be said when all say it. Source: BookKeeper BKException mapping, PendingReadOp.
"""

from typing import Final

from tailrace.core.errors import (
    BookieUnavailable,
    CoreError,
    CorruptData,
    EntryNotFound,
    LedgerFenced,
    LedgerNotFound,
    NotEnoughBookies,
    OverCapacity,
    UnauthorizedAccess,
)
from tailrace.protocol.bookkeeper.messages import StatusCode

ABSENT: Final = frozenset({StatusCode.ENOENTRY, StatusCode.ENOLEDGER})
"""The only answers that prove that a bookie does not hold an entry."""

UNRECOVERABLE_ADD: Final = frozenset({StatusCode.EFENCED, StatusCode.EUA})
"""Answers to an add that no other bookie can make good."""

BLAMELESS: Final = ABSENT | {StatusCode.EFENCED, StatusCode.EUA}
"""Answers that say nothing against the bookie that gave them."""

UNREACHED: Final = frozenset({StatusCode.LOCAL_UNAVAILABLE, StatusCode.EREADONLY})
"""Answers that make another bookie the better choice, and are no error of this one."""

_ERRORS: Final[dict[StatusCode, type[CoreError]]] = {
    StatusCode.ENOENTRY: EntryNotFound,
    StatusCode.ENOLEDGER: LedgerNotFound,
    StatusCode.EFENCED: LedgerFenced,
    StatusCode.EUA: UnauthorizedAccess,
    StatusCode.EREADONLY: NotEnoughBookies,
    StatusCode.ETOOMANYREQUESTS: OverCapacity,
    StatusCode.EIO: CorruptData,
    StatusCode.EUNKNOWNLEDGERSTATE: CorruptData,
    StatusCode.LOCAL_TIMEOUT: BookieUnavailable,
    StatusCode.LOCAL_UNAVAILABLE: BookieUnavailable,
}


def error_of(status: StatusCode, what: str) -> CoreError:
    """Return the error for an answer that is not EOK; `what` says which request failed."""
    kind = _ERRORS.get(status, CoreError)
    return kind(f"{what}: {status.name}")


def add_error_of(status: StatusCode, what: str) -> CoreError:
    """Return the error for a failed add: a bookie's disk error means one bookie less."""
    if status is StatusCode.EIO:
        return NotEnoughBookies(f"{what}: EIO")
    return error_of(status, what)


def worse(first: CoreError | None, second: CoreError) -> CoreError:
    """Return which of two replicas' errors the caller hears; the first one among equals."""
    if first is None or _weight(second) > _weight(first):
        return second
    return first


def _weight(error: CoreError) -> int:
    if isinstance(error, EntryNotFound | LedgerNotFound):
        return 0
    return 1 if isinstance(error, BookieUnavailable) else 2
