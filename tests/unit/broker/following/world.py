"""Two brokers over real logs: one owns partitions, the other follows them."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tailrace.broker.cluster.live_brokers import LiveBroker, LiveBrokers
from tailrace.broker.cluster.names import stream_name
from tailrace.broker.config import RACK_AWARE_SELECTOR, BrokerConfig
from tailrace.broker.following.config import FollowingConfig
from tailrace.broker.following.followed import FollowedPartition
from tailrace.broker.following.followed_partitions import FollowedPartitions
from tailrace.broker.following.leader import Leaders
from tailrace.broker.listeners import Endpoint
from tailrace.broker.partition.config import PartitionConfig
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.partition_logs import PartitionLogs
from tailrace.broker.peers.errors import PeerUnavailable
from tailrace.core.log.config import LogConfig
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.unit.broker.fakes import make_world
from tests.unit.broker.loops import until
from tests.unit.core.log.world import QUIET, run_world
from tests.unit.core.log.world import World as LogWorld

ME: Final = 1
OWNER: Final = 2
RACKS: Final = {ME: "near", OWNER: "far"}
PARTITION: Final = TopicPartition("t", 0)
CONFIG: Final = BrokerConfig(node_id=ME, rack=RACKS[ME], replica_selector=RACK_AWARE_SELECTOR)
LOGS: Final = replace(QUIET, control_flush_ms=1, lac_poll_ms=3_600_000)
"""Entries are told of soon; a poll that ended by its time would never end."""


class OwnerSays:
    """`Peers`, of which the owner answers ListOffsets."""

    def __init__(self) -> None:
        self.log: PartitionLog | None = None
        """None: it does not answer."""
        self.asked = 0

    async def send(self, broker_id: int, _api: Any, request: Any, *_: object) -> Any:
        self.asked += 1
        await asyncio.sleep(0)
        if self.log is None:
            raise PeerUnavailable(f"broker {broker_id} is not alive")
        (topic,) = request.topics
        (wanted,) = topic.partitions
        told = ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index,
            error_code=ErrorCode.NONE,
            offset=self.log.high_watermark,
            leader_epoch=self.log.leader_epoch,
        )
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=topic.name, partitions=[told])]
        )


class Pair:
    """The owner's partition, and the broker that follows it."""

    def __init__(self, logs: LogWorld, config: BrokerConfig = CONFIG) -> None:
        self.logs = logs
        self.clock = logs.clock
        self.world = make_world(config=config, clock=logs.clock)
        self.topics = self.world.topics
        self.topics.add(PARTITION.topic, 2)
        self.owned_by(OWNER)
        self.says = OwnerSays()
        self.owners: list[PartitionLogs] = []
        broker, topics = self.world.broker, self._topics
        self.namespace = logs.namespace(client_id="me")
        self.partitions = PartitionLogs(
            self.namespace, topics, self.clock, config.partitions, broker.routes
        )
        broker.partitions = self.partitions
        broker.peers = self._peers
        leaders = Leaders(broker.routes, self.says)
        self.followed = FollowedPartitions(
            self.namespace, topics, self.partitions, leaders, config.following
        )
        broker.followed = self.followed
        broker.routes.listen(self.followed.owners_changed)
        broker.routes.listen(self.partitions.let_go)

    @property
    def _topics(self) -> Any:
        return self.topics

    @property
    def _peers(self) -> Any:
        return self.says

    def owned_by(self, *preferred: int, live: tuple[int, ...] = (ME, OWNER)) -> None:
        """Have the topic's partitions be the first broker's that is alive."""
        self.topics.assign(PARTITION.topic, dict.fromkeys(range(2), preferred))
        at = {"PLAINTEXT": Endpoint("broker.test", 9092)}
        self.world.broker.routes.use(
            LiveBrokers(LiveBroker(each, at, at["PLAINTEXT"], RACKS[each]) for each in live)
        )

    async def own(self, partition: TopicPartition = PARTITION) -> PartitionLog:
        """Open a partition in another process, which takes it from the one before."""
        if not await self.namespace.log_exists(stream_name(*partition)):
            await self.logs.namespace().create_log(stream_name(*partition))
        namespace = self.logs.namespace(client_id="owner")
        owner = PartitionLogs(namespace, self._topics, self.clock, PartitionConfig())
        self.owners.append(owner)
        log = await owner.open(partition)
        self.says.log = log
        return log

    async def follow(self, partition: TopicPartition = PARTITION) -> FollowedPartition:
        """Open the follower's side, which can be opened."""
        found = await self.followed.opening(*partition)
        assert isinstance(found, FollowedPartition), found
        return found

    async def close(self) -> None:
        await self.followed.close()
        await self.partitions.close()
        for each in self.owners:
            await each.close()


async def reached(followed: FollowedPartition, log: PartitionLog) -> None:
    """Wait until a follower has seen all that its owner confirmed."""
    await until(lambda: followed.high_watermark == log.high_watermark)


def bounded(config: FollowingConfig) -> BrokerConfig:
    """Return settings of a follower with bounds of its own."""
    return replace(CONFIG, following=config)


def run_pair(
    path: Path,
    story: Callable[[Pair], Coroutine[Any, Any, None]],
    config: BrokerConfig = CONFIG,
    logs: LogConfig = LOGS,
) -> None:
    """Run a story of both; at its end all is closed."""

    async def main(world: LogWorld) -> None:
        pair = Pair(world, config)
        try:
            await story(pair)
        finally:
            await pair.close()

    run_world(path, main, config=logs)
