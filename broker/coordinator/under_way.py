"""Offsets to be written that are not confirmed yet: what deletes a group counts with them."""

from collections import Counter
from collections.abc import Iterable, Iterator

from tailrace.broker.coordinator.records import OffsetName, OffsetUpdate


class UnderWay:
    """How often each offset is under way, by group. Bounds: the writes that are not confirmed."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, Counter[OffsetName]] = {}

    def __iter__(self) -> Iterator[str]:
        """Iterate over the groups that have any."""
        return iter(self._groups)

    def of_group(self, group_id: str) -> Iterable[OffsetName]:
        """Return what a group has under way."""
        return self._groups.get(group_id, ())

    def add(self, updates: Iterable[OffsetUpdate]) -> None:
        """Take in a write."""
        for update in updates:
            self._groups.setdefault(update.group_id, Counter())[update.name] += 1

    def remove(self, updates: Iterable[OffsetUpdate]) -> None:
        """Forget a write that was added."""
        for update in updates:
            counts = self._groups[update.group_id]
            counts[update.name] -= 1
            if not counts[update.name]:
                del counts[update.name]
            if not counts:
                del self._groups[update.group_id]
