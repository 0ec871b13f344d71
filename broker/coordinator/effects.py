"""What the group state machine is asked with, and what its confirmed writes mean: plain values."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tailrace.broker.coordinator.records import OffsetUpdate


class Caller(NamedTuple):
    """Who sent a request, and in which version of its API."""

    client_id: str
    client_host: str
    version: int
    shows: Callable[[str], bool] | None = None
    """Says of a topic whether it may know of it; None: it may know of all."""


class AssignmentWritten(NamedTuple):
    """The leader's assignment of a generation is on the stream."""

    group_id: str
    assignments: dict[str, bytes]


class StaticMemberWritten(NamedTuple):
    """A static member that took its predecessor's place without a rebalance is on the stream."""

    group_id: str
    member_id: str
    generation: int
    leader_before: str
    may_skip_assignment: bool


class OffsetsWritten(NamedTuple):
    """Committed offsets, or their tombstones, are on the stream."""

    updates: tuple[OffsetUpdate, ...]


class PendingWritten(NamedTuple):
    """Offsets that a transaction committed are on the stream, and wait for its end."""

    producer_id: int
    updates: tuple[OffsetUpdate, ...]


class TransactionWritten(NamedTuple):
    """The end of a transaction is on the stream."""

    producer_id: int
    is_commit: bool


class GroupDeleted(NamedTuple):
    """A group was deleted by hand, with all its offsets."""

    group_id: str


OffsetsThen: TypeAlias = OffsetsWritten | PendingWritten | TransactionWritten | GroupDeleted
"""What a confirmed write means to the offsets of a shard."""

Then: TypeAlias = AssignmentWritten | StaticMemberWritten | OffsetsThen | None
"""What a confirmed write means; given back to the shard that asked for it."""
