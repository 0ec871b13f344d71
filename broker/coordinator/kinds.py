"""What every group can be asked, whatever protocol its members speak.

Source: Kafka's interface Group.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from tailrace.broker.replicated.effects import Effects, Now, StateRecord
from tailrace.protocol.errors import ErrorCode


class GroupType(StrEnum):
    """Kinds of groups, by the names that ListGroups uses."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class CommitPartition(Protocol):
    """What both kinds of commits say of a partition."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


class CommitTopic(Protocol):
    """What both kinds of commits say of a topic."""

    name: str

    @property
    def partitions(self) -> Sequence[CommitPartition]:
        """Return what is said of its partitions."""


class Committer(NamedTuple):
    """Who commits offsets, and how."""

    member_id: str
    instance_id: str | None
    epoch: int
    """Generation, or member epoch; below 0 from outside of group management."""
    version: int
    """Of the API."""
    topics: Sequence[CommitTopic] = ()
    """What is committed."""
    is_transactional: bool = False


class Group(Protocol):
    """One group of any kind."""

    group_id: str

    @property
    def kind(self) -> GroupType:
        """Return the protocol that its members speak."""

    @property
    def state_name(self) -> str:
        """Return its state by the name that clients are shown."""

    @property
    def protocol_type(self) -> str | None:
        """Return what its members are ("consumer", "connect"); None if it never had any."""

    @property
    def is_unused(self) -> bool:
        """Whether nobody is in it, or on the way into it."""

    def check_commit(self, committer: Committer) -> ErrorCode:
        """Say whether a commit may be stored."""

    def check_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Say whether offsets may be read. A member names itself; others say None and -1."""

    def check_offset_delete(self) -> ErrorCode:
        """Say whether offsets may be deleted by hand."""

    def check_delete(self) -> ErrorCode:
        """Say whether the group may be deleted."""

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member reads the topic."""

    def lapsing_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """Return from when on a committed offset counts its retention; None: it does not lapse."""

    def on_commit(self, member_id: str, now: Now) -> None:
        """Take a member's commit as a sign of life."""

    def take_effects(self) -> Effects:
        """Return what came about since the last call."""

    def tombstones(self) -> Sequence[StateRecord]:
        """Return the records that delete the group itself, not its offsets."""
