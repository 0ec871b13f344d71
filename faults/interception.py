"""Requests on their way to their handlers: what is dropped, failed, answered late.

Flow: KafkaConnection -> `handler_of` -> (a fault is set for this API) -> `_answer` -> the handler,
with the request or with what faults leave of it.
"""

import asyncio
import dataclasses
import logging
from functools import partial, reduce
from typing import Any, Final, NamedTuple

import msgspec

from tailrace.broker.context import RequestContext
from tailrace.broker.errors import CloseConnection
from tailrace.broker.handlers import Handler
from tailrace.faults.answers import changed, held
from tailrace.faults.failures import failed, joined, spoil_metadata
from tailrace.faults.fetches import give_up_session, without_session
from tailrace.faults.orders import DelayAnswers, DropNext, FailNext
from tailrace.faults.requests import TopicName, narrowed
from tailrace.faults.table import FaultTable, SetFault
from tailrace.protocol.kafka.apis import FETCH, METADATA, PRODUCE

logger = logging.getLogger(__name__)

HITS_LOGGED_MAX: Final = 10
"""Of one fault; a delay hits every fetch."""


class Split(NamedTuple):
    """A request in two: what a fault is for, and the rest. None: nothing."""

    part: Any | None
    rest: Any | None


class Interception:
    """What stands between the connections of a broker and its handlers. All calls: the loop's."""

    def __init__(self, table: FaultTable) -> None:
        self._table = table
        self._held: dict[asyncio.Future[None], int] = {}

    def handler_of(self, handler: Handler) -> Handler:
        """Return what is to answer a request: the handler itself unless a fault is set for it."""
        if not self._table.has(handler.api.name):
            return handler
        return handler._replace(function=partial(self._answer, handler))

    def release(self, fault_id: int) -> None:
        """Let the answers go that a fault holds back: it was undone."""
        for future, holder in list(self._held.items()):
            if holder == fault_id:
                _end(future)

    def _answer(self, handler: Handler, ctx: RequestContext, request: Any) -> Any:
        name = handler.api.name
        drops, delays = self._table.of(name, DropNext), self._table.of(name, DelayAnswers)
        for delay in delays:
            _hit(delay)
        if drops:
            answer = _dropped(drops[0], handler, ctx, request)
        elif handler.api.key == METADATA.key:
            answer = self._metadata(handler, ctx, request)
        else:
            answer = self._failed_or_real(handler, ctx, request)
        for delay in delays:
            seconds = delay.order.ms / 1000  # type: ignore[union-attr]  # the table sorts by kind
            answer = held(answer, partial(self._hold, delay.id, seconds), seconds)
        return answer

    def _failed_or_real(self, handler: Handler, ctx: RequestContext, request: Any) -> Any:
        api, responses = handler.api, []
        rest = without_session(ctx, request) if api.key == FETCH.key else request
        for fault in self._table.of(api.name, FailNext):
            order = fault.order
            assert isinstance(order, FailNext)
            split = _split(order, rest, _names(ctx))
            if split.part is not None:
                _hit(fault)
                responses.append(failed(api, split.part, order.code, whole=order.is_whole))
                rest = split.rest
            if rest is None:
                break
        if not responses:
            return handler.function(ctx, request)
        if api.key == FETCH.key:
            give_up_session(ctx, request)
        is_answered = api.key != PRODUCE.key or request.acks != 0
        return _with_failures(responses, rest, handler, ctx, is_answered=is_answered)

    def _metadata(self, handler: Handler, ctx: RequestContext, request: Any) -> Any:
        """Answer Metadata, which always has brokers: without them a client is lost."""
        failing: list[FailNext] = []
        everything = request.topics is None or (not request.topics and ctx.header.api_version == 0)
        for fault in self._table.of(METADATA.name, FailNext):
            order = fault.order
            assert isinstance(order, FailNext)
            of_topic = msgspec.structs.replace(order, partition=None)
            is_named = request.topics and _split(of_topic, request, _names(ctx)).part is not None
            if everything or is_named:  # else there is no place for the error
                _hit(fault)
                failing.append(order)
        if not failing:
            return handler.function(ctx, request)
        asked = dataclasses.replace(request, allow_auto_topic_creation=False)
        return changed(handler.function(ctx, asked), partial(reduce, _spoiled, failing))

    def _hold(self, fault_id: int, seconds: float) -> "asyncio.Future[None]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._held[future] = fault_id
        timer = loop.call_later(seconds, _end, future)

        def forget(_: object) -> None:
            timer.cancel()
            del self._held[future]

        future.add_done_callback(forget)
        return future


def _dropped(fault: SetFault, handler: Handler, ctx: RequestContext, request: Any) -> Any:
    """Carry a request out, or not, and cut its connection."""
    _hit(fault)
    order = fault.order
    assert isinstance(order, DropNext)
    reason = f"fault {fault.id}: drop_next {order.api}, {order.when} it took effect"
    if order.when == "before":
        raise CloseConnection(reason)

    def cut(_: object) -> Any:
        raise CloseConnection(reason)

    return changed(handler.function(ctx, request), cut)


def _split(order: FailNext, request: Any, name_of: TopicName) -> Split:
    """Divide a request: into all and nothing, unless the fault is for some topics or partitions."""
    if order.is_whole:
        return Split(request, None)

    def is_meant(topic: str | None, index: int | None) -> bool:
        return order.topic in (None, topic) and order.partition in (None, index)

    part = narrowed(request, is_meant, name_of)
    if part is None:
        return Split(None, request)
    return Split(part, narrowed(request, lambda *each: not is_meant(*each), name_of))


def _with_failures(
    responses: list[Any],
    rest: Any | None,
    handler: Handler,
    ctx: RequestContext,
    *,
    is_answered: bool,
) -> Any:
    """Answer what faults leave of a request, together with what they failed."""

    def close(_: object) -> Any:
        raise CloseConnection("a fault failed a produce with acks=0")  # as any failed one

    wrong = reduce(joined, reversed(responses))
    if rest is None:
        return wrong if is_answered else close(None)
    real = handler.function(ctx, rest)
    return changed(real, (lambda right: joined(right, wrong)) if is_answered else close)


def _spoiled(response: Any, order: FailNext) -> Any:
    spoil_metadata(response, order.topic, order.partition, order.code)
    return response


def _names(ctx: RequestContext) -> TopicName:
    def name_of(topic_id: bytes) -> str | None:
        topic = ctx.broker.topics.by_id(topic_id)
        return None if topic is None else topic.name

    return name_of


def _hit(fault: SetFault) -> None:
    fault.hits += 1
    if fault.hits <= HITS_LOGGED_MAX:
        logger.warning("fault_hit id=%d hit=%d order=%s", fault.id, fault.hits, fault.order)


def _end(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
