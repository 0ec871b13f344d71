"""Leader epochs that other brokers told of their partitions, for answers that cannot ask for all.

An epoch holds for the topic and the owner that it was told of. One that has risen since is told as
it was: clients that know the newer one leave an older one unheard, and others hear of it by the
first request that it refuses. All are forgotten when owners change: a former owner's epoch must
never be told of one that comes back.
"""

from typing import Final

EPOCHS_MAX: Final = 200_000
"""Partitions that are known; those told longest ago go first."""


class KnownEpochs:
    """What was told, by the topic's id and the number of the partition. For the loop only."""

    def __init__(self) -> None:
        self._told: dict[tuple[bytes, int], tuple[int, int]] = {}  # owner and epoch
        self._asked = 0

    def __len__(self) -> int:
        return len(self._told)

    def note(self, topic_id: bytes, partition: int, owner: int, epoch: int) -> None:
        """Take note of what an owner told of its partition."""
        key = (topic_id, partition)
        self._told.pop(key, None)
        self._told[key] = (owner, epoch)
        if len(self._told) > EPOCHS_MAX:
            del self._told[next(iter(self._told))]

    def of(self, topic_id: bytes, partition: int, owner: int) -> int:
        """Return the epoch that an owner told last; -1: it told none."""
        told = self._told.get((topic_id, partition))
        return told[1] if told is not None and told[0] == owner else -1

    def clear(self) -> None:
        """Forget everything: owners changed."""
        self._told.clear()

    def next_to_ask(self, places: int, count: int) -> int:
        """Return at which of `places` to begin to ask `count` again: all have their turns."""
        first = self._asked % places
        self._asked = first + count
        return first
