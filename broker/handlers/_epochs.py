"""Leader epochs of partitions that other brokers own: only an owner knows its own.

Clients that know an epoch take an answer with a lower one, or none, for an old answer (librdkafka
then stays with the former leader). So a broker that names another as the leader asks it: in
Metadata, and where it refuses what another leads (KIP-951).
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from broker.cluster.topic import Topic
from broker.context import RequestContext
from broker.peers.errors import PeerError
from protocol.kafka.apis import LIST_OFFSETS
from protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

LATEST: Final = -1
EPOCH_SINCE: Final = 4
"""Version of ListOffsets that tells the epoch."""
CLIENT: Final = -1
WAIT_S: Final = 1.0
"""A broker that does not answer for so long leaves its epochs unknown."""
REFUSED_WAIT_S: Final = 0.5
"""The same for who is refused: without the leader in the answer it asks for Metadata."""

Wanted = dict[str, list[int]]
"""Partitions of one broker, by topic."""


async def epochs_of_others(
    ctx: RequestContext, topics: Sequence[Topic], partitions_max: int
) -> Mapping[tuple[str, int], int]:
    """Return the epochs of other brokers' partitions of topics, as far as they tell. Errors: none.

    Nobody is asked about more than `partitions_max`. Cost: a request to each owner, side by side.
    """
    if sum(topic.partition_count for topic in topics) > partitions_max:
        return {}
    told = await _ask_all(ctx, _by_owner(ctx, _partitions(topics)), WAIT_S)
    return {partition: leader.leader_epoch for partition, leader in told.items()}


class Leader(NamedTuple):
    """Who leads a partition, for clients to go to."""

    leader_id: int
    leader_epoch: int


async def leaders_elsewhere(
    ctx: RequestContext, partitions: Iterable[tuple[str, int]]
) -> Mapping[tuple[str, int], Leader]:
    """Return who leads partitions that this broker does not, as far as they tell. Errors: none.

    Cost: as above; whoever is refused waits for it.
    """
    return await _ask_all(ctx, _by_owner(ctx, partitions), REFUSED_WAIT_S)


def _partitions(topics: Iterable[Topic]) -> Iterator[tuple[str, int]]:
    return ((topic.name, index) for topic in topics for index in range(topic.partition_count))


def _by_owner(ctx: RequestContext, partitions: Iterable[tuple[str, int]]) -> Mapping[int, Wanted]:
    wanted: defaultdict[int, Wanted] = defaultdict(lambda: defaultdict(list))
    for topic, index in partitions:
        owner = ctx.broker.routes.owner(topic, index)
        if owner is not None and owner != ctx.broker.node_id:
            wanted[owner][topic].append(index)
    return wanted


async def _ask_all(
    ctx: RequestContext, wanted: Mapping[int, Wanted], wait_s: float
) -> Mapping[tuple[str, int], Leader]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ask(ctx, *each, wait_s)) for each in wanted.items()]
    return dict(each for task in tasks for each in task.result())


async def _ask(
    ctx: RequestContext, owner: int, wanted: Wanted, wait_s: float
) -> list[tuple[tuple[str, int], Leader]]:
    request = ListOffsetsRequest(
        replica_id=CLIENT,
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=LATEST)
                    for index in indexes
                ],
            )
            for name, indexes in wanted.items()
        ],
        timeout_ms=int(wait_s * 1000),
    )
    try:
        answer = await ctx.broker.peers.send(owner, LIST_OFFSETS, request, wait_s, EPOCH_SINCE)
    except PeerError:
        return []  # counted by `Peers`, and told once for all that ask until it answers again
    return [
        ((topic.name, each.partition_index), Leader(owner, each.leader_epoch))
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    ]
