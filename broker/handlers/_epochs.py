"""Leader epochs of partitions that other brokers own: only an owner knows its own.

Clients that know an epoch take an answer with a lower one, or none, for an old answer (librdkafka
then stays with the former leader). So a broker that names another as the leader asks it.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from broker.cluster.topic import Topic
from broker.context import RequestContext
from broker.peers.errors import PeerError
from protocol.kafka.apis import LIST_OFFSETS
from protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

logger = logging.getLogger(__name__)

LATEST: Final = -1
EPOCH_SINCE: Final = 4
"""Version of ListOffsets that tells the epoch."""
CLIENT: Final = -1
WAIT_S: Final = 1.0
"""A broker that does not answer for so long leaves its epochs unknown."""

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
    wanted = _by_owner(ctx, topics)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ask(ctx, *each)) for each in wanted.items()]
    return dict(each for task in tasks for each in task.result())


def _by_owner(ctx: RequestContext, topics: Iterable[Topic]) -> Mapping[int, Wanted]:
    wanted: defaultdict[int, Wanted] = defaultdict(lambda: defaultdict(list))
    for topic in topics:
        for index, owner in enumerate(ctx.broker.routes.owners(topic)):
            if owner != ctx.broker.node_id:
                wanted[owner][topic.name].append(index)
    return wanted


async def _ask(
    ctx: RequestContext, owner: int, wanted: Wanted
) -> list[tuple[tuple[str, int], int]]:
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
        timeout_ms=int(WAIT_S * 1000),
    )
    try:
        answer = await ctx.broker.peers.send(owner, LIST_OFFSETS, request, WAIT_S, EPOCH_SINCE)
    except PeerError as error:
        logger.info("leader epochs unknown broker=%d error=%s", owner, error)
        return []
    return [
        ((topic.name, each.partition_index), each.leader_epoch)
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    ]
