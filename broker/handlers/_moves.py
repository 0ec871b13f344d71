"""Which partitions are on their way from one broker to another."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from tailrace.broker.cluster.assignments import Move, move_of
from tailrace.broker.context import RequestContext
from tailrace.core.errors import LogNotFound
from tailrace.core.runtime.loop_turns import Pace
from tailrace.core.runtime.tasks import together
from tailrace.protocol.ids import TopicPartition

AT_ONCE: Final = 64
"""Locks that are read at the same time."""


async def moves(
    ctx: RequestContext, partitions: Iterable[TopicPartition], pace: Pace
) -> dict[TopicPartition, Move]:
    """Return the moves of those partitions that are not where they belong yet. Errors: CoreError.

    Partitions that nobody assigned are not looked at: what moves those is brokers that come and go.
    Cost: one read of metadata for each that was assigned.
    """
    assigned = iter([each async for each in pace.each(partitions) if _is_assigned(ctx, each)])
    found: dict[TopicPartition, Move] = {}
    while some := list(islice(assigned, AT_ONCE)):
        read = await together([_move(ctx, each) for each in some])
        found.update((at, move) for at, move in zip(some, read, strict=True) if move is not None)
    return found


def _is_assigned(ctx: RequestContext, partition: TopicPartition) -> bool:
    topic = ctx.broker.topics.get(partition.topic)
    return topic is not None and partition.partition in topic.assignments


async def _move(ctx: RequestContext, partition: TopicPartition) -> Move | None:
    broker, (name, index) = ctx.broker, partition
    try:
        holder = await broker.partitions.stored.holder(name, index)
    except LogNotFound:
        return None
    topic = broker.topics.get(name)
    if topic is None or index >= topic.partition_count:
        return None  # deleted meanwhile
    owner = broker.routes.owners(topic)[index]
    return move_of(owner, broker.routes.replicas(topic, index).all, holder)
