"""What goes into the group state machine and what comes out of it, as plain values.

A request that may have to wait carries a `Ticket`. Sooner or later exactly one `Reply` names that
ticket; the state machine never sees who waits behind it. A `Write` holds records that must be
confirmed on the stream before its replies leave and before `then` is handed back.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from broker.coordinator.records import CoordinatorRecord, OffsetUpdate

Ticket: TypeAlias = int
"""Stands for one waiting request."""

NEVER = 1 << 62
"""A deadline that is not set. Unit: ms."""


class Now(NamedTuple):
    """One moment on both clocks: records carry the wall's, deadlines count the monotonic one."""

    wall_ms: int
    mono_ms: int


class Caller(NamedTuple):
    """Who sent a request, and in which version of its API."""

    client_id: str
    client_host: str
    version: int


class Reply(NamedTuple):
    """The answer to one waiting request."""

    ticket: Ticket
    response: object


class AssignmentWritten(NamedTuple):
    """The leader's assignment of a generation is on the stream."""

    group_id: str
    generation: int
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


Then: TypeAlias = AssignmentWritten | StaticMemberWritten | OffsetsWritten | None
"""What a confirmed write means; given back to the shard that asked for it."""


class Write(NamedTuple):
    """Records to append as a whole, and what follows once they are confirmed."""

    records: tuple[CoordinatorRecord, ...]
    then: Then = None
    replies: tuple[Reply, ...] = ()


@dataclass(slots=True)
class Effects:
    """Everything that one event brought about."""

    replies: list[Reply] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    group_id: str = ""
    """The group that `wake_at_ms` is about."""
    wake_at_ms: int = NEVER
    """No deadline of the group lies before this. Unit: monotonic ms."""
