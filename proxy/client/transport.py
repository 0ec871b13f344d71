"""How a client reaches proxies: what gRPC does in a process, and a simulation in its place.

A transport keeps connections as it likes, a bounded number of them. It decides nothing: a call that
fails ends with a `CallFailed`, and `reactions` says what then.
"""

from types import TracebackType
from typing import Protocol, Self

from google.protobuf.message import Message

from tailrace.protocol.proxy.methods import Method
from tailrace.proxy.client.reactions import Trouble
from tailrace.proxy.routing.ring import Host


class CallFailed(Exception):
    """A call ended without an answer."""

    def __init__(self, trouble: Trouble, text: str) -> None:
        super().__init__(text)
        self.trouble = trouble


class Call(Protocol):
    """A call with a stream in one direction or in both. One task sends, one receives."""

    async def send(self, message: Message | bytes) -> None:
        """Send a message, or its bytes; wait while the proxy takes no more. Errors: CallFailed."""

    async def done_sending(self) -> None:
        """Say that nothing follows. Errors: CallFailed."""

    async def receive(self) -> Message | None:
        """Return the next message; None: the proxy has ended the call in order.

        Errors: CallFailed. Cancel: the call is over.
        """

    def cancel(self) -> None:
        """End the call. Idempotent."""


class Transport(Protocol):
    """Connections to proxies."""

    async def call(self, host: Host, method: Method, request: Message, timeout_s: float) -> Message:
        """Ask once, and return the answer. Unit: seconds. Errors: CallFailed.

        Cancel: the call is over; what it asked for may be done.
        """

    async def open(self, host: Host, method: Method) -> Call:
        """Begin a call with a stream, once there is a connection. Errors: CallFailed."""

    def forget(self, host: Host) -> None:
        """Drop the connection to a host; calls there go on until they end."""

    async def close(self) -> None:
        """Drop all connections; calls end with CallFailed. Idempotent."""


def encoded(message: Message | bytes) -> bytes:
    """Return the bytes of a message."""
    return message if isinstance(message, bytes) else message.SerializeToString()


class Ended:
    """Ends a call when a block ends: `with Ended(call):`."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._call.cancel()
