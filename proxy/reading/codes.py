"""How a read ends that fails: the codes of core's errors, where they differ from a writer's. Pure.

Source: reference DistributedLog 9.1; RetryableReadException, LogReadException.
"""

from typing import Final, NamedTuple

from tailrace.core.errors import (
    BookieUnavailable,
    ColdObjectNotFound,
    CoreError,
    CorruptData,
    EntryNotFound,
    IdleReader,
    LedgerNotFound,
    NotEnoughBookies,
    ReadCancelled,
    Unavailable,
)
from tailrace.proxy.owner.codes import StatusCode, status_code

_ERROR_CHARACTERS: Final = 1_000
"""Of an error's text: it may quote what is stored."""


class Failure(NamedTuple):
    """Why a read ends."""

    code: StatusCode
    error: str


def is_retried(error: CoreError) -> bool:
    """Tell whether the proxy tries a read again before a reader hears of it."""
    if isinstance(error, ReadCancelled):
        return False
    return isinstance(error, BookieUnavailable | NotEnoughBookies | Unavailable)


def failure_of(error: CoreError) -> Failure:
    """Return what a reader is answered."""
    return Failure(read_code(error), str(error)[:_ERROR_CHARACTERS])


def read_code(error: CoreError) -> StatusCode:
    """Return the code of an error of reading.

    Shape: LOG_READ_ERROR: the same read fails again until somebody repairs what is stored.
    RETRYABLE_READ_EXCEPTION: it may succeed later, here or through another proxy.
    """
    if isinstance(error, CorruptData | EntryNotFound | LedgerNotFound | ColdObjectNotFound):
        return StatusCode.LOG_READ_ERROR
    if isinstance(error, ReadCancelled):
        return StatusCode.SERVICE_UNAVAILABLE
    if isinstance(error, BookieUnavailable | NotEnoughBookies | IdleReader):
        return StatusCode.RETRYABLE_READ_EXCEPTION
    return status_code(error)
