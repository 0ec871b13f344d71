"""WriteTxnMarkers v1-2: end transactions in partitions, as their coordinator does.

Here coordinators write their markers without this request. It is what `Admin.abortTransaction` and
`kafka-transactions.sh abort` send to the leader of a partition with a hanging transaction, one that
no coordinator knows of. The partition's rules hold all the same: epochs of producer and coordinator
may not be older than those it knows; from v2 on with the transaction's version (KIP-1228).
Partitions of `__consumer_offsets` are their group coordinator's: pending offsets end with it.
Source: KafkaApis.handleWriteTxnMarkersRequest.
"""

import asyncio
from typing import TypeAlias

from broker.context import RequestContext
from broker.coordinator.partitioning import OFFSETS_TOPIC
from broker.errors import KafkaError, error_code
from broker.handlers import handles
from broker.partition.appends import Append
from protocol.errors import ErrorCode
from protocol.ids import TopicPartition
from protocol.kafka.apis import WRITE_TXN_MARKERS
from protocol.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

Writing: TypeAlias = Append | asyncio.Future[ErrorCode] | ErrorCode
"""A marker on its way, or why it is not."""

_NOT_READY = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Of a group coordinator; who writes markers knows NOT_LEADER_OR_FOLLOWER for the same."""


@handles(WRITE_TXN_MARKERS)
async def write_txn_markers(
    ctx: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Append every marker, in order; the answer comes when all are confirmed or refused."""
    return WriteTxnMarkersResponse(
        markers=[await _write_all(ctx, marker) for marker in request.markers]
    )


async def _write_all(ctx: RequestContext, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
    """Write one marker to its partitions, all of them on their way before any is waited for."""
    writing = [
        (
            topic.name,
            [
                (index, await _write(ctx, marker, TopicPartition(topic.name, index)))
                for index in topic.partition_indexes
            ],
        )
        for topic in marker.topics
    ]
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=await _outcome(each)
                    )
                    for index, each in partitions
                ],
            )
            for name, partitions in writing
        ],
    )


async def _write(
    ctx: RequestContext, marker: WritableTxnMarker, partition: TopicPartition
) -> Writing:
    broker = ctx.broker
    what = (
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )
    if not broker.partitions.exists(*partition):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka's answer: nobody can have such a transaction
    if partition.topic == OFFSETS_TOPIC:
        return broker.groups.end_transaction(partition.partition, *what)
    try:
        log = await broker.partitions.open(partition)
    except KafkaError as error:
        return error_code(error)
    return log.append_marker(*what)


async def _outcome(writing: Writing) -> ErrorCode:
    if isinstance(writing, ErrorCode):
        return writing
    outcome = await writing
    if not isinstance(outcome, ErrorCode):
        return ErrorCode.NONE
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if outcome in _NOT_READY else outcome
