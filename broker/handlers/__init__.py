"""One module per API, and the table that finds them.

A handler is `@handles(API) def name(ctx, request)`. What must happen in request order (enqueueing a
produce) it does before it returns; what it waits for is in what it returns:
  - a response message: sent now;
  - a coroutine of one (`async def` handlers): a task runs it;
  - a `Deferred`: what it waits for, and a function that makes the answer when that is done. No
    task, one callback: the hot path.
Handlers never import each other. Errors are values in the response. A `KafkaError` or `CoreError`
that escapes becomes the response's top-level `error_code`, or ends the connection if it has none.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from tailrace.broker.context import RequestContext
from tailrace.protocol.kafka.api import Api

R = TypeVar("R")


class Completion(Protocol):
    """What an answer waits for: a future, or what stands for one. Never cancelled from here."""

    def done(self) -> bool:
        """Whether it is done: then only the tail cache has the bytes of a produce."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> object:
        """Have `callback` called once it is done, at once or later."""


class Deferred(msgspec.Struct, Generic[R], frozen=True, eq=False):
    """An answer that something else completes.

    `build` is called once: when `future` is done (however it went), or when `timeout_s` has passed;
    it looks at the future itself. None means that nothing is sent (acks=0). It may raise
    `CloseConnection`.
    """

    future: Completion
    build: Callable[[], R | None]
    timeout_s: float | None = None


Answer: TypeAlias = R | Coroutine[Any, Any, R] | Deferred[R]
HandlerFunction: TypeAlias = Callable[[RequestContext, Any], Any]


class Handler(NamedTuple):
    """How one API is answered."""

    api: Api[Any, Any]
    function: HandlerFunction
    pipelined: bool
    """Several of one connection may run at once; others run one at a time, as all do in Kafka."""
    abandoned: bool
    """Only a reader waits for it: cancelled when its connection goes."""


HANDLERS: dict[int, Handler] = {}
"""By API key; filled by importing `broker.handlers.registry`."""

H = TypeVar("H", bound=HandlerFunction)


def handles(
    api: Api[Any, Any], *, pipelined: bool = False, abandoned: bool = False
) -> Callable[[H], H]:
    """Register the decorated function as the handler of `api`."""

    def register(function: H) -> H:
        assert api.key not in HANDLERS, f"two handlers for {api.name}"
        HANDLERS[api.key] = Handler(api, function, pipelined, abandoned)
        return function

    return register
