"""One request of a connection, from its frame to its answer."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tailrace.protocol.kafka.header import RequestHeader

if TYPE_CHECKING:
    import asyncio

    from tailrace.broker.handlers import Handler
    from tailrace.broker.quotas.request_quota import RequestQuota
    from tailrace.protocol.ids import Buffer


class Answering(Protocol):
    """Who takes the answers."""

    def answer(self, item: "InFlight", build: Callable[[], Any]) -> None:
        """Build and send an answer."""


class Unsettled(Protocol):
    """What still holds the bytes of a request, and when it lets go of them."""

    def done(self) -> bool:
        """Whether it has let go."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> object:
        """Have `callback` called once it lets go, at once or later."""


class InFlight(msgspec.Struct, eq=False):
    """A request that was decoded as far as its header; a `Turn` of the pipeline."""

    connection: Answering
    header: RequestHeader
    frame: memoryview | None
    """Dropped when the handler has it."""
    body_at: int
    size: int
    handler: "Handler | None" = None
    parts: "list[Buffer] | None" = None
    build: Callable[[], Any] | None = None
    deadline_s: float = float("inf")
    task: "asyncio.Task[None] | None" = None
    appends: Unsettled | None = None
    """Of a produce that has not come to its end: the log has its bytes, answered or not."""
    quota: "RequestQuota | None" = None
    """What it is charged to; None for a client without quotas."""

    def on_done(self, _done: object) -> None:
        """Make the answer: what a `Deferred` waits for is done."""
        self.appends = None
        build = self.build
        if build is not None:
            self.connection.answer(self, build)

    @property
    def holder(self) -> Unsettled | None:
        """What goes on with the request's bytes though its connection may be gone."""
        holder = self.appends if self.appends is not None else self.task
        return None if holder is None or holder.done() else holder

    def abandon(self) -> None:
        """Stop what only the client waited for: nobody reads its answer."""
        if self.task is not None and self.handler is not None and self.handler.abandoned:
            self.task.cancel()
