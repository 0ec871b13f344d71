"""ListOffsets v1-10: first, last, by time, newest.

    -1 latest | -2 earliest | -3 largest timestamp, v7 | -4 earliest local, v8 | -5 tiered, v9

Nothing is tiered here, so -4 is -2 and -5 is "none". No transactions yet: latest is the high
watermark for both isolation levels. Source: KafkaApis.handleListOffsetRequest; reference Kafka 5.7.
"""

from collections import Counter
from typing import NamedTuple

from broker.context import RequestContext
from broker.errors import KafkaError, error_code
from broker.handlers import handles
from broker.partition.partition_log import PartitionLog
from broker.partition.timestamps import TimestampedOffset, first_at, newest
from core.errors import CoreError
from protocol.errors import ErrorCode
from protocol.ids import TopicPartition
from protocol.kafka.apis import LIST_OFFSETS
from protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""Versions in which the special timestamps may be asked for."""

NONE = TimestampedOffset(-1, -1, -1)


class _Asked(NamedTuple):
    """What all partitions of a request share."""

    ctx: RequestContext
    repeated: frozenset[TopicPartition]
    """Partitions that the request names more than once."""


@handles(LIST_OFFSETS)
async def list_offsets(ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer each partition on its own; one by time may read from the log."""
    counts = Counter(
        TopicPartition(topic.name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    )
    asked = _Asked(ctx, frozenset(at for at, count in counts.items() if count > 1))
    for partition in counts:  # begin to open them all; each is awaited where it is asked
        ctx.broker.partitions.begin_open(*partition)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[await _answer(asked, topic, each) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


async def _answer(
    asked: _Asked, topic: ListOffsetsTopic, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    try:
        found = await _find(asked, TopicPartition(topic.name, index), wanted)
    except (KafkaError, CoreError) as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error_code(error))
    return ListOffsetsPartitionResponse(
        partition_index=index,
        offset=found.offset,
        timestamp=found.timestamp,
        leader_epoch=found.leader_epoch,
    )


async def _find(
    asked: _Asked, partition: TopicPartition, wanted: ListOffsetsPartition
) -> TimestampedOffset:
    timestamp = wanted.timestamp
    if partition in asked.repeated:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{partition} is asked for twice")
    if timestamp < 0 and SINCE.get(timestamp, 1 << 16) > asked.ctx.header.api_version:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp}")
    log = await asked.ctx.broker.partitions.open(partition)
    code = log.check_epoch(wanted.current_leader_epoch)
    if code is not ErrorCode.NONE:
        raise KafkaError(code, f"epoch {wanted.current_leader_epoch}, ours {log.leader_epoch}")
    if timestamp == MAX_TIMESTAMP:
        return await newest(log) or NONE
    if timestamp >= 0:
        return await first_at(log, timestamp) or NONE
    return _edge(log, timestamp)


def _edge(log: PartitionLog, timestamp: int) -> TimestampedOffset:
    if timestamp == LATEST:
        return TimestampedOffset(log.last_stable_offset, -1, log.leader_epoch)
    if timestamp == LATEST_TIERED:
        return NONE
    epoch = log.epochs.epoch_of(log.log_start_offset)
    return TimestampedOffset(log.log_start_offset, -1, epoch)
