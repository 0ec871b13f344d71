"""Partitions that could not be opened a moment ago: tried again after a pause, not at each request.

An attempt takes a place in line, several changes of the metadata and reads of recovery. Clients ask
for each partition ten times a second; while bookies are away that would keep the metadata store and
the log file busy, with hundreds of attempts that all fail.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from tailrace.protocol.errors import ErrorCode

PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
"""After the first failure, the second, and so on; the last one from then on."""


class _Failure(NamedTuple):
    code: ErrorCode
    attempts: int
    not_before_s: float


class FailedOpens:
    """The failures since a partition was open last. Pure. Bounds: one for each partition."""

    __slots__ = ("_failures",)

    def __init__(self) -> None:
        self._failures: dict[tuple[str, int], _Failure] = {}

    def __contains__(self, partition: tuple[str, int]) -> bool:
        """Whether an attempt has failed since the partition was open last."""
        return partition in self._failures

    def add(self, partition: tuple[str, int], code: ErrorCode, now_s: float) -> None:
        """Note that an attempt has failed, and with what."""
        last = self._failures.get(partition)
        attempts = 0 if last is None else last.attempts
        pause_s = PAUSES_S[min(attempts, len(PAUSES_S) - 1)]
        self._failures[partition] = _Failure(code, attempts + 1, now_s + pause_s)

    def refusal(self, partition: tuple[str, int], now_s: float) -> ErrorCode | None:
        """Return what to answer until the pause is over; None: it may be tried."""
        last = self._failures.get(partition)
        return None if last is None or now_s >= last.not_before_s else last.code

    def forget(self, partition: tuple[str, int]) -> None:
        """Begin anew: it was opened, or is deleted."""
        self._failures.pop(partition, None)

    def keep(self, is_mine: Callable[[str, int], bool]) -> None:
        """Forget those that are others' by now."""
        self._failures = {each: last for each, last in self._failures.items() if is_mine(*each)}
