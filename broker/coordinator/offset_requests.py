"""What the coordinator is asked about offsets: commits, transactions' ends, deletions, fetches.

Every change is answered when it is confirmed, or after `offsets.commit.timeout.ms`: then it may be
stored, or not.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

from broker.coordinator.config import GroupConfig
from broker.coordinator.effects import Caller
from broker.coordinator.metrics import GroupMetrics
from broker.coordinator.partitioning import OFFSETS_TOPIC, partition_for_group
from broker.coordinator.plans import names_any, refuse_commit, transactional_response
from broker.coordinator.reading import FoundOffsets, WantedOffsets
from broker.coordinator.shard import GroupShard
from broker.replicated.effects import EndOfTransaction
from broker.replicated.machine import Answer
from broker.replicated.partitions import Partitions, Topics, answer_now
from protocol.errors import ErrorCode
from protocol.ids import TopicPartition
from protocol.kafka.messages.offset_commit import OffsetCommitRequest
from protocol.kafka.messages.offset_delete import OffsetDeleteRequest
from protocol.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

QUESTIONS_MAX = 3
"""How often a transaction's coordinator is asked when a marker comes while it answers."""

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

    async def delete(self, group_id: str) -> ErrorCode:
        """DeleteGroups for one group; done when the tombstones are confirmed."""
        code: ErrorCode = await self._in_time(
            self._partitions.ask(
                group_id, lambda shard, ticket, _now: shard.delete_group(group_id, ticket)
            )
        )
        return code

    def settle(self, group_id: str) -> Answer:
        """Return what is done when everything asked of the group's shard so far is confirmed."""
        runner = self._partitions.runner(group_id)
        return answer_now(ErrorCode.NOT_COORDINATOR) if runner is None else runner.settle()

    async def find_offsets(self, wanted: WantedOffsets) -> FoundOffsets:
        """Return what a group has committed, by topic and partition.

        If stable, what was asked of the group's shard so far is confirmed first.
        """
        if wanted.is_stable:
            code = await self._in_time(self.settle(wanted.group_id))
            if code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                code = ErrorCode.NOT_COORDINATOR  # consumers before 3.9 do not know the other here
            if code is not ErrorCode.NONE:
                return FoundOffsets(code, [])
        shard = self._partitions.machine(wanted.group_id)
        if isinstance(shard, ErrorCode):
            return FoundOffsets(shard, [])
        return shard.commits.find(wanted)

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has, 0 if there is no such topic."""
        found = self._topics.get(topic)
        return 0 if found is None else found.partition_count

    async def _in_time(self, answer: Answer) -> Any:
        """Wait as long as a write may take; then it may be stored, or not."""
        try:
            async with asyncio.timeout(self._config.offsets_commit_timeout_ms / 1000):
                return await answer
        except TimeoutError:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
