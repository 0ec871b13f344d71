"""What a connection's frames are given to, and what it may cost."""

from typing import NamedTuple, Protocol, TypeVar

Channel = TypeVar("Channel", contravariant=True)


class FrameUser(Protocol[Channel]):
    """Who owns the frames of a connection, a `FrameChannel`. All calls come from the loop."""

    def on_open(self, channel: Channel) -> None:
        """Take the channel; called once, first."""

    def on_frame(self, frame: memoryview) -> None:
        """Take one whole frame, without its size. It is the user's own and may be written to.

        Its bytes are taken from the budget: the user gives `len(frame)` back when it is done with
        the request, also when this call raises. Errors: a `ProtocolError` closes the connection
        with one log line.
        """

    def on_drained(self) -> None:
        """Go on building answers: the peer has taken what was written."""

    def on_close(self, error: Exception | None) -> None:
        """Forget the connection; called once, last. The user still gives back what is in flight."""


class FrameLimits(NamedTuple):
    """What one connection may cost."""

    frame_bytes_max: int = 100 * 1024 * 1024
    write_high_bytes: int = 1024 * 1024
    """Unsent bytes above which the peer is called slow: its socket is not read any more."""
    stall_s: float = 30.0
    """A half-received frame or an undrained answer without progress for so long is stalled."""
