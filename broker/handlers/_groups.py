"""What the handlers of groups have in common: who asks, and an answer that may come later."""

from collections.abc import Callable
from typing import Any, TypeVar

from broker.context import RequestContext
from broker.coordinator.effects import Caller
from broker.handlers import Deferred
from broker.replicated.runner import Answer as FutureAnswer

R = TypeVar("R")


def caller_of(ctx: RequestContext) -> Caller:
    """Return who sent the request; the host is written as Kafka (Java) writes addresses."""
    return Caller(ctx.header.client_id or "", f"/{ctx.connection.host}", ctx.header.api_version)


def answered(answer: FutureAnswer, build: Callable[[Any], R]) -> R | Deferred[R]:
    """Return `build(what the coordinator said)`, now if it is known, else when it is."""
    if answer.done():
        return build(answer.result())
    return Deferred(answer, lambda: build(answer.result()))
