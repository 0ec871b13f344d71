"""TxnOffsetCommit: offsets that become a group's when a transaction is committed."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tailrace.broker.context import RequestContext
from tailrace.broker.coordinator.plans import refuse_commit, transactional_response
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._groups import caller_of
from tailrace.broker.handlers._slices import AT_ONCE, is_long, join, parts
from tailrace.broker.transactions.peer_requests import Question
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import TXN_OFFSET_COMMIT
from tailrace.protocol.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

PARTITION_UNITS: Final = 2
"""What it takes to commit the offset of one partition."""
KNOWS_LOADING_SINCE = 2
"""Clients of earlier versions crash on COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
ABORTABLE_SINCE = 4
"""Versions whose clients know TRANSACTION_ABORTABLE."""
ADDS_PARTITIONS_SINCE = 5
"""Versions that add the group's partition to the transaction themselves (KIP-890)."""


@handles(TXN_OFFSET_COMMIT)
async def txn_offset_commit(
    ctx: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """TxnOffsetCommit v0-5: answered when the pending offsets are on disk at an ack quorum.

    Many partitions are committed in parts, one after the other.
    v3+ names the member, whose generation must be the group's: so a zombie is fenced (KIP-447).
    Errors: per partition; what concerns the group or the transaction stands at every partition.
    Source: KafkaApis.handleTxnOffsetCommitRequest, CoordinatorPartitionWriter.
    """
    if not is_long(request.topics):
        return await _commit(ctx, request)
    pace = ctx.pace()
    topics: list[TxnOffsetCommitResponseTopic] = []
    for part in parts(request.topics):
        response = await _commit(ctx, replace(request, topics=part))
        join(topics, response.topics)
        await pace.spend(PARTITION_UNITS * AT_ONCE)
    return TxnOffsetCommitResponse(topics=topics)


async def _commit(ctx: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    code = ctx.refusal(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id
    ) or ctx.refusal(Operation.READ, ResourceType.GROUP, request.group_id)
    denied = {topic.name: code for topic in request.topics} if code else _denied(ctx, request)
    refused = [_refused(t, denied[t.name]) for t in request.topics if t.name in denied]
    if refused:
        left = [topic for topic in request.topics if topic.name not in denied]
        if not left:
            return TxnOffsetCommitResponse(topics=refused)
        request = replace(request, topics=left)
    response = await _commit_allowed(ctx, request)
    response.topics = [*refused, *response.topics]
    return response


def _denied(ctx: RequestContext, request: TxnOffsetCommitRequest) -> Mapping[str, ErrorCode]:
    """Return the topics of a request that its client may not read."""
    if ctx.broker.authorizer is None:
        return {}
    names = dict.fromkeys(topic.name for topic in request.topics)
    codes = {name: ctx.refusal(Operation.READ, ResourceType.TOPIC, name) for name in names}
    return {name: code for name, code in codes.items() if code}


def _refused(topic: TxnOffsetCommitRequestTopic, code: ErrorCode) -> TxnOffsetCommitResponseTopic:
    partitions = [
        TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
        for each in topic.partitions
    ]
    return TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions)


async def _commit_allowed(
    ctx: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    version = ctx.header.api_version
    answer = await ctx.broker.groups.commit_in_transaction(
        request, caller_of(ctx), lambda partition: _verify(ctx, request, partition)
    )
    if isinstance(answer, ErrorCode):
        code = answer
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < KNOWS_LOADING_SINCE:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        count = ctx.broker.groups.partition_count
        return transactional_response(refuse_commit(request.topics, code, count))
    return answer


async def _verify(
    ctx: RequestContext, request: TxnOffsetCommitRequest, partition: TopicPartition
) -> ErrorCode:
    """Ask the transaction's coordinator whether the partition is in it, or to take it in."""
    version = ctx.header.api_version
    question = Question(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        (partition,),
        adds=version >= ADDS_PARTITIONS_SINCE,
    )
    codes = await ctx.broker.transactions.verification.ask(question)
    return _shown(codes.get(partition, ErrorCode.NONE), version)


def _shown(code: ErrorCode, version: int) -> ErrorCode:
    """Return what a client of this version is told.

    Source: AddPartitionsToTxnManager, GroupCoordinatorService.handleOperationException.
    """
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.NETWORK_EXCEPTION:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return code
