"""ListOffsets v1-11: first, last, by time, newest, and where the tiers meet.

    -1 latest | -2 earliest | -3 largest timestamp, v7 | -4 earliest local, v8
    -5 latest tiered, v9 | -6 earliest pending upload, v11

Latest is the high watermark, or the last stable offset for readers of committed records; a record
that is looked up by time lies below it, or there is none. What takes long to look into waits for
its client's turn beside the loop; REQUEST_TIMED_OUT if too much waits there.
Source: KafkaApis.handleListOffsetRequest, Partition.fetchOffsetForTimestamp; reference Kafka 5.7.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError, error_code
from tailrace.broker.handlers import handles
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.tiers import earliest_local, earliest_pending_upload, latest_tiered
from tailrace.broker.partition.timestamps import TimestampedOffset, first_at, newest
from tailrace.broker.partition.walks import Walks
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.errors import CoreError, OverCapacity
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import LIST_OFFSETS
from tailrace.protocol.kafka.messages.list_offsets import (
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
EARLIEST_PENDING_UPLOAD = -6

SINCE = {
    LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}  # fmt: skip
"""Versions in which the special timestamps may be asked for."""

READ_COMMITTED = 1
WAIT_MS_DEFAULT = 30_000
"""For a request that does not say; Kafka's `remote.list.offsets.request.timeout.ms`."""

OPEN_UNITS = 10
PARTITION_UNITS = 3
"""What it takes to begin to open one partition, and to answer it."""

NONE = TimestampedOffset(-1, -1, -1)


class _Asked(NamedTuple):
    """What all partitions of a request share."""

    ctx: RequestContext
    repeated: frozenset[TopicPartition]
    """Partitions that the request names more than once."""
    committed: bool
    deadline_s: float
    """What is not found by then is answered REQUEST_TIMED_OUT."""
    walks: Walks
    denied: Mapping[str, ErrorCode]
    """Topics that the client may not know of."""


@handles(LIST_OFFSETS)
async def list_offsets(ctx: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer each partition on its own; one by time may read from the log."""
    pace = ctx.pace()
    counts: Counter[TopicPartition] = Counter()
    denied: dict[str, ErrorCode] = {}
    async for topic in pace.each(request.topics):
        if code := ctx.refusal(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            denied[topic.name] = code
            continue
        async for each in pace.each(topic.partitions):
            counts[TopicPartition(topic.name, each.partition_index)] += 1
    wait_ms = request.timeout_ms if request.timeout_ms > 0 else WAIT_MS_DEFAULT
    asked = _Asked(
        ctx,
        frozenset(at for at, times in counts.items() if times > 1),
        request.isolation_level == READ_COMMITTED,
        asyncio.get_running_loop().time() + wait_ms / 1000,
        Walks(ctx.broker.partitions.admission, ctx.connection),
        denied,
    )
    # Begin to open them all; each is awaited where it is asked.
    async for partition in pace.each(counts, OPEN_UNITS):
        ctx.broker.partitions.begin_open(*partition)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    await _answer(asked, topic, each)
                    async for each in pace.each(topic.partitions, PARTITION_UNITS)
                ],
            )
            async for topic in pace.each(request.topics)
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
    if (code := asked.denied.get(partition.topic)) is not None:
        raise KafkaError(code)
    if partition in asked.repeated:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{partition} is asked for twice")
    if timestamp < 0 and SINCE.get(timestamp, 1 << 16) > asked.ctx.header.api_version:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp}")
    log = await asked.ctx.broker.partitions.open(partition)
    code = log.check_epoch(wanted.current_leader_epoch)
    if code is not ErrorCode.NONE:
        raise KafkaError(code, f"epoch {wanted.current_leader_epoch}, ours {log.leader_epoch}")
    if timestamp == LATEST:
        return TimestampedOffset(log.end_for(committed=asked.committed), -1, log.leader_epoch)
    if timestamp == EARLIEST:
        start = log.log_start_offset
        return TimestampedOffset(start, -1, log.epochs.epoch_of(start))
    try:
        async with asyncio.timeout_at(asked.deadline_s):
            found = await _look_up(log, timestamp, asked.walks, committed=asked.committed)
            return found or NONE
    except (TimeoutError, OverCapacity):
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"looking for {timestamp}") from None


async def _look_up(
    log: PartitionLog, timestamp: int, walks: Walks, *, committed: bool
) -> TimestampedOffset | None:
    """Find what takes reading: of the log, or of what is known about its segments."""
    if timestamp == EARLIEST_LOCAL:
        return await earliest_local(log)
    if timestamp == LATEST_TIERED:
        return await latest_tiered(log)
    if timestamp == EARLIEST_PENDING_UPLOAD:
        return await earliest_pending_upload(log)
    if timestamp == MAX_TIMESTAMP:
        found = await newest(log, walks.walk)
    else:
        found = await first_at(log, timestamp, walks.walk)
    return found if found is not None and found.offset < log.end_for(committed=committed) else None
