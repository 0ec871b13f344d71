"""One buffer for what all connections of a loop receive."""

from core.runtime.budget import Budget
from core.runtime.unfinished import UNFINISHED_BYTES_MAX

RECEIVE_BUFFER_BYTES = 256 * 1024
"""The shared receive buffer: 16 frames of 16 KiB per system call."""


class ReceiveBuffer:
    """The bytes of the read that happens right now; shared by all connections of one loop.

    A read and the call that hands out what was read are one step of the loop, so nobody else can
    come between them. `unfinished` counts what is kept of frames between such steps.
    """

    __slots__ = ("unfinished", "view")

    def __init__(
        self, size: int = RECEIVE_BUFFER_BYTES, unfinished_bytes_max: int = UNFINISHED_BYTES_MAX
    ) -> None:
        self.view = memoryview(bytearray(size))
        self.unfinished = Budget("unfinished frames", unfinished_bytes_max)
