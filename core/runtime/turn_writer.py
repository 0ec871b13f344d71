"""Writes of one turn of the loop, put together: a system call costs more than a small frame.

    first write of a turn --> the transport, at once: nobody waits longer than before
    the others            --> kept here --> one write at the end of the turn, or when enough waits

uvloop sends in the call of `writelines`. Sixteen requests that were read together made sixteen
answers of one packet each; with this they make two. A peer that wakes up for each entry of 64 KB
syncs each alone; in groups of sixteen three bookies take half as many again in the same time.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from tailrace.protocol.ids import Buffer

KEPT_BYTES_MAX: Final = 1024 * 1024
"""What waits for the end of a turn, more is written at once: the transport tells who is slow."""
ENOUGH_WRITES: Final = 16
ENOUGH_BYTES: Final = 64 * 1024
"""Both together are written at once too: the peer works on them while this turn makes more."""


class TurnWriter:
    """What one connection writes. All calls come from the loop."""

    __slots__ = ("_is_open", "_kept", "_kept_bytes", "_kept_writes", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._kept: list[Buffer] = []
        self._kept_bytes = self._kept_writes = 0
        self._is_open = True
        """Whether nothing was written in this turn."""

    def write(self, parts: Sequence[Buffer]) -> None:
        """Write buffers behind all others; nobody may change them any more."""
        if self._is_open:
            self._is_open = False
            self._loop.call_soon(self._end_turn)
            self._transport.writelines(parts)
            return
        self._kept += parts
        self._kept_bytes += sum(map(len, parts))
        self._kept_writes += 1
        if self._kept_bytes >= (
            ENOUGH_BYTES if self._kept_writes >= ENOUGH_WRITES else KEPT_BYTES_MAX
        ):
            self._flush()

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the socket has not taken yet."""
        return self._transport.get_write_buffer_size() + self._kept_bytes

    def close(self) -> None:
        """Let the transport send everything, then close."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once, dropping what is unsent."""
        self._take()
        self._transport.abort()

    def _end_turn(self) -> None:
        self._is_open = True
        self._flush()

    def _flush(self) -> None:
        """Write what is kept; drop it if the transport is on its way out."""
        kept = self._take()
        if kept and not self._transport.is_closing():
            self._transport.writelines(kept)

    def _take(self) -> list[Buffer]:
        kept, self._kept = self._kept, []
        self._kept_bytes = self._kept_writes = 0
        return kept
