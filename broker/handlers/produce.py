"""Produce v3-13: append each batch to its partition, answer when all are confirmed.

Before it returns everything is enqueued, so the order in a partition is the order of requests; only
batches of transactions may have to wait for their coordinator first (`_verified_produce.py`). In
the answer: waiting only. acks=1 waits like acks=all, because nothing here is written twice as fast
as once; acks=0 is not answered, and a failure closes its connection, as in Kafka.
A partition that is named more than once has its last batch appended, and is answered once, as in
Kafka. What costs much to check waits for its turn beside the loop (`partition/admission.py`).
Topics are named by id from v13 on: a batch for a topic that was deleted meanwhile, and made again
under its name, is refused, never appended to the other one.
Errors: per partition. A late append answers REQUEST_TIMED_OUT and may still land: the log owns it.
Source: KafkaApis.handleProduceRequest; ProduceRequest.json; reference Kafka 3.5, 4.1.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from functools import partial
from typing import Any, TypeAlias

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import Deferred, handles
from tailrace.broker.handlers._produce_access import transaction_refusal
from tailrace.broker.handlers._produce_answers import (
    LateState,
    State,
    States,
    all_refused,
    answer_all,
    answer_one,
    join,
    refuse_all,
    refused,
    refused_batch,
)
from tailrace.broker.handlers._verified_produce import (
    Part,
    VerifiedProduce,
    must_wait,
)
from tailrace.broker.partition.admission import settle
from tailrace.broker.partition.in_steps import AT_ONCE
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import PRODUCE
from tailrace.protocol.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tailrace.protocol.records.batch import TRANSACTIONAL, BatchHeader
from tailrace.protocol.records.validate import InvalidBatch

Answered: TypeAlias = (
    ProduceResponse | Coroutine[Any, Any, ProduceResponse | None] | Deferred[ProduceResponse] | None
)

ZSTD_SINCE = 7
TOPIC_IDS_SINCE = 13


@handles(PRODUCE, pipelined=True)
def produce(ctx: RequestContext, request: ProduceRequest) -> Answered:
    """Enqueue every batch; the answer comes when the last of them is confirmed."""
    acks, transactional_id = request.acks, request.transactional_id
    if acks not in (-1, 0, 1):
        return refuse_all(request, ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks}")
    if transactional_id is not None and (code := transaction_refusal(ctx, request)):
        return all_refused(ctx, refuse_all(request, code))
    if ctx.header.api_version >= TOPIC_IDS_SINCE:
        _name_topics(ctx, request)
    timeout_s = max(request.timeout_ms, 0) / 1000 if acks else None  # acks=0 has no answer
    topics, admission = request.topic_data, ctx.broker.partitions.admission
    is_one = len(topics) == 1 and len(topics[0].partition_data) == 1
    count = 1 if is_one else _keep_last(request)
    since = admission.work.total
    if count > AT_ONCE or (admission.steps.rows and admission.steps.is_busy(ctx.connection)):
        states = _append_in_steps(ctx, request)
    elif transactional_id is not None and must_wait(ctx, transactional_id, request):
        states = _append_verified(ctx, transactional_id, request)
    elif is_one:  # what most requests are
        topic, data = topics[0], topics[0].partition_data[0]
        state = _append(ctx, request, topic, data, since)
        build = partial(answer_one, acks, topic, data.index, state)
        if isinstance(state, PartitionProduceResponse):
            return all_refused(ctx, build())
        return Deferred(state, build, timeout_s)
    else:
        states = [
            (each, [(d.index, _append(ctx, request, each, d, since)) for d in each.partition_data])
            for each in request.topic_data
        ]
    return _answered(ctx, acks, states, timeout_s)


def _append_in_steps(ctx: RequestContext, request: ProduceRequest) -> States:
    """Append what is for very many partitions, so many in a step of the loop.

    What the connection sends next waits behind it.
    """
    topics, admission = request.topic_data, ctx.broker.partitions.admission
    late: list[list[LateState]] = [
        [asyncio.get_running_loop().create_future() for _ in topic.partition_data]
        for topic in topics
    ]

    def append() -> Iterator[object]:
        name = request.transactional_id
        try:
            if name is not None and must_wait(ctx, name, request):
                for futures, (_, states) in zip(
                    late, _append_verified(ctx, name, request), strict=True
                ):
                    yield from map(join, futures, [state for _, state in states])
                return
            for futures, topic in zip(late, topics, strict=True):
                for future, data in zip(futures, topic.partition_data, strict=True):
                    since = admission.work.total  # others come in between: no room of a request
                    join(future, _append(ctx, request, topic, data, since))
                    yield None
        except Exception:
            for future in [each for futures in late for each in futures]:
                settle(future, ErrorCode.UNKNOWN_SERVER_ERROR)
            raise

    admission.steps.start(ctx.connection, append())
    return [
        (topic, [(data.index, each) for data, each in zip(topic.partition_data, row, strict=True)])
        for topic, row in zip(topics, late, strict=True)
    ]


def _answered(ctx: RequestContext, acks: int, states: States, timeout_s: float | None) -> Answered:
    """Return the answer of several partitions: when all are done, now if all are refused."""
    build = partial(answer_all, acks, states)
    if all(
        isinstance(state, PartitionProduceResponse)
        for _, partitions in states
        for _, state in partitions
    ):
        return all_refused(ctx, build())
    return Deferred(_all_of(states), build, timeout_s)


def _keep_last(request: ProduceRequest) -> int:
    """Forget all batches of a partition but the last one; return how many partitions there are."""
    topics = request.topic_data
    count = sum([len(topic.partition_data) for topic in topics])
    if len(topics) == 1 and len({data.index for data in topics[0].partition_data}) == count:
        return count  # what most others are
    last = {(t.name, t.topic_id, d.index): d for t in topics for d in t.partition_data}
    if len(last) < count:
        for t in topics:
            t.partition_data = [
                d for d in t.partition_data if last[(t.name, t.topic_id, d.index)] is d
            ]
        request.topic_data = [topic for topic in topics if topic.partition_data]
    return len(last)


def _name_topics(ctx: RequestContext, request: ProduceRequest) -> None:
    """Put the names to the ids; a topic that is not known keeps none."""
    topics = ctx.broker.topics
    for each in request.topic_data:
        topic = topics.by_id(each.topic_id)
        each.name = topic.name if topic is not None else ""


def _append(
    ctx: RequestContext,
    request: ProduceRequest,
    topic: TopicProduceData,
    data: PartitionProduceData,
    since: int,
) -> State:
    """Enqueue one batch, or refuse it. `since`: see `Admission.append`."""
    index, broker = data.index, ctx.broker
    records = _records(ctx, request.acks, topic, data)
    if not isinstance(records, memoryview):
        return records
    log = broker.partitions.get((topic.name, index))
    if log is None:
        if _is_elsewhere(ctx, topic.name, index):
            return refused(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return _append_when_open(ctx, topic, index, records)
    try:
        header = _checked(ctx, log, records, request.transactional_id is not None)
        return broker.partitions.admission.append(log, records, header, ctx.connection, since)
    except InvalidBatch as error:
        return refused_batch(index, error)


def _records(
    ctx: RequestContext, acks: int, topic: TopicProduceData, data: PartitionProduceData
) -> memoryview | PartitionProduceResponse:
    """Return what is to be appended, counted, or why nothing is."""
    index, records, broker = data.index, data.records, ctx.broker
    code = _check_target(ctx, acks, topic.name, index)
    if code is not ErrorCode.NONE:
        return refused(index, code)
    if not isinstance(records, memoryview) or not len(records):
        return refused(index, ErrorCode.INVALID_RECORD, "There is no record batch.")
    metrics = broker.metrics
    metrics.produce_batches_total += 1
    metrics.produce_bytes_total += len(records)
    return records


def _is_elsewhere(ctx: RequestContext, topic: str, index: int) -> bool:
    """Whether a partition is another broker's. One that is still open here takes appends."""
    partitions = ctx.broker.partitions
    return partitions.get((topic, index)) is None and not partitions.is_mine(topic, index)


def _append_when_open(
    ctx: RequestContext, topic: TopicProduceData, index: int, records: memoryview
) -> LateState:
    """Append as soon as the partition is open; whatever comes later waits behind this.

    Only without a transactional id: with one, the request waits for its turn instead.
    """
    future: LateState = asyncio.get_running_loop().create_future()

    def append(log: PartitionLog | ErrorCode) -> None:
        if isinstance(log, ErrorCode):
            settle(future, log)
            return
        if ctx.header.api_version >= TOPIC_IDS_SINCE and log.topic_id != topic.topic_id:
            settle(future, ErrorCode.UNKNOWN_TOPIC_ID)  # made anew while this waited
            return
        admission = ctx.broker.partitions.admission
        try:
            header = _checked(ctx, log, records, in_transaction=False)
            since = admission.work.total
            join(future, admission.append(log, records, header, ctx.connection, since))
        except InvalidBatch as error:
            settle(future, error.with_traceback(None))  # whose frames would hold `records`

    ctx.broker.partitions.visit(topic.name, index, append)
    return future


def _append_verified(ctx: RequestContext, transactional_id: str, request: ProduceRequest) -> States:
    """Append in turn, after what the same transactional id sent, once its coordinator agrees."""
    future = asyncio.get_running_loop().create_future
    by_id = ctx.header.api_version >= TOPIC_IDS_SINCE
    parts: list[Part] = []

    def state(topic: TopicProduceData, data: PartitionProduceData) -> State:
        records = _records(ctx, request.acks, topic, data)
        if not isinstance(records, memoryview):
            return records
        if _is_elsewhere(ctx, topic.name, data.index):
            return refused(data.index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition = TopicPartition(topic.name, data.index)
        parts.append(Part(partition, topic.topic_id if by_id else None, records, future()))
        return parts[-1].outcome

    states: States = [
        (topic, [(data.index, state(topic, data)) for data in topic.partition_data])
        for topic in request.topic_data
    ]
    check = partial(_checked, in_transaction=True)
    work = VerifiedProduce(ctx, transactional_id, parts, check)
    if not ctx.broker.partitions.verifying.start(transactional_id, work.run):
        for part in parts:
            settle(part.outcome, ErrorCode.NOT_ENOUGH_REPLICAS)
    return states


def _checked(
    ctx: RequestContext,
    log: PartitionLog,
    records: memoryview,
    in_transaction: bool,  # noqa: FBT001 - hot
) -> BatchHeader:
    """Return the header of a batch whose records are to be checked. Errors: InvalidBatch.

    `in_transaction`: the request has a transactional id; batches of a transaction need one.
    """
    header = log.rules.check_header(records, ctx.header.api_version >= ZSTD_SINCE)
    if header.attributes & TRANSACTIONAL and not in_transaction:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        raise InvalidBatch(code, "A batch of a transaction, in a request without transactional id.")
    return header


def _check_target(ctx: RequestContext, acks: int, name: str, index: int) -> ErrorCode:
    """Say whether a client may write there at all; a topic whose id is not known has no name."""
    if ctx.broker.authorizer is not None and name:
        code = ctx.refusal(Operation.WRITE, ResourceType.TOPIC, name)
        if code is not ErrorCode.NONE:
            return code
    topic = ctx.broker.topics.get(name)
    if topic is None or not 0 <= index < topic.partition_count:
        by_id = topic is None and ctx.header.api_version >= TOPIC_IDS_SINCE
        return ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.internal and not _may_write_internal(ctx):
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if acks == -1 and topic.settings.min_insync_replicas > topic.quorums.ack_quorum:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return ErrorCode.NONE


def _may_write_internal(ctx: RequestContext) -> bool:
    """Whether the client may write what coordinators keep.

    Kafka lets in who names itself `__admin_client`; here an authorizer has to say so.
    """
    return ctx.broker.authorizer is not None and ctx.may(Operation.CLUSTER_ACTION)


def _all_of(states: States) -> "asyncio.Future[None]":
    """Return a future that is done when every append is."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = [
        state
        for _, partitions in states
        for _, state in partitions
        if not isinstance(state, PartitionProduceResponse)
    ]
    missing = len(waiting)

    def count(_: object) -> None:
        nonlocal missing
        missing -= 1
        if not missing and not done.done():
            done.set_result(None)

    for future in waiting:
        future.add_done_callback(count)
    if not waiting:
        done.set_result(None)
    return done
