"""One request of a connection, from its frame to its answer."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from protocol.kafka.header import RequestHeader

if TYPE_CHECKING:
    import asyncio

    from broker.handlers import Handler
    from broker.quotas.request_quota import RequestQuota
    from protocol.ids import Buffer


class Answering(Protocol):
    """Who takes the answers."""

    def answer(self, item: "InFlight", build: Callable[[], Any]) -> None:
        """Build and send an answer."""


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
    quota: "RequestQuota | None" = None
    """What it is charged to; None for a client without quotas."""

    def on_done(self, _done: object) -> None:
        """Make the answer: what a `Deferred` waits for is done."""
        build = self.build
        if build is not None:
            self.connection.answer(self, build)

    def abandon(self) -> None:
        """Stop what only the client waited for: nobody reads its answer."""
        if self.task is not None and self.handler is not None and self.handler.abandoned:
            self.task.cancel()
