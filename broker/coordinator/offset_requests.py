"""What the coordinator is asked about offsets: commits, transactions' ends, deletions, fetches.

Every change is answered when it is confirmed, or after `offsets.commit.timeout.ms`: then it may be
stored, or not.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.effects import Caller
from tailrace.broker.coordinator.metrics import GroupMetrics
from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC, partition_for_group
from tailrace.broker.coordinator.plans import names_any, refuse_commit, transactional_response
from tailrace.broker.coordinator.reading import FoundOffsets, WantedOffsets
from tailrace.broker.coordinator.reading import Topics as WantedTopics
from tailrace.broker.coordinator.shard import GroupShard
from tailrace.broker.replicated.effects import Effects, EndOfTransaction, Now, Ticket
from tailrace.broker.replicated.machine import Answer
from tailrace.broker.replicated.partitions import Partitions, Topics, answer_now
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.messages.offset_commit import OffsetCommitRequest
from tailrace.protocol.kafka.messages.offset_delete import OffsetDeleteRequest
from tailrace.protocol.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

QUESTIONS_MAX = 3
"""How often a transaction's coordinator is asked when a marker comes while it answers."""

K = TypeVar("K", bound=Hashable)

Verify: TypeAlias = Callable[[TopicPartition], Awaitable[ErrorCode]]
"""Says whether a partition is in a transaction, or why not."""


class OffsetRequests:
    """The part of the group coordinator that knows nothing of members."""

    def __init__(
        self,
        config: GroupConfig,
        topics: Topics,
        partitions: Partitions[GroupShard],
        metrics: GroupMetrics,
    ) -> None:
        self.metrics = metrics
        self._config = config
        self._topics = topics
        self._partitions = partitions

    def commit(self, request: OffsetCommitRequest, caller: Caller) -> Answer:
        """OffsetCommit; done when the offsets are confirmed. An empty group id is a name, too."""
        self.metrics.commits_total += 1
        return self._partitions.ask(
            request.group_id,
            lambda shard, ticket, now: shard.commit(
                request, caller, self.partition_count, ticket, now
            ),
        )

    async def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, caller: Caller, verify: Verify
    ) -> TxnOffsetCommitResponse | ErrorCode:
        """TxnOffsetCommit; done when it is confirmed. The offsets are pending until the marker.

        `verify`: asks the transaction's coordinator about the group's partition.
        Cancel: the commit may be written.
        """
        self.metrics.commits_total += 1
        partition = self.partition_for_group(request.group_id)
        if not request.group_id or partition is None:
            return ErrorCode.NOT_COORDINATOR if request.group_id else ErrorCode.INVALID_GROUP_ID
        shard = self._partitions.machine(request.group_id)
        if isinstance(shard, ErrorCode):
            return shard
        if names_any(request.topics, self.partition_count):
            group = TopicPartition(OFFSETS_TOPIC, partition)
            return await self._commit_verified(request, caller, shard, partial(verify, group))
        # Nothing for a transaction to hold, so none is opened.
        nothing = refuse_commit(request.topics, ErrorCode.NONE, self.partition_count)
        return transactional_response(nothing)

    async def _commit_verified(
        self,
        request: TxnOffsetCommitRequest,
        caller: Caller,
        shard: GroupShard,
        verify: Callable[[], Awaitable[ErrorCode]],
    ) -> TxnOffsetCommitResponse | ErrorCode:
        guards = shard.commits.guards
        guard = guards.begin(request.producer_id)
        try:
            code = await verify()
            for _ in range(QUESTIONS_MAX - 1):
                if code is not ErrorCode.NONE or guards.holds(request.producer_id, guard):
                    break
                guard = guards.begin(request.producer_id)  # the marker was the former one's?
                code = await verify()
            if code is not ErrorCode.NONE:
                return code
            if self._partitions.machine(request.group_id) is not shard:
                return ErrorCode.NOT_COORDINATOR  # read again meanwhile: the guard means nothing
            answer: TxnOffsetCommitResponse | ErrorCode = await self._in_time(
                self._partitions.ask(
                    request.group_id,
                    lambda shard, ticket, now: shard.commit_in_transaction(
                        request, caller, self.partition_count, guard, ticket, now
                    ),
                )
            )
            return answer
        finally:
            guards.give_back(request.producer_id, guard)

    def end_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,  # noqa: FBT001 - as agreed with the transaction coordinator
        transaction_version: int = 0,
    ) -> Answer:
        """Write a transaction's marker to a partition of `__consumer_offsets`. An ErrorCode.

        Done when it is confirmed: what the transaction committed is then visible, or gone.
        Errors: UNKNOWN_TOPIC_OR_PARTITION once there is no such partition, and so nothing to end.
        """
        if partition not in range(self.partition_count(OFFSETS_TOPIC)):
            return answer_now(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        end = EndOfTransaction(
            producer_id, producer_epoch, coordinator_epoch, committed, transaction_version
        )
        return self._partitions.ask_partition(
            partition, lambda shard, ticket, _now: shard.end_transaction(end, ticket)
        )

    def partition_for_group(self, group_id: str) -> int | None:
        """Return the partition of `__consumer_offsets` that a group lives in, once there is one."""
        count = len(self._partitions)
        return partition_for_group(group_id, count) if count else None

    def delete_offsets(self, request: OffsetDeleteRequest) -> Answer:
        """OffsetDelete; done when the tombstones are confirmed."""
        if not request.group_id:
            return answer_now(ErrorCode.INVALID_GROUP_ID)
        return self._partitions.ask(
            request.group_id,
            lambda shard, ticket, _now: shard.delete_offsets(request, self.partition_count, ticket),
        )

    async def delete(self, group_ids: Iterable[str]) -> dict[str, ErrorCode]:
        """DeleteGroups for some groups; done when the tombstones are confirmed, or it is late."""
        deleted = {
            group_id: self._partitions.ask(group_id, partial(_delete_group, group_id))
            for group_id in group_ids
        }
        return await self._all_in_time(deleted)

    def settle(self, group_id: str) -> Answer:
        """Return what is done when everything asked of the group's shard so far is confirmed."""
        runner = self._partitions.runner(group_id)
        return answer_now(ErrorCode.NOT_COORDINATOR) if runner is None else runner.settle()

    async def settle_all(self, group_ids: Iterable[str], pace: Pace) -> Mapping[str, ErrorCode]:
        """Wait until everything asked of the groups' shards so far is confirmed.

        Return why nothing can be told of those groups of which that is so.
        Cost: each shard is asked once, however many of its groups there are.
        """
        runners: defaultdict[int, list[str]] = defaultdict(list)
        refused = {}
        async for group_id in pace.each(group_ids):
            partition = self.partition_for_group(group_id)
            if partition is None:
                refused[group_id] = ErrorCode.NOT_COORDINATOR
            else:
                runners[partition].append(group_id)
        settled = {each: self._partitions.runner_of(each).settle() for each in runners}
        for partition, code in (await self._all_in_time(settled)).items():
            if code is not ErrorCode.NONE:
                refused.update(dict.fromkeys(runners[partition], _of_a_fetch(code)))
        return refused

    async def find_offsets(self, wanted: WantedOffsets) -> FoundOffsets:
        """Return what a group has committed, by topic and partition.

        If stable, what was asked of the group's shard so far is confirmed first.
        """
        if wanted.is_stable:
            code = await self._in_time(self.settle(wanted.group_id))
            if code is not ErrorCode.NONE:
                return FoundOffsets(_of_a_fetch(code), [])
        return self.find_now(wanted)

    def find_now(self, wanted: WantedOffsets) -> FoundOffsets:
        """Return the same at once, of a group that was settled if it had to be.

        Cost: some microseconds for each partition.
        """
        shard = self._partitions.machine(wanted.group_id)
        if isinstance(shard, ErrorCode):
            return FoundOffsets(shard, [])
        return shard.commits.find(wanted)

    def committed_partitions(self, group_id: str) -> WantedTopics:
        """Return for what a group has committed offsets, in the order of their names."""
        shard = self._partitions.machine(group_id)
        if isinstance(shard, ErrorCode):
            return ()
        committed = shard.commits.offsets.of_group(group_id)
        return [(topic, sorted(committed[topic])) for topic in sorted(committed)]

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has, 0 if there is no such topic."""
        found = self._topics.get(topic)
        return 0 if found is None else found.partition_count

    async def _all_in_time(self, answers: Mapping[K, Answer]) -> dict[K, ErrorCode]:
        """Wait for all as long as a write may take, and return what became of each."""
        if answers:
            timeout_s = self._config.offsets_commit_timeout_ms / 1000
            await asyncio.wait(answers.values(), timeout=timeout_s)
        return {
            key: answer.result() if answer.done() else ErrorCode.COORDINATOR_NOT_AVAILABLE
            for key, answer in answers.items()
        }

    async def _in_time(self, answer: Answer) -> Any:
        """Wait as long as a write may take; then it may be stored, or not."""
        try:
            async with asyncio.timeout(self._config.offsets_commit_timeout_ms / 1000):
                return await answer
        except TimeoutError:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE


def _delete_group(group_id: str, shard: GroupShard, ticket: Ticket, _now: Now) -> Effects:
    return shard.delete_group(group_id, ticket)


def _of_a_fetch(code: ErrorCode) -> ErrorCode:
    """Return an error in words that consumers before 3.9 know in OffsetFetch."""
    if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        return ErrorCode.NOT_COORDINATOR
    return code
