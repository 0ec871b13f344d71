"""Drives a GroupShard as the runtime does, with a clock that tests move and writes they confirm."""

from collections import deque
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Self

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.consumer.protocol import ConsumerSettings
from tailrace.broker.coordinator.effects import Caller
from tailrace.broker.coordinator.group import ClassicGroup
from tailrace.broker.coordinator.records import read_record
from tailrace.broker.coordinator.shard import GroupShard
from tailrace.broker.replicated.deadlines import Deadlines
from tailrace.broker.replicated.effects import (
    NEVER,
    Effects,
    EndOfTransaction,
    Now,
    StateRecord,
    Ticket,
    Write,
)
from tailrace.broker.replicated.newest import NewestValues
from tailrace.broker.replicated.record_log import Pending
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tailrace.protocol.kafka.messages.leave_group import LeaveGroupResponse, MemberIdentity
from tailrace.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tailrace.protocol.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000
START_MS = 1_700_000_000_000


def subscription(*topics: str, extra: bytes = b"") -> bytes:
    """Return ConsumerProtocolSubscription bytes, version 1."""
    names = b"".join(len(t.encode()).to_bytes(2, "big") + t.encode() for t in topics)
    return b"\0\1" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff" + extra


@dataclass(frozen=True)
class KnownTopic:
    """A topic by itself."""

    name: str
    topic_id: bytes
    partition_count: int


class KnownTopics:
    """The topics there are; ids count up with every creation."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._topics: dict[str, KnownTopic] = {}
        self._ids = count(1)
        for name, partitions in counts.items():
            self.create(name, partitions)

    def create(self, name: str, partitions: int) -> KnownTopic:
        topic = KnownTopic(name, next(self._ids).to_bytes(16, "big"), partitions)
        self._topics[name] = topic
        return topic

    def grow(self, name: str, partitions: int) -> None:
        self._topics[name] = replace(self._topics[name], partition_count=partitions)

    def delete(self, name: str) -> None:
        del self._topics[name]

    def get(self, name: str) -> KnownTopic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: bytes) -> KnownTopic | None:
        return next((t for t in self._topics.values() if t.topic_id == topic_id), None)

    def all(self) -> list[KnownTopic]:
        return [self._topics[name] for name in sorted(self._topics)]


RANGE = (("range", subscription("t")),)


class Driver:
    """One shard with one group of interest, a clock and a stream."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        *,
        confirm: bool = True,
        topics: KnownTopics | None = None,
    ) -> None:
        self.config = config or GroupConfig()
        numbers = count(1)
        self.topics = topics or KnownTopics({"t": 3, "other": 1})
        consumers = ConsumerSettings(
            config=self.config.consumer,
            topics=self.topics,
            times_of=lambda _group_id: self.config.consumer.times,
        )
        self.shard = GroupShard(self.config, lambda: f"u{next(numbers)}", consumers)
        self.mono_ms = 0
        self.confirm = confirm
        """Whether writes are confirmed at once."""
        self.stream: list[StateRecord] = []
        """Confirmed records."""
        self.log: list[Write] = []
        """Confirmed writes, markers among them."""
        self.unconfirmed: deque[Write] = deque()
        self.replies: dict[Ticket, Any] = {}
        self.asked: set[Ticket] = set()
        self._tickets = count(1)
        self._deadlines = Deadlines()
        self.partitions = {"t": 3, "other": 1}

    @property
    def now(self) -> Now:
        return Now(START_MS + self.mono_ms, self.mono_ms)

    @property
    def group(self) -> ClassicGroup:
        group = self.shard.groups.classic(GROUP)
        assert group is not None
        return group

    def generation(self) -> int:
        """Return the generation of the group, 1 if it is none or not a classic one."""
        group = self.shard.groups.classic(GROUP)
        return 1 if group is None else group.generation

    def ticket(self) -> Ticket:
        ticket = next(self._tickets)
        self.asked.add(ticket)
        return ticket

    def act(self, effects: Effects) -> None:
        for ticket, response in effects.replies:
            assert ticket in self.asked, "a reply to nobody"
            assert ticket not in self.replies, "two replies to one request"
            self.replies[ticket] = response
        self.unconfirmed.extend(effects.writes)
        if effects.wake_at_ms < NEVER:
            self._deadlines.schedule(effects.key, effects.wake_at_ms)
        if self.confirm:
            self.confirm_all()

    def confirm_one(self) -> None:
        write = self.unconfirmed.popleft()
        self.stream += write.records
        self.log.append(write)
        self.act(self.shard.on_written(write, self.now))

    def confirm_all(self) -> None:
        while self.unconfirmed:
            self.confirm_one()

    def advance(self, ms: int) -> None:
        """Move the clock, stopping at every deadline on the way."""
        until = self.mono_ms + ms
        self.fire_due()
        while self._deadlines.next_ms() <= until:
            self.mono_ms = max(self.mono_ms, self._deadlines.next_ms())
            self.fire_due()
        self.mono_ms = until

    def fire_due(self) -> None:
        for group_id in self._deadlines.pop_due(self.mono_ms):
            self.act(self.shard.expire(group_id, self.now))

    # Requests

    def join(self, member_id: str = "", **fields: Any) -> Ticket:
        version = fields.pop("version", 5)
        client_id = fields.pop("client_id", "c")
        protocols = fields.pop("protocols", RANGE)
        request = JoinGroupRequest(
            **{
                "group_id": GROUP,
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": REBALANCE_MS,
                "protocol_type": "consumer",
                "member_id": member_id,
                "protocols": [JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols],
                **fields,
            }
        )
        ticket = self.ticket()
        self.act(self.shard.join(request, Caller(client_id, "/h", version), ticket, self.now))
        return ticket

    def new_id(self, **fields: Any) -> str:
        """Have a member id handed out (v4+)."""
        response = self.joined(self.join(**fields))
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return response.member_id

    def joined(self, ticket: Ticket) -> JoinGroupResponse:
        response = self.replies[ticket]
        assert isinstance(response, JoinGroupResponse)
        return response

    def sync(
        self, member_id: str, assignments: dict[str, bytes] | None = None, **fields: Any
    ) -> Ticket:
        request = SyncGroupRequest(
            **{
                "group_id": GROUP,
                "generation_id": self.generation(),
                "member_id": member_id,
                "assignments": [
                    SyncGroupRequestAssignment(member_id=m, assignment=a)
                    for m, a in (assignments or {}).items()
                ],
                **fields,
            }
        )
        ticket = self.ticket()
        self.act(self.shard.sync(request, ticket, self.now))
        return ticket

    def synced(self, ticket: Ticket) -> SyncGroupResponse:
        response = self.replies[ticket]
        assert isinstance(response, SyncGroupResponse)
        return response

    def heartbeat(self, member_id: str, **fields: Any) -> ErrorCode:
        request = HeartbeatRequest(
            **{
                "group_id": GROUP,
                "generation_id": self.generation(),
                "member_id": member_id,
                **fields,
            }
        )
        ticket = self.ticket()
        self.act(self.shard.heartbeat(request, ticket, self.now))
        return ErrorCode(self.replies[ticket].error_code)

    def leave(self, *members: tuple[str, str | None]) -> list[ErrorCode]:
        identities = [MemberIdentity(member_id=m, group_instance_id=i) for m, i in members]
        ticket = self.ticket()
        self.act(self.shard.leave(GROUP, identities, ticket, self.now))
        response = self.replies[ticket]
        assert isinstance(response, LeaveGroupResponse)
        return [ErrorCode(member.error_code) for member in response.members]

    def commit(self, member_id: str = "", generation: int = -1, **fields: Any) -> Ticket:
        version = fields.pop("version", 7)
        offsets = fields.pop("offsets", {("t", 0): 1})
        metadata = fields.pop("metadata", "")
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata=metadata,
                    )
                ],
            )
            for (topic, partition), offset in offsets.items()
        ]
        request = OffsetCommitRequest(
            **{
                "group_id": GROUP,
                "generation_id_or_member_epoch": generation,
                "member_id": member_id,
                "topics": topics,
                **fields,
            }
        )
        ticket = self.ticket()
        caller = Caller("c", "/h", version)
        self.act(
            self.shard.commit(
                request, caller, lambda topic: self.partitions.get(topic, 0), ticket, self.now
            )
        )
        return ticket

    def commit_in_transaction(self, producer_id: int, **fields: Any) -> Ticket:
        """Commit as a producer whose transaction is verified."""
        guard = fields.pop("guard", None) or self.shard.commits.guards.begin(producer_id)
        version = fields.pop("version", 3)
        offsets = fields.pop("offsets", {("t", 0): 1})
        metadata = fields.pop("metadata", "")
        topics = [
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata=metadata,
                    )
                ],
            )
            for (topic, partition), offset in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            **{
                "transactional_id": "x",
                "group_id": GROUP,
                "producer_id": producer_id,
                "producer_epoch": 0,
                "member_id": "",
                "topics": topics,
                **fields,
            }
        )
        ticket = self.ticket()
        caller = Caller("c", "/h", version)
        count = self.partitions
        self.act(
            self.shard.commit_in_transaction(
                request, caller, lambda topic: count.get(topic, 0), guard, ticket, self.now
            )
        )
        return ticket

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> Ticket:
        ticket = self.ticket()
        end = EndOfTransaction(producer_id, 0, 0, is_commit, 0)
        self.act(self.shard.end_transaction(end, ticket))
        return ticket

    def commit_codes(self, ticket: Ticket) -> list[ErrorCode]:
        response = self.replies[ticket]
        return [ErrorCode(p.error_code) for t in response.topics for p in t.partitions]

    def committed(self, topic: str = "t", partition: int = 0, group: str = GROUP) -> int | None:
        found = self.shard.commits.offsets.of_group(group).get(topic, {}).get(partition)
        return None if found is None else found.offset

    # Whole stories

    def stable(self, size: int = 1, **fields: Any) -> list[str]:
        """Bring the group to Stable with `size` dynamic members; the first one leads."""
        ids = [self.new_id(**fields) for _ in range(size)]
        tickets = [self.join(id_, **fields) for id_ in ids]
        self.advance(self.config.initial_rebalance_delay_ms * 2)
        assert all(self.joined(t).error_code == ErrorCode.NONE for t in tickets)
        self.sync_all(ids)
        return ids

    def sync_all(self, ids: list[str]) -> None:
        leader = self.group.roster.leader
        assert leader is not None
        given = {id_: b"for " + id_.encode() for id_ in ids}
        for id_ in ids:
            self.sync(id_, given if id_ == leader else None)
        assert self.group.state.value == "Stable"

    def reloaded(self, records: list[StateRecord] | None = None) -> Self:
        """Return a driver whose shard was loaded from this one's stream."""
        newest = NewestValues()
        for write in self.log if records is None else [Write(tuple(records))]:
            _put(newest, write)
        other = type(self)(self.config, topics=self.topics)
        other.mono_ms = self.mono_ms
        for each in newest:
            update = read_record(each.key, each.value)
            assert update is not None
            pending = each.producer_id >= 0
            other.shard.replay(Pending(each.producer_id, update) if pending else update)
        other.log = list(self.log)
        for effects in other.shard.on_loaded(other.now):
            other.act(effects)
        return other


def _put(newest: NewestValues, write: Write) -> None:
    if isinstance(write.transaction, EndOfTransaction):
        newest.end(write.transaction.producer_id, is_commit=write.transaction.committed)
    for record in write.records:
        producer_id = write.transaction.producer_id if write.transaction else -1
        newest.put(record.key, record.value, producer_id)
