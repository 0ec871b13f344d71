"""Kill the broker under a consumer group: what members were told holds afterwards."""

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import (
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_TOPICS,
    FIND_COORDINATOR,
    INCREMENTAL_ALTER_CONFIGS,
)
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tailrace.protocol.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.cluster.raw import RawClient
from tests.process import TailraceProcess
from tests.unit.broker.coordinator.consumer.support import Client

pytestmark = pytest.mark.crash

KILLS = int(os.environ.get("KILLS", "5"))
"""`KILLS=50` by hand; the suite cannot wait so long."""
MEMBERS = 4
PARTITIONS = 7
TURNS = 25
GROUP = "g"
GROUP_RESOURCE = 32


class RawMember(Client):
    """A member on a connection of its own; it may be in the middle of a heartbeat."""

    connection: RawClient | None = None
    is_unsure: bool = False

    def request(self) -> ConsumerGroupHeartbeatRequest:
        said: dict[str, Any] = self.saying()
        if self.is_unsure:
            said = {**self.joining(), **said}
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch, **said
        )

    def beat(self, broker: TailraceProcess) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat, and do what the answer says."""
        self.connection = self.connection or RawClient(broker)
        response = self.connection.ask(CONSUMER_GROUP_HEARTBEAT, 1, self.request())
        self.is_unsure = False
        self.hear(response)
        self.obey()
        return response

    def beat_into_the_void(self, broker: TailraceProcess) -> None:
        """Send a heartbeat whose answer nobody hears."""
        self.connection = self.connection or RawClient(broker)
        self.connection.send(CONSUMER_GROUP_HEARTBEAT, 1, self.request())
        self.is_unsure = True

    def close(self) -> None:
        """Forget the connection, not the group."""
        if self.connection is not None:
            self.connection.close()
        self.connection = None


def find_coordinator(broker: TailraceProcess) -> None:
    with RawClient(broker) as client:
        response = client.ask(FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=[GROUP]))
        assert response.coordinators[0].error_code == ErrorCode.NONE


def test_what_members_were_told_survives_kills(
    broker_factory: Callable[..., TailraceProcess],
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    broker = broker_factory("--set", "group.consumer.assignment.interval.ms=0").start()
    _create_topic(broker)
    find_coordinator(broker)
    members = [RawMember(f"m{n}") for n in range(MEMBERS)]
    for _ in range(KILLS):
        _live(broker, members, chance, seed)
        _kill(broker, members, chance)
        _come_back(broker, members, seed)
    for _ in range(6):
        for member in members:
            member.beat(broker)
    owned = sorted(partition for member in members for partition in member.partitions)
    assert owned == list(range(PARTITIONS)), seed
    for member in members:
        member.close()


def _create_topic(broker: TailraceProcess) -> None:
    topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
    with RawClient(broker) as client:
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        assert client.ask(CREATE_TOPICS, 5, request).topics[0].error_code == ErrorCode.NONE


def _kill(broker: TailraceProcess, members: list[RawMember], chance: random.Random) -> None:
    """Kill the broker while it has heartbeats to answer."""
    for member in members:
        if chance.random() < 0.7:
            member.beat_into_the_void(broker)
    broker.kill()
    for member in members:
        member.close()


def _come_back(broker: TailraceProcess, members: list[RawMember], seed: int) -> None:
    """Start the broker again: nobody is fenced, and nobody's epoch goes back."""
    broker.restart()
    find_coordinator(broker)
    for member in members:
        was = member.epoch
        response = member.beat(broker)
        assert response.error_code == ErrorCode.NONE, (seed, member, response.error_message)
        assert response.member_epoch >= was
    _check(members, seed)


def _live(
    broker: TailraceProcess, members: list[RawMember], chance: random.Random, seed: int
) -> None:
    """Let members send heartbeats, leave and come back under another name."""
    for _ in range(TURNS):
        member = chance.choice(members)
        if member.epoch and chance.random() < 0.15:
            leaving = ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id=member.member_id, member_epoch=-1
            )
            assert member.connection is not None
            member.connection.ask(CONSUMER_GROUP_HEARTBEAT, 1, leaving)
            member.epoch, member.owned, member.wanted = 0, {}, {}
            member.member_id += "'"
        response = member.beat(broker)
        assert response.error_code == ErrorCode.NONE, (seed, response.error_message)
        _check(members, seed)


def _check(members: list[RawMember], seed: int) -> None:
    owned = [partition for member in members for partition in member.partitions]
    assert len(owned) == len(set(owned)), (seed, [member.partitions for member in members])


def test_a_groups_own_configs_reach_its_members(
    broker_factory: Callable[..., TailraceProcess],
) -> None:
    broker = broker_factory().start()
    find_coordinator(broker)
    member = RawMember("m", topics=())
    assert member.beat(broker).heartbeat_interval_ms == 5_000
    change = AlterableConfig(name="consumer.heartbeat.interval.ms", value="6000")
    resource = AlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=[change]
    )
    with RawClient(broker) as client:
        request = IncrementalAlterConfigsRequest(resources=[resource])
        [answer] = client.ask(INCREMENTAL_ALTER_CONFIGS, 1, request).responses
        assert answer.error_code == ErrorCode.NONE
    assert member.beat(broker).heartbeat_interval_ms == 6_000
    member.close()
