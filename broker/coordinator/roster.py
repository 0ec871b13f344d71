"""The members of one group: who they are, who leads, which protocols they share.

Invariants: members stay in the order in which they came; there is a leader exactly while there are
members; an instance id names at most one member; a pending id is never a member.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tailrace.broker.replicated.effects import NEVER, Ticket


@dataclass(slots=True)
class Member:
    """One consumer (or Connect worker, or Streams thread) in a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Supported protocols with their metadata, preferred first."""
    assignment: bytes = b""
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None
    is_new: bool = False
    """It has not been answered yet, so it cannot send heartbeats yet either."""
    deadline_ms: int = NEVER
    """When its session ends. Unit: monotonic ms."""

    def metadata(self, protocol: str | None) -> bytes:
        """Return the metadata for a protocol; empty if the member does not support it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: Iterable[str]) -> str:
        """Return the first of its protocols among the candidates."""
        allowed = frozenset(candidates)
        return next(name for name, _ in self.protocols if name in allowed)

    @property
    def needs_no_heartbeat(self) -> bool:
        """A parked request proves that it lives, unless it never heard from us."""
        is_parked = self.join_ticket is not None or self.sync_ticket is not None
        return is_parked and not self.is_new


class Roster:
    """The members of one group and everything that is counted over them."""

    __slots__ = ("_members", "_static_ids", "_support", "leader", "pending", "pending_sync")

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._static_ids: dict[str, str] = {}
        self._support: Counter[str] = Counter()
        self.leader: str | None = None
        self.pending: dict[str, int] = {}
        """Ids that were handed out with MEMBER_ID_REQUIRED -> when they lapse, monotonic ms."""
        self.pending_sync: set[str] = set()
        """Members of the current generation that have not sent SyncGroup."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> Member:
        return self._members[member_id]

    def get(self, member_id: str) -> Member | None:
        """Return the member with this id."""
        return self._members.get(member_id)

    def static_id(self, instance_id: str) -> str | None:
        """Return the member id that an instance id stands for now."""
        return self._static_ids.get(instance_id)

    def add(self, member: Member) -> None:
        """Take a member in; the first one leads."""
        self.pending.pop(member.member_id, None)
        self._members[member.member_id] = member
        if member.instance_id is not None:
            self._static_ids[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._support.update({name for name, _ in member.protocols})

    def remove(self, member_id: str) -> Member | None:
        """Let a member go; if it led, the one that has been there longest leads."""
        self.pending.pop(member_id, None)
        self.pending_sync.discard(member_id)
        member = self._members.pop(member_id, None)
        if member is None:
            return None
        self._support.subtract({name for name, _ in member.protocols})
        if member.instance_id is not None and self.static_id(member.instance_id) == member_id:
            del self._static_ids[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._members), None)
        return member

    def rename_static(self, member: Member, new_id: str) -> None:
        """Give a static member's place, lead and turn included, to its new incarnation."""
        assert member.instance_id is not None
        old_id, member.member_id = member.member_id, new_id
        self._members = {m.member_id: m for m in self._members.values()}
        self._static_ids[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)

    def set_protocols(self, member: Member, protocols: tuple[tuple[str, bytes], ...]) -> None:
        """Replace what a member supports."""
        self._support.subtract({name for name, _ in member.protocols})
        member.protocols = protocols
        self._support.update({name for name, _ in protocols})

    def supports_any(self, names: Iterable[str]) -> bool:
        """Return whether every member supports at least one same of these protocols."""
        return any(self._support[name] == len(self._members) for name in names)

    def choose_protocol(self) -> str:
        """Return the protocol with most votes among those that every member supports.

        Ties go to the vote that came first. Only for a group that has members.
        """
        everyone = len(self._members)
        candidates = [name for name, count in self._support.items() if count == everyone]
        votes = Counter(member.vote(candidates) for member in self)
        return votes.most_common(1)[0][0]

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it waits in the join barrier, else take the first that does."""
        joined = [m.member_id for m in self if m.join_ticket is not None]
        if self.leader not in joined:
            self.leader = joined[0] if joined else self.leader
        return bool(joined)

    @property
    def joined_count(self) -> int:
        """How many members wait in the join barrier."""
        return sum(member.join_ticket is not None for member in self)

    @property
    def all_joined(self) -> bool:
        """Everybody waits in the join barrier and nobody is expected to come."""
        return not self.pending and all(member.join_ticket is not None for member in self)

    @property
    def rebalance_timeout_ms(self) -> int:
        """Longest rebalance timeout of a member; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self), default=0)
