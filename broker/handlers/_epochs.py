"""Leader epochs of partitions that other brokers own: only an owner knows its own.

Clients that know an epoch take an answer with a lower one, or none, for an old answer (librdkafka
then stays with the former leader). So a broker that names another as the leader asks it: in
Metadata, and where it refuses what another leads (KIP-951).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tailrace.broker.context import RequestContext
from tailrace.broker.peers.errors import PeerError
from tailrace.core.runtime.tasks import together
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import LIST_OFFSETS
from tailrace.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

LATEST: Final = -1
EPOCH_SINCE: Final = 4
"""Version of ListOffsets that tells the epoch."""
NOT_LEADING: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""What a broker answers that is not the owner, or does not know yet that it is."""
CLIENT: Final = -1
WAIT_S: Final = 1.0
"""A broker that does not answer for so long leaves its epochs unknown."""
REFUSED_WAIT_S: Final = 0.5
"""The same for who is refused: without the leader in the answer it asks for Metadata."""

Wanted = dict[str, list[int]]
"""Partitions of one broker, by topic."""


class Leader(NamedTuple):
    """Who leads a partition, for clients to go to."""

    leader_id: int
    leader_epoch: int
    """-1 where it is not known."""


Leaders = Mapping[tuple[str, int], Leader]


async def leaders_of(ctx: RequestContext, partitions: Iterable[tuple[str, int]]) -> Leaders:
    """Return who leads those partitions that other brokers own. Errors: none.

    Without an epoch where nobody answers. Nobody is there of a partition whose owner says that it
    does not lead. Cost: a request to each owner, side by side.
    """
    return await _ask_all(ctx, _by_owner(ctx, partitions), WAIT_S)


async def leaders_elsewhere(ctx: RequestContext, partitions: Iterable[tuple[str, int]]) -> Leaders:
    """Return who leads partitions that this broker does not, as far as they tell. Errors: none.

    Cost: as above; whoever is refused waits for it.
    """
    told = await _ask_all(ctx, _by_owner(ctx, partitions), REFUSED_WAIT_S)
    return {partition: leader for partition, leader in told.items() if leader.leader_epoch >= 0}


def _by_owner(ctx: RequestContext, partitions: Iterable[tuple[str, int]]) -> Mapping[int, Wanted]:
    wanted: defaultdict[int, Wanted] = defaultdict(lambda: defaultdict(list))
    for topic, index in partitions:
        owner = ctx.broker.routes.owner(topic, index)
        if owner is not None and owner != ctx.broker.node_id:
            wanted[owner][topic].append(index)
    return wanted


async def _ask_all(ctx: RequestContext, wanted: Mapping[int, Wanted], wait_s: float) -> Leaders:
    answers = await together([_ask(ctx, *each, wait_s) for each in wanted.items()])
    return {at: leader for answer in answers for at, leader in answer.items()}


async def _ask(ctx: RequestContext, owner: int, wanted: Wanted, wait_s: float) -> Leaders:
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
    unknown = {
        (name, index): Leader(owner, -1) for name, indexes in wanted.items() for index in indexes
    }
    try:
        answer = await ctx.broker.peers.send(owner, LIST_OFFSETS, request, wait_s, EPOCH_SINCE)
    except PeerError:  # counted by `Peers`, and told once for all that ask until it answers again
        return unknown
    told = {
        (topic.name, each.partition_index): each
        for topic in answer.topics
        for each in topic.partitions
    }
    refused = {at for at, each in told.items() if each.error_code in NOT_LEADING}
    epochs = {
        at: Leader(owner, each.leader_epoch) for at, each in told.items() if not each.error_code
    }
    for (name, index), leader in epochs.items():
        topic = ctx.broker.topics.get(name)
        if topic is not None and ctx.broker.routes.owner(name, index) == owner:
            ctx.broker.epochs.note(topic.topic_id, index, owner, leader.leader_epoch)
    return {at: epochs.get(at, leader) for at, leader in unknown.items() if at not in refused}
