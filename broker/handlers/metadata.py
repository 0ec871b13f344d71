"""Metadata v0-13: brokers, topics, who leads what; and topics that come into being when asked for.

Kept: v0's "empty is all", null and empty from v1, topic ids (v10, v12), invalid names (17), auto
creation before the answer, so that the first answer already names a leader. Partitions are opened
first, as many as one request may, because only an open one has a leader epoch, and
librdkafka takes an epoch that shows up later for a change of leader: after a topic was deleted and
made anew it then skips to the end instead of resetting. Who leads the others is asked (`_epochs`).
A partition that is moving is shown without a leader, and clients ask again: its former owner has
not let it go yet, or its owner does not know of it, or it moved while this asked. A leader that is
named without an epoch is believed, whatever newer a client knows; and librdkafka, told of another
and of the former again before it has changed over, sends to the wrong one until the next change.
Source: KafkaApis.handleTopicMetadataRequest; reference Kafka 7.1.
"""

import asyncio
import logging
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import Final, TypeAlias

from tailrace.broker.cluster.admin import (
    NEW_PARTITIONS_MAX,
    UNSET,
    Asked,
    Nodes,
    Shape,
    check_ensemble,
    shape_of,
)
from tailrace.broker.cluster.names import INTERNAL_TOPICS, name_fault
from tailrace.broker.cluster.quorums import quorums_of
from tailrace.broker.cluster.topic import Topic
from tailrace.broker.context import RequestContext
from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC
from tailrace.broker.errors import KafkaError, error_code
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._authorized_operations import (
    NOT_ASKED,
    authorized_operations,
    cluster_operations,
)
from tailrace.broker.handlers._epochs import Leader, Leaders, leaders_of
from tailrace.broker.handlers._places import NO_LEADER, broker_places, partition_places
from tailrace.broker.transactions.coordinator import TRANSACTIONS_TOPIC
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.errors import CoreError
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import METADATA
from tailrace.protocol.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

logger = logging.getLogger(__name__)

NO_ID = bytes(16)
Found: TypeAlias = Topic | MetadataResponseTopic
"""A topic, or the answer that there is none."""

Place: TypeAlias = tuple[str, int]
"""A partition."""

NOBODY: Final = Leader(NO_LEADER, -1)
LEFT_TO_US = Asked(UNSET, UNSET, {})
LEADER_EPOCH_SINCE = 7
OPENED_MAX = 1000
"""Partitions that one request opens here, and that it asks other brokers about."""
OPENED_AT_ONCE = 32
"""Partitions that one request opens at the same time."""
TOPIC_UNITS = 2
"""What it takes to describe one topic, without its partitions."""
OPEN_WAIT_S = 1.0
"""How long an answer waits for partitions to open; those that do not have no epoch in it."""
IDS_SINCE = 12
"""Null names and ids are on the wire from v10 on and may be used from v12 on."""


@handles(METADATA)
async def metadata(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Describe the topics that are asked for, or all."""
    broker, pace = ctx.broker, ctx.pace()
    asked = await _distinct(request.topics or (), pace)
    by_id = [id_ for name, id_ in asked if name is None or id_ != NO_ID]
    if by_id and ctx.header.api_version < IDS_SINCE:
        return await _refuse_all(asked.values(), pace)
    if request.topics is None or (not request.topics and ctx.header.api_version == 0):
        before = broker.topics.all()
        if broker.authorizer is not None:
            shows = partial(ctx.shows, ResourceType.TOPIC)
            before = [each async for each in pace.each(before) if shows(each.name)]
        leaders = await _find_leaders(ctx, before, pace)
        latest = (broker.topics.get(each.name) for each in before)
        found: Iterable[Found] = (each for each in latest if each is not None)
    else:
        create = request.allow_auto_topic_creation and broker.config.auto_create_topics
        made = await _find_all(ctx, asked.values(), pace, create=create)
        leaders = await _find_leaders(ctx, [each for each in made if isinstance(each, Topic)], pace)
        found = (
            _look_up(ctx, wanted) if isinstance(each, Topic) else each  # it may have changed
            for wanted, each in zip(asked.values(), made, strict=True)
        )
    is_asked = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[MetadataResponseBroker(**each._asdict()) for each in broker_places(ctx)],
        cluster_id=broker.cluster_id,
        controller_id=broker.routes.live.controller_id,
        topics=await _describe_all(
            ctx, found, leaders, pace, authorized=request.include_topic_authorized_operations
        ),
        cluster_authorized_operations=cluster_operations(ctx) if is_asked else NOT_ASKED,
    )


async def _distinct(
    topics: Iterable[MetadataRequestTopic], pace: Pace
) -> dict[tuple[str | None, bytes], MetadataRequestTopic]:
    """Leave out what is asked for again, as Kafka does."""
    return {(topic.name, topic.topic_id): topic async for topic in pace.each(topics)}


async def _refuse_all(asked: Iterable[MetadataRequestTopic], pace: Pace) -> MetadataResponse:
    code = ErrorCode.INVALID_REQUEST
    return MetadataResponse(
        topics=[_missing(each.name or "", code, each.topic_id) async for each in pace.each(asked)]
    )


async def _find_all(
    ctx: RequestContext, asked: Iterable[MetadataRequestTopic], pace: Pace, *, create: bool
) -> list[Found]:
    """Look up what is asked for, and make what is not there; not more than one may make at once."""
    found: list[Found] = []
    left = NEW_PARTITIONS_MAX
    async for wanted in pace.each(asked):
        was_there = _look_up_shown(ctx, wanted)
        each = was_there
        if not isinstance(was_there, Topic) and create and left > 0:
            each = await _make(ctx, was_there, wanted.name)
            left -= each.partition_count if isinstance(each, Topic) else 1
        found.append(each)
    return found


def _look_up_shown(ctx: RequestContext, wanted: MetadataRequestTopic) -> Found:
    """Return a topic that the client may know of; any other name gets one refusal.

    An id is not a secret, as in Kafka: the refusal of one that exists leaves out its name.
    """
    name = wanted.name
    is_by_id = name is None or wanted.topic_id != NO_ID
    found = _look_up(ctx, wanted) if is_by_id else None
    if isinstance(found, Topic):
        name = found.name
    elif found is not None:
        return found
    code = ctx.refusal(Operation.DESCRIBE, ResourceType.TOPIC, name or "")
    if code:
        shown, topic_id = (None, wanted.topic_id) if is_by_id else (name, NO_ID)
        return MetadataResponseTopic(error_code=code, name=shown, topic_id=topic_id)
    return found or _look_up(ctx, wanted)


def _look_up(ctx: RequestContext, wanted: MetadataRequestTopic) -> Found:
    name = wanted.name
    if name is None or wanted.topic_id != NO_ID:
        topic = ctx.broker.topics.by_id(wanted.topic_id)
        return topic or _missing(None, ErrorCode.UNKNOWN_TOPIC_ID, wanted.topic_id)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name_fault(name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return ctx.broker.topics.get(name) or _missing(name, code)


async def _make(ctx: RequestContext, missing: MetadataResponseTopic, name: str | None) -> Found:
    """Make a topic that is not there, if it may be."""
    is_denied = missing.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if name is None or missing.name is None or is_denied or name_fault(name):
        return missing
    if not ctx.may(Operation.CREATE) and (
        code := ctx.refusal(Operation.CREATE, ResourceType.TOPIC, name)
    ):
        return _missing(name, code)
    if name not in INTERNAL_TOPICS:
        return await _create(ctx, name)
    return await _create_internal(ctx, name) or missing


async def _create_internal(ctx: RequestContext, name: str) -> Topic | None:
    """Let whoever keeps its records there make an internal topic; None of nobody's, or later."""
    if name == OFFSETS_TOPIC:
        await ctx.broker.groups.make_topic()
    elif name == TRANSACTIONS_TOPIC:
        await ctx.broker.transactions.make_topic()
    return ctx.broker.topics.get(name)


async def _create(ctx: RequestContext, name: str) -> Found:
    topics, config = ctx.broker.topics, ctx.broker.config
    try:
        bookies = len(await ctx.broker.bookies.available())
        defaults = Shape(config.num_partitions, config.topics.replication_factor)
        nodes = Nodes(ctx.broker.routes.live.ids, bookies)
        partitions, copies = shape_of(LEFT_TO_US, defaults, config.topics, nodes)
        check_ensemble(quorums_of(copies, topics.defaults.settings).ensemble_size, bookies)
        if ctx.quota is not None:
            ctx.quota.mutate(partitions, strict=False)
        return await topics.create(name, partitions, replication_factor=copies)
    except (KafkaError, CoreError) as error:
        made_by_others = topics.get(name)
        if made_by_others is not None:
            return made_by_others
        logger.warning("auto creation failed topic=%s error=%r", name, error)
        code = error_code(error)
        # Another broker is at it: the client asks again. Or nobody may ever make it.
        if code in (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_REQUEST):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            # The metadata store does not answer: there is no leader to look for, but may be soon.
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return _missing(name, code)


async def _find_leaders(ctx: RequestContext, topics: Iterable[Topic], pace: Pace) -> Leaders | None:
    """Open this broker's partitions of topics, and ask the owners of the others. Errors: none.

    Of more than `OPENED_MAX` those are opened and asked about of which nothing is known, as many at
    most, then some that were asked about longer ago; the rest are as they were told last.
    None: nothing is found out for this request.
    """
    if ctx.header.api_version < LEADER_EPOCH_SINCE:
        return None
    told, closed = await _known(ctx, topics, pace)
    asked = _asked(ctx, told)
    leaders = {**told, **{at: Leader(ctx.broker.node_id, -1) for at in closed[OPENED_MAX:]}}
    for at in asked:
        del leaders[at]
    leaders.update(await _open(ctx, closed[:OPENED_MAX]))
    leaders.update(await leaders_of(ctx, asked))
    return leaders


async def _known(
    ctx: RequestContext, topics: Iterable[Topic], pace: Pace
) -> tuple[Mapping[Place, Leader], list[Place]]:
    """Return what owners told of their partitions, and which of this broker's are not open."""
    broker = ctx.broker
    told: dict[Place, Leader] = {}
    closed: list[Place] = []
    async for topic in pace.each(topics):
        async for index, owner in pace.each(enumerate(broker.routes.owners(topic))):
            at = (topic.name, index)
            if owner != broker.node_id:
                told[at] = Leader(owner, broker.epochs.of(topic.topic_id, index, owner))
            elif broker.partitions.get(at) is None:
                closed.append(at)
    return told, closed


def _asked(ctx: RequestContext, told: Mapping[Place, Leader]) -> Collection[Place]:
    """Return which partitions of others are asked about: all, or those most in want of it."""
    if len(told) <= OPENED_MAX:
        return told.keys()
    asked = [at for at, leader in told.items() if leader.leader_epoch < 0][:OPENED_MAX]
    room = OPENED_MAX - len(asked)
    others = list(told)
    first = ctx.broker.epochs.next_to_ask(len(others), room)
    return dict.fromkeys((*asked, *islice(chain(others[first:], others), room)))


async def _open(ctx: RequestContext, closed: Sequence[Place]) -> Leaders:
    """Open partitions of this broker, some side by side, and wait a while. Errors: none.

    Returns those that are not open then and nobody else's: this broker, without an epoch.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + OPEN_WAIT_S
    elsewhere = set()
    for first in range(0, len(closed), OPENED_AT_ONCE):
        some = closed[first : first + OPENED_AT_ONCE]
        opening = {at: ctx.broker.partitions.opening(*at) for at in some}
        done, late = await asyncio.wait(opening.values(), timeout=until_s - loop.time())
        for at, future in opening.items():
            if future in done and future.result() is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                elsewhere.add(at)
        if late:
            break
    return {at: Leader(ctx.broker.node_id, -1) for at in closed if at not in elsewhere}


async def _describe_all(
    ctx: RequestContext,
    found: Iterable[Found],
    leaders: Leaders | None,
    pace: Pace,
    *,
    authorized: bool,
) -> list[MetadataResponseTopic]:
    """Describe what is there. `leaders`: what was found out about them; None: not asked."""
    reachable = {each.node_id for each in broker_places(ctx)}
    topics = []
    async for each in pace.each(found, TOPIC_UNITS):
        if isinstance(each, Topic):
            topic = await _describe(ctx, each, leaders, reachable, pace)
        else:
            topic = each
        if authorized and not topic.error_code and topic.name is not None:
            operations = authorized_operations(ctx, ResourceType.TOPIC, topic.name)
            topic.topic_authorized_operations = operations
        topics.append(topic)
    return topics


async def _describe(
    ctx: RequestContext,
    topic: Topic,
    leaders: Leaders | None,
    reachable: Container[int],
    pace: Pace,
) -> MetadataResponseTopic:
    partitions = []
    places = partition_places(ctx, topic, range(topic.partition_count), reachable)
    async for index, place in pace.each(enumerate(places)):
        code, leader_id, leader_epoch = ErrorCode.NONE, place.leader_id, place.leader_epoch
        if leaders is not None and leader_epoch < 0:
            found = leaders.get((topic.name, index), NOBODY)
            leader_epoch = found.leader_epoch
            if found.leader_id != leader_id:
                leader_id, leader_epoch = NO_LEADER, -1
        if leader_id == NO_LEADER:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        partitions.append(
            MetadataResponsePartition(
                error_code=code,
                partition_index=index,
                leader_id=leader_id,
                leader_epoch=leader_epoch,
                replica_nodes=place.replicas,
                isr_nodes=place.isr,
                offline_replicas=place.offline,
            )
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=partitions,
    )


def _missing(name: str | None, code: ErrorCode, topic_id: bytes = NO_ID) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code, name=name, topic_id=topic_id, is_internal=name in INTERNAL_TOPICS
    )
