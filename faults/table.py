"""The faults that are set, and how often each was hit. Pure.

A fault with a count is used up when it was hit so often, and stays in the table, so that a test can
ask; it goes when it is undone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from tailrace.faults.orders import (
    BadOrder,
    DelayAnswers,
    DropNext,
    FailNext,
    FillDisk,
    Lasting,
    SkewClock,
)

FAULTS_MAX: Final = 1000

L = TypeVar("L", DelayAnswers, DropNext, FailNext, SkewClock, FillDisk)


@dataclass(slots=True)
class SetFault:
    """One fault that is set. Invariant: no more hits than its count."""

    id: int
    order: Lasting
    hits: int = 0

    @property
    def is_used_up(self) -> bool:
        """Whether it does nothing any more."""
        return self.hits >= getattr(self.order, "count", self.hits + 1)

    def shown(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"id": self.id, **msgspec.to_builtins(self.order), "hits": self.hits}


class FaultTable:
    """All faults of one process, the oldest first."""

    def __init__(self) -> None:
        self._set: dict[int, SetFault] = {}
        self._last_id = 0
        self._by_api: dict[str, list[SetFault]] = {}

    def __iter__(self) -> Iterator[SetFault]:
        return iter(self._set.values())

    def next_id(self) -> int:
        """Return an id that no fault had before."""
        self._last_id += 1
        return self._last_id

    def add(self, order: Lasting) -> SetFault:
        """Set a fault. Errors: BadOrder when there are too many."""
        if len(self._set) >= FAULTS_MAX:
            raise BadOrder(f"{FAULTS_MAX} faults are set", "POST /faults", "DELETE /faults")
        fault = SetFault(self.next_id(), order)
        self._set[fault.id] = fault
        self._sort()
        return fault

    def undo(self, wanted: Callable[[SetFault], bool]) -> list[SetFault]:
        """Take out what is wanted, and return it."""
        gone = [fault for fault in self if wanted(fault)]
        for fault in gone:
            del self._set[fault.id]
        self._sort()
        return gone

    def has(self, api: str) -> bool:
        """Tell whether a fault that is not used up is for requests of an API."""
        return any(not fault.is_used_up for fault in self._by_api.get(api, ()))

    def of(self, api: str, kind: type[L]) -> list[SetFault]:
        """Return the faults of a kind for an API that are not used up."""
        return [
            fault
            for fault in self._by_api.get(api, ())
            if isinstance(fault.order, kind) and not fault.is_used_up
        ]

    @property
    def skew_s(self) -> float:
        """How far the clock is off: all skews together. Unit: seconds."""
        return sum(fault.order.seconds for fault in self if isinstance(fault.order, SkewClock))

    @property
    def is_disk_full(self) -> bool:
        """Whether there is to be no room."""
        return any(isinstance(fault.order, FillDisk) for fault in self)

    def _sort(self) -> None:
        self._by_api = {}
        for fault in self:
            if not isinstance(fault.order, SkewClock | FillDisk):
                self._by_api.setdefault(fault.order.api, []).append(fault)
