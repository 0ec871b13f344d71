"""DescribeLogDirs, API 35, v1-5: one directory, where this broker's partitions lie.

Kept: sizes of the partitions that exist, others are left out; null topics are all. The room (v4) is
that of all bookies' disks, which hold every copy; a partition's size is that of one copy. Of a
partition that nobody has open, the completed segments count: where one in progress ends, only its
owner knows. Nothing is opened for this. Offset lag is 0 and nothing is ever moved between
directories. Source: ReplicaManager.describeLogDirs.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tailrace.broker.cluster.disk_room import UNKNOWN, room_of
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import error_code
from tailrace.broker.handlers import handles
from tailrace.broker.partition.trimming import segments_for_retention
from tailrace.core.access.acls.model import Operation
from tailrace.core.errors import CoreError, LogNotFound, LogTruncated
from tailrace.core.runtime.loop_turns import Pace
from tailrace.core.runtime.tasks import together
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import DESCRIBE_LOG_DIRS
from tailrace.protocol.kafka.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

AT_ONCE: Final = 64
"""Partitions that are looked at side by side."""
ROOM_SINCE: Final = 4


@handles(DESCRIBE_LOG_DIRS, abandoned=True)
async def describe_log_dirs(
    ctx: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Tell the size of each partition, and the room that is left."""
    if code := ctx.cluster_refusal(Operation.DESCRIBE):
        return DescribeLogDirsResponse(error_code=code)
    pace = ctx.pace()
    result = DescribeLogDirsResult(log_dir=ctx.broker.log_dir)
    try:
        is_mine = ctx.broker.routes.is_mine
        asked = pace.each(_asked(ctx, request))
        wanted = {each: None async for each in asked if is_mine(*each)}
        sizes = await _sizes(ctx, list(wanted))
        if ctx.header.api_version >= ROOM_SINCE:
            result.total_bytes, result.usable_bytes = await room_of(ctx.broker.bookies)
    except CoreError as error:
        sizes = []
        result.error_code = error_code(error)
        result.total_bytes, result.usable_bytes = UNKNOWN
    result.topics = await _topics(sizes, pace)
    return DescribeLogDirsResponse(error_code=ErrorCode.NONE, results=[result])


def _asked(ctx: RequestContext, request: DescribeLogDirsRequest) -> Iterator[TopicPartition]:
    """Yield the partitions that are asked for, of which each broker describes its own."""
    if request.topics is None:
        for topic in ctx.broker.topics.all():
            for index in range(topic.partition_count):
                yield TopicPartition(topic.name, index)
        return
    for asked in request.topics:
        for index in asked.partitions:
            yield TopicPartition(asked.topic, index)


async def _sizes(
    ctx: RequestContext, partitions: Sequence[TopicPartition]
) -> list[tuple[TopicPartition, int]]:
    found: list[tuple[TopicPartition, int]] = []
    for at in range(0, len(partitions), AT_ONCE):
        some = partitions[at : at + AT_ONCE]
        sizes = await together([_size(ctx, partition) for partition in some])
        found += [(p, size) for p, size in zip(some, sizes, strict=True) if size is not None]
    return found


async def _size(ctx: RequestContext, partition: TopicPartition) -> int | None:
    """Return the bytes of a partition's batches; None if it was deleted meanwhile."""
    partitions = ctx.broker.partitions
    try:
        log = partitions.get(partition)
        if log is None:
            return (await partitions.stored.look(*partition)).size_bytes
        return sum(segment.size_bytes for segment in await segments_for_retention(log))
    except (LogNotFound, LogTruncated):
        return None


async def _topics(
    sizes: Iterable[tuple[TopicPartition, int]], pace: Pace
) -> list[DescribeLogDirsTopic]:
    """Put what belongs to a topic together, whatever the order."""
    topics: defaultdict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    async for partition, size in pace.each(sizes):
        described = DescribeLogDirsPartition(
            partition_index=partition.partition,
            partition_size=size,
            offset_lag=0,
            is_future_key=False,
        )
        topics[partition.topic].append(described)
    return [
        DescribeLogDirsTopic(name=name, partitions=partitions)
        async for name, partitions in pace.each(topics.items())
    ]
