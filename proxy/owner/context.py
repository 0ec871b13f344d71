"""What all streams of a proxy share, and how the proxy hears of them."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeAlias

from tailrace.core.errors import OwnershipAcquireFailed
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.runtime.clock import Clock
from tailrace.proxy.owner.codes import StreamReserved
from tailrace.proxy.owner.config import OwnerConfig
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.metrics import OwnerMetrics
from tailrace.proxy.owner.operations import Answer

ReservedStream: TypeAlias = Callable[[str], Awaitable[str | None]]
"""Returns why no client may write, make or delete a stream; None: it may. Errors: CoreError."""


async def none_reserved(_: str) -> None:
    """Reserve no stream (ReservedStream)."""


class StreamHome(Protocol):
    """The proxy's streams, as one of them sees them. Called on the loop; must not raise."""

    def claim_wait_s(self, stream: str) -> float:
        """Return how long the claim that begins now has to wait. Unit: seconds."""

    def on_acquired(self, stream: str) -> None:
        """Hear that the stream is owned."""

    def on_refused(self, stream: str, error: OwnershipAcquireFailed, answer: Answer) -> None:
        """Hear that another has the stream, and what requests get for that."""

    def on_timed_out(self, stream: str, answer: Answer) -> None:
        """Hear that an operation took too long, and what requests get for that."""

    def on_closed(self, stream: str) -> None:
        """Hear that nothing is left of the stream, and its log is let go."""


class OwnerEvents(Protocol):
    """What the service hears of its streams. Called on the loop."""

    def on_acquired(self, stream: str) -> None:
        """Hear that the proxy owns a stream now."""

    def on_released(self, stream: str) -> None:
        """Hear that the proxy owns it no more, for whatever reason."""

    def on_inconsistent(self, stream: str) -> None:
        """Hear that a stream's lock names this proxy, but belongs to another session than its own.

        Another process runs under this location, or a former run's session is not over yet. Java's
        proxy shuts down.
        """


class NoEvents:
    """For a service that wants to hear nothing (OwnerEvents)."""

    def on_acquired(self, stream: str) -> None:
        """Do nothing."""

    def on_released(self, stream: str) -> None:
        """Do nothing."""

    def on_inconsistent(self, stream: str) -> None:
        """Do nothing."""


class OwnerContext(NamedTuple):
    """The surroundings of a stream."""

    namespace: LogNamespace
    location: ProxyLocation
    config: OwnerConfig
    clock: Clock
    metrics: OwnerMetrics
    reserved: ReservedStream = none_reserved

    async def check_may(self, stream: str) -> None:
        """Refuse a stream that is not for clients. Errors: StreamReserved; CoreError.

        Once the lock is held, or no other process can delete it: what reserves it, as the making of
        a topic does, comes before the stream then, and is seen.
        """
        reason = await self.reserved(stream)
        if reason is not None:
            raise StreamReserved(reason)
