"""WriteTxnMarkers v1-2: end transactions in partitions, as their coordinator does.

Coordinators ask it of the brokers of others' partitions. `Admin.abortTransaction` and
`kafka-transactions.sh abort` send it to the leader of a partition with a hanging transaction, one
that no coordinator knows of. The partition's rules hold for all: epochs of producer and coordinator
may not be older than those it knows; from v2 on with the transaction's version (KIP-1228).
Partitions of `__consumer_offsets` are their group coordinator's: pending offsets end with it.
Source: KafkaApis.handleWriteTxnMarkersRequest.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.transactions.marker_places import OwnPartitions
from tailrace.broker.transactions.values import Marker
from tailrace.core.access.acls.model import Operation
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import WRITE_TXN_MARKERS
from tailrace.protocol.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

IN_FLIGHT_MAX: Final = 128
"""As many as requests of one connection may be in flight: what the log confirms in one go."""
PARTITION_UNITS: Final = 10
"""What it takes to append one marker."""


class WritingTopic(NamedTuple):
    """A marker on its way to partitions of one topic."""

    name: str
    partitions: Sequence[tuple[int, asyncio.Future[ErrorCode]]]
    """By index, and what becomes of each."""


_NOT_READY = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Of a group coordinator; who writes markers knows NOT_LEADER_OR_FOLLOWER for the same."""


class _Way:
    """The markers of one request that are on their way: never more than `IN_FLIGHT_MAX`."""

    def __init__(self) -> None:
        self._some: list[asyncio.Future[ErrorCode]] = []

    async def add(self, written: asyncio.Future[ErrorCode]) -> asyncio.Future[ErrorCode]:
        """Take one more; if it is the last that there is room for, wait for all."""
        self._some.append(written)
        if len(self._some) == IN_FLIGHT_MAX:
            await asyncio.wait(self._some)
            self._some.clear()
        return written


@handles(WRITE_TXN_MARKERS)
async def write_txn_markers(
    ctx: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """Append every marker, in order; the answer comes when all are confirmed or refused.

    `IN_FLIGHT_MAX` are on their way before any is waited for.
    """
    pace, way = ctx.pace(), _Way()
    if not ctx.may(Operation.ALTER) and (code := ctx.cluster_refusal(Operation.CLUSTER_ACTION)):
        return await _refused(request, code, pace)
    own = OwnPartitions(ctx.broker.partitions, ctx.broker.groups)
    writing = [
        (marker, await _write_all(ctx, own, marker, way, pace))
        async for marker in pace.each(request.markers)
    ]
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[await _outcome(topic, pace) async for topic in pace.each(topics)],
            )
            async for marker, topics in pace.each(writing)
        ]
    )


async def _refused(
    request: WriteTxnMarkersRequest, code: ErrorCode, pace: Pace
) -> WriteTxnMarkersResponse:
    """Refuse all of a request: it is for brokers, and for those who may alter the cluster."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            async for index in pace.each(topic.partition_indexes)
                        ],
                    )
                    async for topic in pace.each(marker.topics)
                ],
            )
            async for marker in pace.each(request.markers)
        ]
    )


async def _write_all(
    ctx: RequestContext, own: OwnPartitions, marker: WritableTxnMarker, way: "_Way", pace: Pace
) -> list[WritingTopic]:
    """Begin to write one marker to its partitions."""
    what = Marker(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )
    return [
        WritingTopic(
            topic.name,
            [
                (index, await way.add(_write(ctx, own, what, TopicPartition(topic.name, index))))
                async for index in pace.each(topic.partition_indexes, PARTITION_UNITS)
            ],
        )
        async for topic in pace.each(marker.topics)
    ]


def _write(
    ctx: RequestContext, own: OwnPartitions, marker: Marker, partition: TopicPartition
) -> asyncio.Future[ErrorCode]:
    written: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    if not ctx.broker.partitions.exists(*partition):
        written.set_result(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    elif marker.producer_id < 0 or marker.producer_epoch < 0:
        written.set_result(ErrorCode.UNKNOWN_SERVER_ERROR)  # as in Kafka: nobody has such a one
    else:
        own.write(marker, partition, partial(_settle, written))
    return written


def _settle(written: asyncio.Future[ErrorCode], code: ErrorCode) -> None:
    if not written.done():
        written.set_result(ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_READY else code)


async def _outcome(topic: WritingTopic, pace: Pace) -> WritableTxnMarkerTopicResult:
    return WritableTxnMarkerTopicResult(
        name=topic.name,
        partitions=[
            WritableTxnMarkerPartitionResult(partition_index=index, error_code=await written)
            async for index, written in pace.each(topic.partitions)
        ],
    )
