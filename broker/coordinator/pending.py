"""Offsets that were committed inside of transactions whose outcome is not known yet.

They become a group's committed offsets when the marker says so, in the order of the stream: an
offset that was committed after one (by anybody) is not replaced by it when its transaction ends.
Source: OffsetMetadataManager.OpenTransactions, replayEndTransactionMarker.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from tailrace.broker.coordinator.records import OffsetName, OffsetUpdate


@dataclass(slots=True)
class _Entry:
    update: OffsetUpdate
    place: int
    """Its place in the stream, among pending ones."""
    is_overtaken: bool = False
    """A later commit of the partition is visible."""


class PendingOffsets:
    """Pending offsets by producer, and which producers hold a partition open.

    Invariant: both sides name the same (producer, group, topic, partition).
    """

    __slots__ = ("_by_producer", "_open", "_places")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetName, _Entry]] = {}
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}
        self._places = count()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the groups that have any."""
        return iter(self._open)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._open

    def of_group(self, group_id: str) -> list[OffsetName]:
        """Return for what a group has any."""
        return [OffsetName(group_id, *partition) for partition in self._open.get(group_id, {})]

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether a transaction may still change a group's offset of a partition."""
        return (topic, partition) in self._open.get(group_id, {})

    def add(self, producer_id: int, update: OffsetUpdate) -> None:
        """Take in what a transaction committed; it replaces what it committed before."""
        entries = self._by_producer.setdefault(producer_id, {})
        entries[update.name] = _Entry(update, next(self._places))
        partitions = self._open.setdefault(update.group_id, {})
        partitions.setdefault((update.topic, update.partition), set()).add(producer_id)

    def overtake(self, update: OffsetUpdate) -> None:
        """Take note of a visible change: it overtakes what is pending; a deletion drops it."""
        if update.group_id not in self._open:
            return
        for producer_id in self._producers(update.name):
            if update.committed is None:
                del self._by_producer[producer_id][update.name]
                self._close(producer_id, update.name)
            else:
                self._by_producer[producer_id][update.name].is_overtaken = True

    def end(self, producer_id: int, *, is_commit: bool) -> list[OffsetUpdate]:
        """Forget what a transaction committed; return what becomes visible by that."""
        entries = self._by_producer.pop(producer_id, {})
        for name in entries:
            self._close(producer_id, name)
        if not is_commit:
            return []
        visible = [entry for entry in entries.values() if not entry.is_overtaken]
        for entry in visible:
            self._overtake_earlier(entry)
        return [entry.update for entry in visible]

    def _overtake_earlier(self, ended: _Entry) -> None:
        for producer_id in self._producers(ended.update.name):
            entry = self._by_producer[producer_id][ended.update.name]
            entry.is_overtaken = entry.is_overtaken or entry.place < ended.place

    def _producers(self, name: OffsetName) -> list[int]:
        return list(self._open.get(name.group_id, {}).get((name.topic, name.partition), ()))

    def _close(self, producer_id: int, name: OffsetName) -> None:
        partitions = self._open[name.group_id]
        producers = partitions[name.topic, name.partition]
        producers.discard(producer_id)
        if not producers:
            del partitions[name.topic, name.partition]
        if not partitions:
            del self._open[name.group_id]
