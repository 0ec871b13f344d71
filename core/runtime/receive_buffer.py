"""One buffer for what all connections of a loop receive."""

from tailrace.core.runtime.budget import Budget
from tailrace.core.runtime.unfinished import FIRST_BYTES, UNFINISHED_BYTES_MAX

RECEIVE_BUFFER_BYTES = 256 * 1024
"""The shared receive buffer: 16 frames of 16 KiB per system call."""

HELD_BYTES_MAX = 32 * 1024 * 1024
"""What connections that are held may keep of what they had read when the hold came."""

READ_BYTES_MIN = 4 * 1024
"""Read at once while they keep that much: a connection that is held then keeps no more."""


class ReceiveBuffer:
    """The bytes of the read that happens right now; shared by all connections of one loop.

    A read and the call that hands out what was read are one step of the loop, so nobody else can
    come between them. Between such steps `unfinished` counts what is kept of frames that did not
    arrive whole, and `held` what came whole but may not be looked at yet.
    """

    __slots__ = ("first_bytes", "held", "room", "unfinished", "view")

    def __init__(
        self,
        size: int = RECEIVE_BUFFER_BYTES,
        unfinished_bytes_max: int = UNFINISHED_BYTES_MAX,
        held_bytes_max: int = HELD_BYTES_MAX,
        first_bytes: int = FIRST_BYTES,
    ) -> None:
        """`first_bytes`: of an unfinished frame, before it is let in; see `unfinished.py`."""
        self.first_bytes = first_bytes
        self.view = memoryview(bytearray(size))
        self.room = self.view  # where the next read goes
        self.unfinished = Budget("unfinished frames", unfinished_bytes_max)
        self.held = Budget("held bytes", held_bytes_max)

    def hold(self, size: int) -> None:
        """Count bytes that a connection keeps until it may go on with them.

        Beyond the bound all read little at once, so that whoever is held then keeps little.
        """
        self.held.take(size)
        if self.held.full:
            self.room = self.view[:READ_BYTES_MIN]

    def let_go(self, size: int) -> None:
        """Count them out."""
        self.held.give(size)
        if not self.held.full:
            self.room = self.view
