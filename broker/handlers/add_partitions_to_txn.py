"""AddPartitionsToTxn: take partitions into a transaction, or ask whether they are in it."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, TypeAlias

from tailrace.broker.cluster.names import INTERNAL_TOPICS
from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._transactions import code_for
from tailrace.broker.replicated.partitions import answer_now
from tailrace.broker.transactions.decisions import Producer
from tailrace.broker.transactions.metadata import VERSION_2
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import ADD_PARTITIONS_TO_TXN
from tailrace.protocol.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
FENCED_SINCE = 2
BATCHED_SINCE = 4
"""Versions for brokers: several transactions at once, and questions (KIP-890)."""

TRANSACTION_UNITS = 10
"""What it takes to ask the coordinator of one transaction."""

Codes: TypeAlias = ErrorCode | Mapping[TopicPartition, ErrorCode]


@handles(ADD_PARTITIONS_TO_TXN)
async def add_partitions_to_txn(
    ctx: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """AddPartitionsToTxn v0-5.

    One partition that does not exist refuses them all: it gets UNKNOWN_TOPIC_OR_PARTITION, the
    others OPERATION_NOT_ATTEMPTED. Errors: 49, 90 (47 before v2), 51; 120 for a partition that is
    asked for and not in the transaction.
    Source: KafkaApis.handleAddPartitionsToTxnRequest; reference/kafka.md 4.4, 4.6.
    """
    version, pace = ctx.header.api_version, ctx.pace()
    if version >= BATCHED_SINCE and (code := ctx.cluster_refusal(Operation.CLUSTER_ACTION)):
        return await _refused(request, code, pace)
    if version < BATCHED_SINCE:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        codes = await (await _begin(ctx, transaction, pace))
        results = await _results(transaction.topics, codes, version, pace)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    begun = [
        (transaction, await _begin(ctx, transaction, pace))
        async for transaction in pace.each(request.transactions, TRANSACTION_UNITS)
    ]
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=await _results(transaction.topics, await answer, version, pace),
            )
            async for transaction, answer in pace.each(begun)
        ]
    )


async def _begin(
    ctx: RequestContext, transaction: AddPartitionsToTxnTransaction, pace: Pace
) -> Awaitable[Codes]:
    """Ask the coordinator; nothing is asked if a partition is refused, or does not exist."""
    name, is_client = transaction.transactional_id, ctx.header.api_version < BATCHED_SINCE
    if is_client and (code := ctx.refusal(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)):
        return answer_now(code)
    partitions = await _partitions(transaction.topics, pace)
    denied = await _denied(ctx, transaction.topics, pace) if is_client else ()
    exists = ctx.broker.partitions.exists
    failed = {
        each: UNKNOWN if each.topic not in denied else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        async for each in pace.each(partitions)
        if each.topic in denied or not exists(*each)
    }
    if failed:
        codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        codes.update(failed)
        return answer_now(codes)
    coordinator = ctx.broker.transactions
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        return coordinator.verify(name, *producer, partitions)
    version = VERSION_2 if ctx.header.api_version >= BATCHED_SINCE else 0
    return coordinator.add(name, producer, partitions, version)


async def _denied(
    ctx: RequestContext, topics: Sequence[AddPartitionsToTxnTopic], pace: Pace
) -> set[str]:
    """Return the topics that a client may not write: as in Kafka, none that brokers keep for it."""
    return {
        topic.name
        async for topic in pace.each(topics)
        if topic.name in INTERNAL_TOPICS
        or not ctx.allows(Operation.WRITE, ResourceType.TOPIC, topic.name)
    }


async def _refused(
    request: AddPartitionsToTxnRequest, code: ErrorCode, pace: Pace
) -> AddPartitionsToTxnResponse:
    """Refuse a request that is for brokers."""
    return AddPartitionsToTxnResponse(
        error_code=code,
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=each.transactional_id,
                topic_results=await _results(each.topics, code, BATCHED_SINCE, pace),
            )
            async for each in pace.each(request.transactions)
        ],
    )


async def _partitions(
    topics: Sequence[AddPartitionsToTxnTopic], pace: Pace
) -> list[TopicPartition]:
    """Return what is named, once each."""
    named = {
        TopicPartition(topic.name, each): None
        async for topic in pace.each(topics)
        async for each in pace.each(topic.partitions)
    }
    return list(named)


async def _results(
    topics: Sequence[AddPartitionsToTxnTopic], codes: Codes, version: int, pace: Pace
) -> list[AddPartitionsToTxnTopicResult]:
    if isinstance(codes, ErrorCode):
        codes = dict.fromkeys(await _partitions(topics, pace), codes)
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=partition,
                    partition_error_code=code_for(
                        codes[TopicPartition(topic.name, partition)], version, FENCED_SINCE
                    ),
                )
                async for partition in pace.each(topic.partitions)
            ],
        )
        async for topic in pace.each(topics)
    ]
