"""The group coordinator of one broker: every group's requests find their shard here.

Flow: handler -> GroupCoordinator -> Runner.ask -> GroupShard (pure) -> Effects -> replies now,
records through PartitionLog.append -> confirmed -> the rest of the replies.

Shards load when somebody asks for one of their groups, and one after the other in the background
after a start, so that sessions of restored members run and offsets expire although nobody asks.
"""

import asyncio
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, Protocol

from tailrace.broker.cluster.admin import AvailableBookies
from tailrace.broker.cluster.group_configs import GroupConfigs
from tailrace.broker.cluster.topic import Topic
from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.consumer.protocol import ConsumerSettings
from tailrace.broker.coordinator.consumer.request_checks import check_request
from tailrace.broker.coordinator.consumer.topics import KnownTopics
from tailrace.broker.coordinator.describing import described, listed, matches, not_found
from tailrace.broker.coordinator.effects import Caller
from tailrace.broker.coordinator.metrics import GroupMetrics
from tailrace.broker.coordinator.offset_requests import OffsetRequests
from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC
from tailrace.broker.coordinator.records import read_record
from tailrace.broker.coordinator.shard import GroupShard
from tailrace.broker.errors import KafkaError
from tailrace.broker.peers.routes import ALONE, Routes
from tailrace.broker.replicated.alarms import Alarms
from tailrace.broker.replicated.machine import Answer, Service
from tailrace.broker.replicated.partitions import InternalTopic, Partitions, Topics, answer_now
from tailrace.broker.replicated.record_log import RecordLogs
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.loop_turns import Pace
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tailrace.protocol.kafka.messages.describe_groups import DescribedGroup
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.kafka.messages.join_group import JoinGroupRequest
from tailrace.protocol.kafka.messages.leave_group import MemberIdentity
from tailrace.protocol.kafka.messages.list_groups import ListedGroup
from tailrace.protocol.kafka.messages.sync_group import SyncGroupRequest


class GroupTopics(Topics, KnownTopics, Protocol):
    """What is needed of the topics; `broker.cluster.TopicRegistry` is one."""


class GroupParts(NamedTuple):
    """What the coordinator stands on."""

    topics: GroupTopics
    logs: RecordLogs
    bookies: AvailableBookies
    clock: Clock
    random: Random
    routes: Routes = ALONE


class GroupCoordinator(OffsetRequests):
    """Groups of both protocols, and what all groups committed; all calls come from the loop."""

    def __init__(self, config: GroupConfig, parts: GroupParts) -> None:
        metrics = GroupMetrics()
        topics, clock = parts.topics, parts.clock
        self._random = parts.random
        self._routes = parts.routes
        self._tasks = Tasks("groups")
        self._expiry = Forever("groups.expiry")
        self._alarms = Alarms("groups", clock, self._on_due)
        self._is_stopping = False
        self.times_of: Callable[[str], GroupConfigs] = lambda _group_id: config.consumer.times
        """What holds for one consumer group; set by who knows the configs of groups."""
        consumers = ConsumerSettings(config=config.consumer, topics=topics, times_of=self._times_of)
        service = Service(
            name="group",
            logs=parts.logs,
            clock=clock,
            make=lambda _partition: GroupShard(config, self._new_suffix, consumers),
            read_record=read_record,
            load_bytes=config.offsets_load_buffer_bytes,
            on_wake=self._alarms.schedule,
            on_command=_no_command,
            metrics=metrics,
            is_mine=parts.routes.is_mine,
            catch_up=topics.catch_up,
        )
        internal = _offsets_topic(config)
        partitions = Partitions(internal, service, topics, parts.bookies, self._tasks)
        super().__init__(config, topics, partitions, metrics)

    async def start(self, metrics: Metrics | None = None) -> None:
        """Begin to serve: the shards of an existing topic load in the background."""
        if metrics is not None:
            metrics.register("broker_groups", self.metrics)
        self._topics.listen(self)
        self._routes.listen(self.follow_owners)
        self._partitions.make()
        self._partitions.load_soon()
        self._tasks.start(self._alarms.run(), "deadlines")
        self._tasks.start(self._expiry.run(self._clean_later), "expiry")

    def release(self) -> None:
        """Let nobody wait in a barrier any more: before the server waits for requests in flight."""
        self._stop()
        self._partitions.tell(lambda shard, _now: shard.release(ErrorCode.NOT_COORDINATOR))

    async def close(self) -> None:
        """Stop; whoever waits is told to find another coordinator. Idempotent."""
        self._stop()
        self._partitions.drop()  # first: an append that fails now has nobody to load again for
        await self._tasks.close()

    def follow_owners(self) -> None:
        """Leave groups to the brokers that coordinate them by now, and take over this one's."""
        self._partitions.follow_owners()

    def _stop(self) -> None:
        self._is_stopping = True
        self._partitions.stop()

    # Requests: each returns a future of the response, or of an ErrorCode

    def join(self, request: JoinGroupRequest, caller: Caller) -> Answer:
        """JoinGroup; may wait in the join barrier."""
        self.metrics.joins_total += 1
        if not request.group_id or self._is_stopping:
            return answer_now(self._refusal())
        return self._partitions.ask(
            request.group_id,
            lambda shard, ticket, now: shard.join(request, caller, ticket, now),
        )

    def sync(self, request: SyncGroupRequest) -> Answer:
        """SyncGroup; may wait in the sync barrier."""
        self.metrics.syncs_total += 1
        if not request.group_id or self._is_stopping:
            return answer_now(self._refusal())
        return self._partitions.ask(
            request.group_id, lambda shard, ticket, now: shard.sync(request, ticket, now)
        )

    def heartbeat(self, request: HeartbeatRequest) -> Answer:
        """Heartbeat; while the group loads it is answered as if all were well."""
        self.metrics.heartbeats_total += 1
        if not request.group_id:
            return answer_now(ErrorCode.INVALID_GROUP_ID)
        answer = self._partitions.ask(
            request.group_id, lambda shard, ticket, now: shard.heartbeat(request, ticket, now)
        )
        is_loading = answer.done() and answer.result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return answer_now(ErrorCode.NONE) if is_loading else answer

    def leave(self, group_id: str, members: Sequence[MemberIdentity]) -> Answer:
        """LeaveGroup of any number of members."""
        self.metrics.leaves_total += 1
        if not group_id:
            return answer_now(ErrorCode.INVALID_GROUP_ID)
        return self._partitions.ask(
            group_id, lambda shard, ticket, now: shard.leave(group_id, members, ticket, now)
        )

    def rebalance(self, group_id: str) -> Answer:
        """Have all members of a group join again. Answer: an ErrorCode."""
        return self._partitions.ask(
            group_id, lambda shard, ticket, now: shard.rebalance(group_id, ticket, now)
        )

    def consumer_heartbeat(self, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> Answer:
        """ConsumerGroupHeartbeat; done when what it tells the member is confirmed."""
        self.metrics.consumer_heartbeats_total += 1
        if self._is_stopping:
            return answer_now(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        try:
            check_request(request, caller.version, self._config.consumer)
        except KafkaError as error:
            response = ConsumerGroupHeartbeatResponse(
                error_code=error.code, error_message=error.detail
            )
            return answer_now(response)
        return self._partitions.ask(
            request.group_id,
            lambda shard, ticket, now: shard.consumer_heartbeat(request, caller, ticket, now),
        )

    def describe_consumer_group(self, group_id: str) -> Answer:
        """ConsumerGroupDescribe for one group; done when all that it shows is confirmed."""
        if not group_id:
            return answer_now(ErrorCode.INVALID_GROUP_ID)
        return self._partitions.ask(
            group_id, lambda shard, ticket, _now: shard.describe_consumer_group(group_id, ticket)
        )

    def describe(self, group_id: str, version: int) -> DescribedGroup:
        """Return one group for DescribeGroups."""
        found = self._partitions.machine(group_id)
        if isinstance(found, ErrorCode):
            return DescribedGroup(group_id=group_id, error_code=found)
        group = found.groups.classic(group_id)
        if group is not None:
            return described(group)
        why = "is not a classic group" if group_id in found.groups else "not found"
        return not_found(group_id, version, f"Group {group_id} {why}.")

    async def list_groups(
        self, states: Collection[str], kinds: Collection[str], pace: Pace
    ) -> list[ListedGroup] | ErrorCode:
        """Return the groups of all shards that pass the filters; waits a while for loading.

        `states`, `kinds`: in small letters; an empty filter lets all pass. `pace`: the request's.
        """
        if not await self._partitions.all_loaded():
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [
            listed(group)
            for shard in list(self._partitions.machines())
            async for group in pace.each(list(shard.groups.values()))
            if matches(group, states, kinds)
        ]

    async def make_topic(self) -> bool:
        """Create the internal topic unless it is there; False if that failed. Errors: none."""
        return await self._partitions.make_topic()

    async def find(self, group_id: str) -> TopicPartition | ErrorCode:
        """Return the partition that a group lives in, whose owner is its coordinator, or 15."""
        return await self._partitions.find(group_id)

    async def find_all(
        self, group_ids: Iterable[str], pace: Pace
    ) -> Mapping[str, TopicPartition | ErrorCode]:
        """Return the same of many groups, after one wait. `pace`: the request's."""
        return await self._partitions.find_all(group_ids, pace)

    def _refusal(self) -> ErrorCode:
        if self._is_stopping:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.INVALID_GROUP_ID

    # Topics

    def on_topic_changed(self, topic: Topic) -> None:
        """Begin to serve when the internal topic is there; let groups look at others."""
        if topic.name == OFFSETS_TOPIC:
            self._partitions.make()
        for shard in self._partitions.machines():
            shard.note_topic(topic.name)

    async def on_topic_deleting(self, topic: Topic) -> None:
        """Drop what groups committed for a topic that goes; with the internal topic, everything."""
        if topic.name == OFFSETS_TOPIC:
            self._partitions.drop()
            return
        name = topic.name
        for runner in self._partitions:
            runner.tell_loaded(name, lambda shard, _now: [shard.drop_topic(name)])

    # Time

    def fire_due(self) -> None:
        """Act on every deadline that has passed."""
        self._alarms.fire_due()

    def clean(self) -> None:
        """Delete offsets that have lapsed and groups that have none."""
        self._partitions.tell(lambda shard, now: [shard.clean(now)], self._expiry.item)

    def _on_due(self, group_id: str) -> None:
        self._partitions.expire(group_id)

    async def _clean_later(self) -> None:
        await asyncio.sleep(self._config.offsets_retention_check_interval_ms / 1000)
        self.clean()

    def _times_of(self, group_id: str) -> GroupConfigs:
        return self.times_of(group_id)

    def _new_suffix(self) -> str:
        return str(uuid.UUID(bytes=self._random.randbytes(16), version=4))


def _offsets_topic(config: GroupConfig) -> InternalTopic:
    configs = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }
    return InternalTopic(
        OFFSETS_TOPIC,
        config.offsets_topic_partitions,
        config.offsets_topic_replication_factor,
        configs,
    )


def _no_command(_partition: int, command: Any) -> None:
    raise AssertionError(f"groups ask nothing of their surroundings: {command!r}")
