"""What the handlers of groups have in common: who asks, and an answer that may come later."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from tailrace.broker.context import RequestContext
from tailrace.broker.coordinator.effects import Caller
from tailrace.broker.handlers import Deferred
from tailrace.broker.replicated.machine import Answer as FutureAnswer
from tailrace.core.access.acls.model import ResourceType
from tailrace.protocol.errors import ErrorCode

R = TypeVar("R")


def caller_of(ctx: RequestContext) -> Caller:
    """Return who sent the request; the host is written as Kafka (Java) writes addresses."""
    shows = None if ctx.broker.authorizer is None else partial(ctx.shows, ResourceType.TOPIC)
    host = f"/{ctx.connection.host}"
    return Caller(ctx.header.client_id or "", host, ctx.header.api_version, shows)


def answered(
    answer: FutureAnswer, build: Callable[[Any], R], timeout_ms: int | None = None
) -> R | Deferred[R]:
    """Return `build(what the coordinator said)`, now if it is known, else when it is.

    `timeout_ms`: after which it is COORDINATOR_NOT_AVAILABLE, though it may happen still; clients
    look for the coordinator then, and ask again.
    """
    if answer.done():
        return build(answer.result())

    def build_late() -> R:
        known = answer.done()
        return build(answer.result() if known else ErrorCode.COORDINATOR_NOT_AVAILABLE)

    return Deferred(answer, build_late, None if timeout_ms is None else timeout_ms / 1000)


async def in_time(answer: R | Deferred[R]) -> tuple[R, bool]:
    """Wait for what `answered` returned; say as well whether it took too long."""
    if not isinstance(answer, Deferred):
        return answer, False
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def finish(_: object) -> None:
        if not done.done():
            done.set_result(None)

    answer.future.add_done_callback(finish)
    _, late = await asyncio.wait([done], timeout=answer.timeout_s)
    response = answer.build()
    assert response is not None
    return response, bool(late)
