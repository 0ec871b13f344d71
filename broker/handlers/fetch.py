"""Fetch v4-18: whole batches from each partition, or wait until there are enough.

Most fetches are answered at once from the tail cache, in the plain call. Batches leave as the
slices that came in. Kept: sessions with incremental answers, topic ids, leader epochs and where
histories part, OFFSET_OUT_OF_RANGE, long poll, the last stable offset and aborted transactions for
those who read what is committed, preferred replicas and what followers answer (KIP-392).
Source: KafkaApis.handleFetchRequest, FetchManager; reference Kafka 5.1-5.6.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from tailrace.broker.cluster.topic import Topic
from tailrace.broker.cluster.topics import TopicRegistry
from tailrace.broker.context import RequestContext
from tailrace.broker.fetching.access import FetchAccess
from tailrace.broker.fetching.collection import Collection, Limits
from tailrace.broker.fetching.session_cache import NO_SESSION, SESSION_PARTITIONS_MAX, is_full
from tailrace.broker.fetching.sessions import (
    INITIAL_EPOCH,
    FetchSession,
    SessionKind,
    Updates,
)
from tailrace.broker.fetching.target import NO_REPLICA, UNKNOWN, Target
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._epochs import Leader, leaders_elsewhere
from tailrace.broker.handlers._fetch_access import access_of, has_lost_access, replica_of
from tailrace.broker.handlers._places import broker_place
from tailrace.broker.handlers._replicas import chooser, sources
from tailrace.broker.partition.readable import ReadablePartition
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import FETCH
from tailrace.protocol.kafka.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from tailrace.protocol.kafka.steps import Steps

TOPIC_IDS_SINCE = 13
READ_COMMITTED = 1
LEADERS_SINCE = 16
"""Versions whose clients go to a leader that a refusal names."""
Leaders: TypeAlias = Mapping[tuple[str, int], Leader]
NOBODY_ASKED: Final[Leaders] = MappingProxyType({})
LONG = 300
"""Partitions of which a request is looked at in one go."""
TARGET_UNITS = 2
"""What it takes to find one of them."""
WAIT_MS_MAX = 300_000
"""Longest long poll; a client that asks for more is answered empty then."""


@handles(FETCH, abandoned=True)
def fetch(
    ctx: RequestContext, request: FetchRequest
) -> FetchResponse | Coroutine[Any, Any, FetchResponse]:
    """Answer now if that can be done from memory, else wait for it."""
    collection = Collection(sources(ctx, request), ctx.broker.unsent, _limits(ctx, request))
    collection.choose = chooser(ctx, request)
    collection.access = access_of(ctx, request)
    if is_long(request):
        return _serve_long(ctx, request, collection)
    code = _begin(ctx, request, collection, _named(ctx, request, collection.access))
    if code is not ErrorCode.NONE:
        return FetchResponse(error_code=code)
    if _is_tail(collection) and collection.is_due() and collection.find_aborted():
        steps = _response(ctx, request, collection)
        try:
            next(steps)
        except StopIteration as done:
            response: FetchResponse = done.value
            return response
        return ctx.broker.turns.run(steps)
    return _serve(ctx, request, collection, ctx.pace())


def _is_tail(collection: Collection) -> bool:
    """Take what is in memory; return whether that was all, and not too much for one go."""
    session = collection.session
    if session is not None and collection.access is not None and session.active_count > LONG:
        return False
    return collection.collect_tail()


def is_long(request: FetchRequest) -> bool:
    """Whether a request names so much that others have their turns while it is looked at."""
    left = LONG
    for topic in request.topics:
        left -= 1 + len(topic.partitions)
        if left < 0:
            return True
    return len(request.forgotten_topics_data) > LONG


async def _serve_long(
    ctx: RequestContext, request: FetchRequest, collection: Collection
) -> FetchResponse:
    pace = ctx.pace()
    targets = _targets(ctx, request, collection.access)
    named = {target.key: target async for target in pace.each(targets, TARGET_UNITS)}
    code = _begin(ctx, request, collection, named.values())
    if code is not ErrorCode.NONE:
        return FetchResponse(error_code=code)
    return await _serve(ctx, request, collection, pace)


async def _serve(
    ctx: RequestContext, request: FetchRequest, collection: Collection, pace: Pace
) -> FetchResponse:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + min(request.max_wait_ms, WAIT_MS_MAX) / 1000
    if ctx.connection.session_ends_s is not None:
        deadline_s = min(deadline_s, ctx.connection.session_ends_s)  # it may not be known longer
    try:
        await collection.collect(pace)
        await collection.check_ahead(deadline_s)
        while not (await has_lost_access(collection, pace) or collection.is_due()):
            if loop.time() >= deadline_s:
                break
            ctx.broker.metrics.fetch_parked_total += 1
            await collection.wait(deadline_s)
            await collection.collect(pace)
        if loop.time() >= deadline_s:
            collection.refuse_ahead()
        await collection.read_aborted()
        leaders = await _leaders(ctx, collection)
        await has_lost_access(collection, pace)
        return await ctx.broker.turns.finish(_response(ctx, request, collection, leaders))
    finally:
        collection.give_back()


def _limits(ctx: RequestContext, request: FetchRequest) -> Limits:
    max_bytes = max(min(request.max_bytes, ctx.broker.config.fetch_bytes_max), 0)
    return Limits(
        min(request.min_bytes, max_bytes),
        max_bytes,
        request.max_wait_ms,
        request.isolation_level == READ_COMMITTED,
    )


# -- sessions -------------------------------------------------------------------------------------


def _begin(
    ctx: RequestContext, request: FetchRequest, collection: Collection, named: Iterable[Target]
) -> ErrorCode:
    """Find out which partitions are asked for: those that are named, or a session's news."""
    broker = ctx.broker
    sessions = broker.fetch_sessions
    if is_full(request.session_epoch):
        if request.session_id != NO_SESSION:
            sessions.remove(request.session_id)
        collection.targets += named
        return ErrorCode.NONE
    session = sessions.resume(request.session_id, request.session_epoch, uses_topic_ids=_by_id(ctx))
    if isinstance(session, ErrorCode):
        return session
    if not _update(ctx, session, request):
        collection.targets += named
        return ErrorCode.NONE
    collection.session = session
    collection.epoch = session.begin(reads_committed=collection.limits.committed)
    access = collection.access
    collection.news = partial(_next_cached, broker.topics, session, access)
    if access is not None and access.version != session.access_version:
        session.look_at_all(access.version)
    for target in named:  # what is new may have to be opened
        topic = None if target.error else target.topic
        if topic is not None and collection.sources.get((topic.name, target.key[1])) is None:
            collection.sources.begin_open(topic.name, target.key[1])
    return ErrorCode.NONE


def _update(ctx: RequestContext, session: FetchSession, request: FetchRequest) -> bool:
    """Change a session as a request says; return whether it is still there."""
    sessions = ctx.broker.fetch_sessions
    forgotten = request.forgotten_topics_data
    named = sum([len(topic.partitions) for topic in request.topics])
    named += sum([1 + len(topic.partitions) for topic in forgotten])
    if named > SESSION_PARTITIONS_MAX:
        sessions.remove(session.id)  # in one go that would take too long
        return False
    return sessions.update(session, Updates(request.topics, forgotten), ctx.broker.clock.now_ms())


def _by_id(ctx: RequestContext) -> bool:
    return ctx.header.api_version >= TOPIC_IDS_SINCE


def _named(
    ctx: RequestContext, request: FetchRequest, access: FetchAccess | None
) -> Iterable[Target]:
    """Return what is asked for; of a partition that is named again, the last counts."""
    return {target.key: target for target in _targets(ctx, request, access)}.values()


def _targets(
    ctx: RequestContext, request: FetchRequest, access: FetchAccess | None
) -> Iterator[Target]:
    by_id = _by_id(ctx)
    for named in request.topics:
        name = named.topic_id if by_id else named.topic
        topic = _topic(ctx.broker.topics, name)
        for asked in named.partitions:
            target = Target((name, asked.partition), asked, topic)
            if access is not None:
                access.check(target)
            yield target


def _next_cached(
    topics: TopicRegistry, session: FetchSession, access: FetchAccess | None
) -> Target | None:
    cached = session.take()
    if cached is None:
        return None
    target = Target(cached.key, cached.asked, _topic(topics, cached.key[0]), cached)
    if access is not None:
        access.check(target)
    return target


def _topic(topics: TopicRegistry, name: str | bytes) -> Topic | None:
    return topics.by_id(name) if isinstance(name, bytes) else topics.get(name)


def _create_session(
    ctx: RequestContext, request: FetchRequest, collection: Collection, answers: list[PartitionData]
) -> int:
    """Give the client a session that knows what it is told now; return its id, 0 for none."""
    version, now_ms = ctx.header.api_version, ctx.broker.clock.now_ms()
    is_broker, committed = replica_of(ctx, request) >= 0, collection.limits.committed
    kind = SessionKind(is_broker, version >= TOPIC_IDS_SINCE, committed)
    session = ctx.broker.fetch_sessions.create(len(answers), kind, now_ms)
    if session is None:
        return NO_SESSION
    if collection.access is not None:
        session.access_version = collection.access.version
    for target, data in zip(collection.targets, answers, strict=True):
        target.cached = session.add(target.key, target.asked)
        target.cached.tell(data, target.size)
    while session.take() is not None:
        pass
    ctx.broker.fetch_sessions.touch(session, now_ms)
    _settle(session, collection)
    return session.id


def _settle(session: FetchSession, collection: Collection) -> None:
    session.settle(
        {
            target.cached: target.log.waiters
            for target in collection.targets
            if target.cached is not None and target.log is not None and collection.is_idle(target)
        }
    )


# -- answers --------------------------------------------------------------------------------------


def _response(
    ctx: RequestContext,
    request: FetchRequest,
    collection: Collection,
    leaders: Leaders = NOBODY_ASKED,
) -> Steps[FetchResponse]:
    """Return the answer as it stands; in one step for a session, else many partitions in some."""
    session = collection.session
    if session is not None and collection.is_outdated:
        code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
        return FetchResponse(error_code=code, session_id=session.id)
    ctx.broker.metrics.fetch_bytes_total += collection.size
    committed = collection.limits.committed
    answers = []
    for target in collection.targets:
        answers.append(_answer(ctx, target, leaders, committed=committed))
        if session is None and not len(answers) % LONG:
            yield
    told = list(zip(collection.targets, answers, strict=True))
    session_id = NO_SESSION
    if session is not None:
        session_id = session.id
        told = [
            (target, data)
            for target, data in told
            if target.cached is not None and target.cached.tell(data, target.size)
        ]
        _settle(session, collection)
    elif request.session_epoch == INITIAL_EPOCH:
        session_id = _create_session(ctx, request, collection, answers)
    return FetchResponse(
        session_id=session_id,
        responses=(yield from _by_topic(told)),
        node_endpoints=_endpoints(ctx, answers),
    )


def _by_topic(told: list[tuple[Target, PartitionData]]) -> Steps[list[FetchableTopicResponse]]:
    """Put neighbours of one topic together; the order stays."""
    topics: list[FetchableTopicResponse] = []
    last: str | bytes | None = None
    partitions: list[PartitionData] = []
    for number, (target, data) in enumerate(told, 1):
        if not number % LONG:
            yield
        name = target.key[0]
        if name != last:
            last, partitions = name, []
            topics.append(
                FetchableTopicResponse(topic_id=name, partitions=partitions)
                if isinstance(name, bytes)
                else FetchableTopicResponse(topic=name, partitions=partitions)
            )
        partitions.append(data)
    return topics


def _answer(
    ctx: RequestContext, target: Target, leaders: Leaders, *, committed: bool
) -> PartitionData:
    log, index = target.log, target.asked.partition
    if target.error or log is None:
        code = target.error or ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer = PartitionData(
            partition_index=index, error_code=code, high_watermark=-1, records=b"",
            aborted_transactions=() if code in UNKNOWN else None,
        )  # fmt: skip
        if code is ErrorCode.FENCED_LEADER_EPOCH and log is not None:
            answer.current_leader = LeaderIdAndEpoch(
                leader_id=_leader(ctx, target, log), leader_epoch=log.leader_epoch
            )
        elif leaders and (leader := leaders.get(_name(target))) is not None:
            answer.current_leader = LeaderIdAndEpoch(**leader._asdict())
        return answer
    answer = PartitionData(
        partition_index=index,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=_aborted(target) if committed and not target.diverging else None,
        preferred_read_replica=target.preferred,
        records=target.parts,
    )
    if log.is_follower:
        ctx.broker.followed.metrics.fetched_bytes_total += target.size
    if target.diverging is not None:
        answer.diverging_epoch = target.diverging
    return answer


def _leader(ctx: RequestContext, target: Target, log: ReadablePartition) -> int:
    if not log.is_follower:
        return ctx.broker.node_id
    owner = ctx.broker.routes.owner(*_name(target))
    return NO_REPLICA if owner is None else owner


def _aborted(target: Target) -> Sequence[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in target.aborted or ()
    ]


async def _leaders(ctx: RequestContext, collection: Collection) -> Leaders:
    """Find out who leads what moved away; no records wait for it. Errors: none."""
    if collection.size or ctx.header.api_version < LEADERS_SINCE:
        return NOBODY_ASKED
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    moved = [_name(target) for target in collection.targets if target.error is code]
    return await leaders_elsewhere(ctx, moved) if moved else NOBODY_ASKED


def _name(target: Target) -> tuple[str, int]:
    return "" if target.topic is None else target.topic.name, target.asked.partition


def _endpoints(ctx: RequestContext, answers: list[PartitionData]) -> Sequence[NodeEndpoint]:
    """Say where the leaders are that answers name."""
    if not [1 for each in answers if each.error_code]:
        return ()
    return [
        NodeEndpoint(**place._asdict())
        for node_id in sorted({each.current_leader.leader_id for each in answers})
        for place in (broker_place(ctx, node_id) if node_id >= 0 else ())
    ]
