"""Partitions on their way from one broker to another, as Kafka's reassignments show them. Pure.

Moving a partition takes one write: its preference list. Its former owner lets go when it hears of
it, and the new one claims it; until then the log's lock names who has it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tailrace.core.runtime.decimal_text import INT32_MAX, decimal

_LAYOUT = "1"
"""First part of a client's name in locks, as DistributedLog's proxies write it."""


class Move(NamedTuple):
    """A reassignment in progress."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    holder: int
    """Who has the partition until it is done."""

    @property
    def former(self) -> tuple[int, ...]:
        """The brokers that leave the partition where it is."""
        others = (each for each in self.replicas if each != self.holder)
        return self.removing or (self.holder, *others)


def lock_name(node_id: int, address: object) -> str:
    """Return the name under which a broker stands in the locks of logs."""
    return f"{_LAYOUT};{node_id};{address}"


def broker_in_lock(name: str) -> int | None:
    """Return the broker behind a name in a lock; None if it is no broker's."""
    layout, _, rest = name.partition(";")
    node_id = rest.partition(";")[0]
    return decimal(node_id, INT32_MAX) if layout == _LAYOUT else None


def move_of(owner: int, replicas: Sequence[int], holder: int | None) -> Move | None:
    """Return the move of a partition that `owner` is to have, None if it is done.

    `holder`: the broker that has the log now. Nobody: whoever opens it next is the new owner.
    """
    if holder is None or holder == owner:
        return None
    if holder in replicas:
        return Move(tuple(replicas), (owner,), (), holder)
    return Move((*replicas, holder), tuple(replicas), (holder,), holder)
