"""What a produce is answered: per partition its offsets, or what is wrong with it."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeAlias

from tailrace.broker.context import RequestContext
from tailrace.broker.errors import CloseConnection
from tailrace.broker.handlers._epochs import leaders_elsewhere
from tailrace.broker.handlers._places import broker_place
from tailrace.broker.partition.admission import Appending, LateOutcome, settle
from tailrace.broker.partition.appends import AppendResult
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tailrace.protocol.records.validate import InvalidBatch

LateState: TypeAlias = asyncio.Future[LateOutcome | PartitionProduceResponse]
"""Of a partition whose turn has not come yet."""
State: TypeAlias = Appending | LateState | PartitionProduceResponse
"""One partition of a request: its append, or its answer if it was refused at once."""
States: TypeAlias = list[tuple[TopicProduceData, list[tuple[int, State]]]]
"""All partitions of a request: topic, then (index, state)."""
LEADERS_SINCE = 10


def answer_one(
    acks: int, topic: TopicProduceData, index: int, state: State
) -> ProduceResponse | None:
    """Answer a request of one partition; None if acks=0. Errors: CloseConnection."""
    answer = _partition_answer(index, state)
    if acks == 0:
        _check_unanswered(topic.name, [answer])
        return None
    return ProduceResponse(responses=(_topic_answer(topic, (answer,)),))


def answer_all(acks: int, states: States) -> ProduceResponse | None:
    """Answer a request, with REQUEST_TIMED_OUT for what is not done; None if acks=0.

    Errors: CloseConnection.
    """
    answers = [
        (topic, [_partition_answer(index, state) for index, state in partitions])
        for topic, partitions in states
    ]
    if acks == 0:
        for topic, partitions in answers:
            _check_unanswered(topic.name, partitions)
        return None
    return ProduceResponse(responses=[_topic_answer(*each) for each in answers])


def all_refused(
    ctx: RequestContext, response: ProduceResponse | None
) -> ProduceResponse | Coroutine[Any, Any, ProduceResponse] | None:
    """Return the answer of a request with nothing to wait for, or what finds out who leads.

    Only then: no append is confirmed later because somebody else's leader is looked for.
    """
    if response is None or ctx.header.api_version < LEADERS_SINCE:
        return response
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    moved = [
        (topic.name, each)
        for topic in response.responses
        for each in topic.partition_responses
        if each.error_code is code
    ]
    return _with_leaders(ctx, response, moved) if moved else response


async def _with_leaders(
    ctx: RequestContext,
    response: ProduceResponse,
    moved: list[tuple[str, PartitionProduceResponse]],
) -> ProduceResponse:
    leaders = await leaders_elsewhere(ctx, [(topic, each.index) for topic, each in moved])
    for topic, each in moved:
        if (leader := leaders.get((topic, each.index))) is not None:
            each.current_leader = LeaderIdAndEpoch(**leader._asdict())
    response.node_endpoints = [
        NodeEndpoint(**place._asdict())
        for node_id in sorted({each.leader_id for each in leaders.values()})
        for place in broker_place(ctx, node_id)
    ]
    return response


def join(future: LateState, state: State) -> None:
    """Give a state whose turn came late what the real one becomes."""
    if isinstance(state, PartitionProduceResponse):
        settle(future, state)
    else:
        state.add_done_callback(lambda done: settle(future, done.result()))


def _topic_answer(
    topic: TopicProduceData, partitions: Sequence[PartitionProduceResponse]
) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name, topic_id=topic.topic_id, partition_responses=partitions
    )


def _partition_answer(index: int, state: State) -> PartitionProduceResponse:
    if isinstance(state, PartitionProduceResponse):
        return state
    outcome = state.result() if state.done() else ErrorCode.REQUEST_TIMED_OUT
    if isinstance(outcome, PartitionProduceResponse):
        return outcome
    if isinstance(outcome, AppendResult):
        return PartitionProduceResponse(
            index=index,
            base_offset=outcome.base_offset,
            log_append_time_ms=outcome.log_append_time,
            log_start_offset=outcome.log_start_offset,
        )
    if isinstance(outcome, InvalidBatch):
        return refused_batch(index, outcome)
    return refused(index, outcome)


def _check_unanswered(topic: str, answers: list[PartitionProduceResponse]) -> None:
    """Close the connection if anything failed: with acks=0 there is no other way to say so."""
    for answer in answers:
        if answer.error_code:
            code = ErrorCode(answer.error_code)
            raise CloseConnection(f"produce with acks=0 to {topic}-{answer.index}: {code.name}")


def refused(index: int, code: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
    """Return the answer for a partition that got nothing."""
    return PartitionProduceResponse(
        index=index, error_code=code, base_offset=-1, error_message=message
    )


def refused_batch(index: int, error: InvalidBatch) -> PartitionProduceResponse:
    """Return the answer for a partition whose batch was refused, with the records' own errors."""
    answer = refused(index, error.code, error.message)
    answer.record_errors = [
        BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=message)
        for at, message in error.record_errors
    ]
    return answer


def refuse_all(request: ProduceRequest, code: ErrorCode, message: str = "") -> ProduceResponse:
    """Refuse everything of a request."""
    return ProduceResponse(
        responses=[
            _topic_answer(
                topic, [refused(each.index, code, message) for each in topic.partition_data]
            )
            for topic in request.topic_data
        ]
    )
