"""What a stream says in the end: the newest value of each key, as transactions have ended so far.

A key's values compete by their place in the stream. What a transaction wrote competes once it is
committed, with the place at which it was written; until then it stands beside what is visible.
A deletion outside of transactions takes what is pending for its key along.
Source: OffsetMetadataManager.replay, replayEndTransactionMarker.
"""

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from tailrace.protocol.records.batch import NO_PRODUCER_ID

Key = bytes | None


class Newest(NamedTuple):
    """One value that counts."""

    place: int
    producer_id: int
    """Whose transaction it waits for; -1 if it is visible."""
    key: Key
    value: bytes


class NewestValues:
    """The state of reading a stream from its start. Memory: one value per key and transaction."""

    __slots__ = ("_pending", "_places", "_visible")

    def __init__(self) -> None:
        self._visible: dict[Key, tuple[int, bytes]] = {}
        self._pending: dict[int, dict[Key, tuple[int, bytes]]] = {}
        self._places = count()

    def put(self, key: Key, value: bytes | None, producer_id: int = NO_PRODUCER_ID) -> None:
        """Take the next record; `producer_id` if it is part of a transaction."""
        place = next(self._places)
        if value is None:
            self._visible.pop(key, None)
            for values in self._pending.values():
                values.pop(key, None)
        elif producer_id == NO_PRODUCER_ID:
            self._visible[key] = (place, value)
        else:
            self._pending.setdefault(producer_id, {})[key] = (place, value)

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        """Take the end of a producer's transaction."""
        for key, placed in self._pending.pop(producer_id, {}).items():
            visible = self._visible.get(key)
            if is_commit and (visible is None or visible[0] < placed[0]):
                self._visible[key] = placed

    def __iter__(self) -> Iterator[Newest]:
        """Return what counts, in the order of the stream."""
        found = [
            Newest(place, NO_PRODUCER_ID, key, value)
            for key, (place, value) in self._visible.items()
        ]
        found += [
            Newest(place, producer_id, key, value)
            for producer_id, values in self._pending.items()
            for key, (place, value) in values.items()
        ]
        return iter(sorted(found, key=lambda each: each.place))
