"""Drives a shard with members of a KIP-848 group, as real clients send heartbeats."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.consumer.group import ConsumerGroup
from tailrace.broker.coordinator.consumer.replayed import ReplayedGroup
from tailrace.broker.coordinator.consumer_config import ConsumerGroupConfig
from tailrace.broker.coordinator.effects import Caller
from tailrace.broker.coordinator.group import ClassicGroup
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.consumer_group_describe import DescribedGroup
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.unit.broker.coordinator.support import GROUP, Driver

REBALANCE_MS = 60_000
SESSION_MS = 45_000


def consumer_config(**fields: Any) -> GroupConfig:
    """Return settings under which every change is assigned at once."""
    return GroupConfig(consumer=ConsumerGroupConfig(**{"assignment_interval_ms": 0, **fields}))


@dataclass
class Client:
    """A consumer as librdkafka and Java's are: what it believes, and what it says next."""

    member_id: str
    topics: Sequence[str] | None = ("t",)
    regex: str | None = None
    instance_id: str | None = None
    assignor: str | None = None
    rebalance_ms: int = REBALANCE_MS
    epoch: int = 0
    owned: dict[bytes, set[int]] = field(default_factory=dict)
    wanted: dict[bytes, set[int]] = field(default_factory=dict)

    def let_go(self) -> None:
        """Give back at once what it was told to."""
        self.owned = {
            topic_id: self.owned[topic_id] & self.wanted.get(topic_id, set())
            for topic_id in self.owned
            if self.owned[topic_id] & self.wanted.get(topic_id, set())
        }

    def take(self) -> None:
        """Begin to read all that it was given."""
        self.owned = {topic_id: set(numbers) for topic_id, numbers in self.wanted.items()}

    def obey(self) -> None:
        """Let go first; take when there is nothing to let go."""
        if any(self.owned[t] - self.wanted.get(t, set()) for t in self.owned):
            self.let_go()
        else:
            self.take()

    def hear(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """Believe an answer; a refusal costs it everything."""
        if response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch, self.owned, self.wanted = 0, {}, {}
        if response.error_code:
            return
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.wanted = {
                topic.topic_id: set(topic.partitions)
                for topic in response.assignment.topic_partitions
            }

    def joining(self) -> dict[str, Any]:
        """Return what it says when it joins, or when it is not sure what the group knows."""
        return {
            "instance_id": self.instance_id,
            "rebalance_timeout_ms": self.rebalance_ms,
            "subscribed_topic_names": self.topics,
            "subscribed_topic_regex": self.regex,
            "server_assignor": self.assignor,
            "topic_partitions": [],
        }

    def saying(self) -> dict[str, Any]:
        """Return what it says next: all when it joins, later what it owns."""
        if self.epoch == 0:
            return self.joining()
        owned = [
            TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in sorted(self.owned.items())
        ]
        return {"instance_id": self.instance_id, "topic_partitions": owned}

    @property
    def partitions(self) -> list[int]:
        """Return what it reads, of all topics."""
        return sorted(partition for numbers in self.owned.values() for partition in numbers)


class ConsumerDriver(Driver):
    """A shard whose group of interest speaks the consumer protocol."""

    def __init__(self, config: GroupConfig | None = None, **options: Any) -> None:
        super().__init__(config or consumer_config(), **options)

    @property
    def consumers(self) -> ConsumerGroup:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    @property
    def classic(self) -> ClassicGroup:
        group = self.shard.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    def topic_id(self, name: str = "t") -> bytes:
        topic = self.topics.get(name)
        assert topic is not None
        return topic.topic_id

    def notice(self, topic: str) -> None:
        """Tell the shard that a topic changed, as the runtime does."""
        self.shard.note_topic(topic)

    def beat_soon(self, member_id: str, epoch: int, **fields: Any) -> int:
        """Send any heartbeat; return its ticket."""
        version = fields.pop("version", 1)
        request = ConsumerGroupHeartbeatRequest(
            **{"group_id": GROUP, "member_id": member_id, "member_epoch": epoch, **fields}
        )
        ticket = self.ticket()
        caller = Caller("c", "/h", version)
        self.act(self.shard.consumer_heartbeat(request, caller, ticket, self.now))
        return ticket

    def beat(self, member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Send any heartbeat, and return its answer."""
        response = self.replies[self.beat_soon(member_id, epoch, **fields)]
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def send(self, client: Client, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Let a client send its next heartbeat; return the answer, which it does not know yet."""
        return self.beat(client.member_id, client.epoch, **{**client.saying(), **fields})

    def turn(self, client: Client, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Let a client send a heartbeat, and do what the answer says."""
        response = self.send(client, **fields)
        client.hear(response)
        client.obey()
        return response

    def settle(self, *clients: Client, turns: int = 8) -> None:
        """Let clients go on until nothing moves any more."""
        for _ in range(turns):
            for client in clients:
                self.turn(client)

    def describe_soon(self) -> int:
        """Ask for the group's description; return the ticket."""
        ticket = self.ticket()
        self.act(self.shard.describe_consumer_group(GROUP, ticket))
        return ticket

    def describe(self) -> DescribedGroup:
        described = self.replies[self.describe_soon()]
        assert isinstance(described, DescribedGroup)
        return described

    def leave_group(self, client: Client, epoch: int = -1) -> ErrorCode:
        response = self.beat(client.member_id, epoch, instance_id=client.instance_id)
        client.epoch, client.owned, client.wanted = 0, {}, {}
        return ErrorCode(response.error_code)


def lasting(group: ReplayedGroup) -> dict[str, Any]:
    """Return all that must be the same after a load."""
    names = (
        "epoch", "metadata_hash", "target_epoch", "target_time_ms", "members", "targets",
        "static_ids", "owners", "name_counts", "regex_counts", "resolved",
    )  # fmt: skip
    return {name: getattr(group, name) for name in names}
