"""What all connections of a server share."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    import asyncio

    from tailrace.broker.broker import Broker
    from tailrace.core.runtime.budget import Budget
    from tailrace.core.runtime.net import FrameChannel

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


Connection = TypeVar("Connection")


class ConnectionOwner(NamedTuple, Generic[Connection]):
    """Made by the server."""

    broker: "Broker"
    requests: "Budget"
    """Bytes of all requests in flight."""
    spawn: Spawn
    """Start a task that the server owns."""
    now_s: Callable[[], float]
    opened: Callable[[Connection, bytes | None], str]
    """Count a connection in, name its user by its certificate; return why it may not stay."""
    admit: Callable[["FrameChannel"], None]
    """Give a connection that is authenticated the limits of those that are known."""
    closed: Callable[[Connection], None]
