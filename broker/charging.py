"""Requests of clients that have quotas: called, charged and answered with the time to wait.

Kept: a produce is appended whatever it costs; a fetch that has to wait brings nothing and begins no
session, and no more than its quota's windows hold; what brokers tell each other is free.
Source: kafka.server.KafkaApis, RequestHandlerHelper.
"""

import dataclasses
from typing import Any, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import Handler
from tailrace.broker.quotas.request_quota import RequestQuota
from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.apis import FETCH, PRODUCE, WRITE_TXN_MARKERS
from tailrace.protocol.kafka.header import RequestHeader, response_frame_steps
from tailrace.protocol.kafka.messages.fetch import FetchRequest, FetchResponse
from tailrace.protocol.kafka.steps import Steps

_FREE: Final = frozenset({WRITE_TXN_MARKERS.key})
_SIZE_BYTES: Final = 4
"""Of the frame's size, which Kafka charges with a fetch."""


def charged_call(
    quota: RequestQuota, handler: Handler, ctx: RequestContext, request: Any, size: int
) -> Any:
    """Call a handler, counting its time; a produce is charged as soon as it is on its way.

    `size`: bytes of the request without its header. Errors: the handler's.
    """
    if type(request) is FetchRequest:
        request.max_bytes = quota.fetch_bytes_max(request.max_bytes)
    with quota:
        answer = handler.function(ctx, request)
    if handler.api is PRODUCE:
        quota.produced(size)
    return answer


def charged_frame(
    quota: RequestQuota, handler: Handler, ctx: RequestContext, response: Any
) -> Steps[list[Buffer]]:
    """Return in steps the frame of an answer that says how long to wait; empty without an answer.

    The time of a produce without an answer is free, as in Kafka.
    """
    parts = yield from _timed(quota, frame_of(handler, ctx.header, response))
    if handler.api is FETCH:
        quota.fetched(sum(map(len, parts[1:])) + _SIZE_BYTES)
    elif response is not None and handler.api.key not in _FREE:
        quota.charge_time()
    if quota.throttle_ms and response is not None:
        told = _throttled(ctx, response, quota.throttle_ms)
        parts = yield from _timed(quota, frame_of(handler, ctx.header, told))
    quota.note_time()
    return parts


def _timed(quota: RequestQuota, steps: Steps[list[Buffer]]) -> Steps[list[Buffer]]:
    """Count the time of the steps, not of what happens between them."""
    while True:
        with quota:
            try:
                next(steps)
            except StopIteration as done:
                parts: list[Buffer] = done.value
                return parts
        yield


def frame_of(handler: Handler, header: RequestHeader, response: Any) -> Steps[list[Buffer]]:
    """Return in steps the frame of an answer; empty if there is none."""
    if response is None:
        return []
    version, correlation_id = header.api_version, header.correlation_id
    return (yield from response_frame_steps(handler.api, version, correlation_id, response))


def _throttled(ctx: RequestContext, response: Any, throttle_ms: int) -> Any:
    """Return a copy, since others may have the same answer; not every API can say it."""
    if type(response) is FetchResponse:
        session_id = ctx.broker.fetch_sessions.withhold(response)
        return dataclasses.replace(
            response, throttle_time_ms=throttle_ms, session_id=session_id, responses=()
        )
    if "throttle_time_ms" not in response.__slots__:
        return response
    return dataclasses.replace(response, throttle_time_ms=throttle_ms)
