"""The group coordinator of one broker: every group's requests find their shard here.

Flow: handler -> GroupCoordinator -> ShardRunner.ask -> GroupShard (pure) -> Effects -> replies now,
records through PartitionLog.append -> confirmed -> the rest of the replies.

Shards load when somebody asks for one of their groups, and one after the other in the background
after a start, so that sessions of restored members run and offsets expire although nobody asks.
"""

import asyncio
import logging
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Protocol, TypeAlias

from broker.cluster.admin import AvailableBookies
from broker.cluster.topics import Topic, TopicListener
from broker.coordinator.config import GroupConfig
from broker.coordinator.deadlines import Deadlines
from broker.coordinator.describing import described, listed, matches, not_found
from broker.coordinator.effects import NEVER, Caller
from broker.coordinator.metrics import GroupMetrics
from broker.coordinator.offsets_log import OffsetsLogs
from broker.coordinator.partitioning import OFFSETS_TOPIC, partition_for_group
from broker.coordinator.records import CommittedOffset
from broker.coordinator.shard import GroupShard
from broker.coordinator.shard_runner import Answer, Event, ShardRunner, Surroundings
from broker.errors import KafkaError
from core.errors import CoreError
from core.runtime.clock import Clock
from core.runtime.metrics import Metrics
from core.runtime.tasks import Tasks
from protocol.errors import ErrorCode
from protocol.ids import TopicPartition
from protocol.kafka.messages.describe_groups import DescribedGroup
from protocol.kafka.messages.heartbeat import HeartbeatRequest
from protocol.kafka.messages.join_group import JoinGroupRequest
from protocol.kafka.messages.leave_group import MemberIdentity
from protocol.kafka.messages.list_groups import ListedGroup
from protocol.kafka.messages.offset_commit import OffsetCommitRequest
from protocol.kafka.messages.sync_group import SyncGroupRequest

logger = logging.getLogger(__name__)

LOAD_WAIT_S = 5.0
"""How long a request that needs a loaded shard may wait for one that is being read."""

GroupOffsets: TypeAlias = Mapping[str, Mapping[int, CommittedOffset]]


class OffsetsTopics(Protocol):
    """What the coordinator needs of the topics; `broker.cluster.TopicRegistry` is one."""

    def get(self, name: str) -> Topic | None:
        """Return a topic that can be used."""

    async def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None] | None = None,
        replication_factor: int = 1,
    ) -> Topic:
        """Create a topic. Errors: KafkaError, CoreError."""

    def listen(self, listener: TopicListener) -> None:
        """Tell `listener` about every later change."""


class GroupCoordinator:
    """Classic groups and committed offsets of every group; all calls come from the loop."""

    def __init__(
        self,
        config: GroupConfig,
        topics: OffsetsTopics,
        logs: OffsetsLogs,
        bookies: AvailableBookies,
        clock: Clock,
        random: Random,
    ) -> None:
        self.metrics = GroupMetrics()
        self._config = config
        self._topics = topics
        self._bookies = bookies
        self._clock = clock
        self._random = random
        self._tasks = Tasks("groups")
        self._runners: list[ShardRunner] = []
        self._deadlines = Deadlines()
        self._sooner = asyncio.Event()
        self._is_stopping = False
        self._around = Surroundings(
            logs=logs,
            config=config,
            clock=clock,
            new_suffix=self._new_suffix,
            on_wake=self._on_wake,
            metrics=self.metrics,
        )

    async def start(self, metrics: Metrics | None = None) -> None:
        """Begin to serve: the shards of an existing topic load in the background."""
        if metrics is not None:
            metrics.register("broker_groups", self.metrics)
        self._topics.listen(self)
        self._make_runners()
        self._tasks.start(self._load_all(), "load")
        self._tasks.start(self._keep_time(), "deadlines")
        self._tasks.start(self._keep_clean(), "expiry")

    def release(self) -> None:
        """Let nobody wait in a barrier any more: before the server waits for requests in flight."""
        self._is_stopping = True
        for runner in self._runners:
            runner.release()

    async def close(self) -> None:
        """Stop; whoever waits is told to find another coordinator. Idempotent."""
        self._is_stopping = True
        runners, self._runners = self._runners, []
        await self._tasks.close()
        for runner in runners:
            runner.unload(ErrorCode.NOT_COORDINATOR)

    # Requests: each returns a future of the response, or of an ErrorCode

    def join(self, request: JoinGroupRequest, caller: Caller) -> Answer:
        """JoinGroup; may wait in the join barrier."""
        self.metrics.joins_total += 1
        if not request.group_id or self._is_stopping:
            return _now(self._refusal())
        return self._ask(
            request.group_id,
            lambda shard, ticket, now: shard.join(request, caller, ticket, now),
        )

    def sync(self, request: SyncGroupRequest) -> Answer:
        """SyncGroup; may wait in the sync barrier."""
        self.metrics.syncs_total += 1
        if not request.group_id or self._is_stopping:
            return _now(self._refusal())
        return self._ask(
            request.group_id, lambda shard, ticket, now: shard.sync(request, ticket, now)
        )

    def heartbeat(self, request: HeartbeatRequest) -> Answer:
        """Heartbeat; while the group loads it is answered as if all were well."""
        self.metrics.heartbeats_total += 1
        if not request.group_id:
            return _now(ErrorCode.INVALID_GROUP_ID)
        answer = self._ask(
            request.group_id, lambda shard, ticket, now: shard.heartbeat(request, ticket, now)
        )
        is_loading = answer.done() and answer.result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return _now(ErrorCode.NONE) if is_loading else answer

    def leave(self, group_id: str, members: Sequence[MemberIdentity]) -> Answer:
        """LeaveGroup of any number of members."""
        self.metrics.leaves_total += 1
        if not group_id:
            return _now(ErrorCode.INVALID_GROUP_ID)
        return self._ask(
            group_id, lambda shard, ticket, now: shard.leave(group_id, members, ticket, now)
        )

    def commit(self, request: OffsetCommitRequest, caller: Caller) -> Answer:
        """OffsetCommit; done when the offsets are confirmed. An empty group id is a name, too."""
        self.metrics.commits_total += 1
        return self._ask(
            request.group_id,
            lambda shard, ticket, now: shard.commit(
                request, caller, self._partition_count, ticket, now
            ),
        )

    def settle(self, group_id: str) -> Answer:
        """Return what is done when everything asked of the group's shard so far is confirmed."""
        runner = self._runner(group_id)
        return _now(ErrorCode.NOT_COORDINATOR) if runner is None else runner.settle()

    def offsets(self, group_id: str) -> GroupOffsets | ErrorCode:
        """Return everything that a group has committed, by topic and partition."""
        found = self._loaded_shard(group_id)
        return found if isinstance(found, ErrorCode) else found.offsets.of_group(group_id)

    def describe(self, group_id: str, version: int) -> DescribedGroup:
        """Return one group for DescribeGroups."""
        found = self._loaded_shard(group_id)
        if isinstance(found, ErrorCode):
            return DescribedGroup(group_id=group_id, error_code=found)
        group = found.groups.get(group_id)
        return not_found(group_id, version) if group is None else described(group)

    async def list_groups(
        self, states: Sequence[str], types: Sequence[str]
    ) -> list[ListedGroup] | ErrorCode:
        """Return the groups of all shards that pass the filters; waits a while for loading."""
        try:
            async with asyncio.timeout(LOAD_WAIT_S):
                all_loaded = all([await runner.loaded() for runner in self._runners])
        except TimeoutError:
            all_loaded = False
        if not all_loaded:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [
            listed(group)
            for runner in self._runners
            if runner.shard is not None
            for group in runner.shard.groups.values()
            if matches(group, states, types)
        ]

    async def prepare(self, group_id: str) -> ErrorCode:
        """Make sure that the group can be served here: FindCoordinator's part.

        Creates the internal topic for the first group of all, and waits a while for the group's
        shard, so that the client's next request finds it loaded.
        """
        if self._topics.get(OFFSETS_TOPIC) is None and not self._is_stopping:
            try:
                await self._create_topic()
            except (KafkaError, CoreError) as error:
                logger.warning("offsets_topic_not_created error=%r", error)
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
        runner = self._runner(group_id)
        if runner is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        with suppress(TimeoutError):
            async with asyncio.timeout(LOAD_WAIT_S):
                await runner.loaded()
        return ErrorCode.NONE

    def _refusal(self) -> ErrorCode:
        if self._is_stopping:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.INVALID_GROUP_ID

    # Topics

    def on_topic_changed(self, topic: Topic) -> None:
        """Begin to serve when the internal topic is there."""
        if topic.name == OFFSETS_TOPIC:
            self._make_runners()

    async def on_topic_deleting(self, topic: Topic) -> None:
        """Drop what groups committed for a topic that goes; with the internal topic, everything."""
        if topic.name != OFFSETS_TOPIC:
            for runner in self._runners:
                runner.drop_topic(topic.name)
            return
        runners, self._runners = self._runners, []
        for runner in runners:
            runner.unload(ErrorCode.NOT_COORDINATOR)

    async def _create_topic(self) -> None:
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._config.offsets_topic_segment_bytes),
        }
        bookies = len(await self._bookies.available())
        copies = min(self._config.offsets_topic_replication_factor, max(bookies, 1))
        partitions = self._config.offsets_topic_partitions
        try:
            await self._topics.create(OFFSETS_TOPIC, partitions, configs, copies)
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
        self._make_runners()

    def _make_runners(self) -> None:
        topic = self._topics.get(OFFSETS_TOPIC)
        if topic is None or self._is_stopping:
            return
        for partition in range(len(self._runners), topic.partition_count):
            tp = TopicPartition(OFFSETS_TOPIC, partition)
            self._runners.append(ShardRunner(tp, self._around, self._tasks))

    def _partition_count(self, topic: str) -> int:
        found = self._topics.get(topic)
        return 0 if found is None else found.partition_count

    # Shards

    def _ask(self, group_id: str, event: Event) -> Answer:
        runner = self._runner(group_id)
        return _now(ErrorCode.NOT_COORDINATOR) if runner is None else runner.ask(event)

    def _runner(self, group_id: str) -> ShardRunner | None:
        if not self._runners:
            return None
        return self._runners[partition_for_group(group_id, len(self._runners))]

    def _loaded_shard(self, group_id: str) -> GroupShard | ErrorCode:
        runner = self._runner(group_id)
        if runner is None:
            return ErrorCode.NOT_COORDINATOR
        if runner.shard is None:
            runner.load_soon()
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return runner.shard

    async def _load_all(self) -> None:
        for runner in list(self._runners):
            with suppress(TimeoutError):  # one that cannot be read does not hold up the others
                async with asyncio.timeout(LOAD_WAIT_S):
                    await runner.loaded()

    # Time

    def fire_due(self) -> None:
        """Act on every deadline that has passed."""
        for group_id in self._deadlines.pop_due(self._around.now().mono_ms):
            runner = self._runner(group_id)
            if runner is not None:
                runner.expire(group_id)

    def clean(self) -> None:
        """Delete offsets that have lapsed and groups that have none."""
        for runner in self._runners:
            runner.clean()

    def _on_wake(self, group_id: str, at_ms: int) -> None:
        if self._deadlines.schedule(group_id, at_ms):
            self._sooner.set()

    async def _keep_time(self) -> None:
        """Sleep until the next deadline of any group, or until an earlier one is set."""
        while True:
            self.fire_due()
            self._sooner.clear()
            next_ms = self._deadlines.next_ms()
            left_s = None
            if next_ms != NEVER:
                left_s = (next_ms - self._around.now().mono_ms) / 1000
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._sooner.wait()

    async def _keep_clean(self) -> None:
        while True:
            await asyncio.sleep(self._config.offsets_retention_check_interval_ms / 1000)
            self.clean()

    def _new_suffix(self) -> str:
        return str(uuid.UUID(bytes=self._random.randbytes(16), version=4))


def _now(code: ErrorCode) -> Answer:
    answer: Answer = asyncio.get_running_loop().create_future()
    answer.set_result(code)
    return answer
