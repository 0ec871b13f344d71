"""How a multi-stream writer gathers records into sets, and where it sends them. Pure.

Source: DistributedLog DistributedLogMultiStreamWriter; reference 9.4.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

RECORD_BYTES: Final = 4
"""What a record takes in a set beside its payload."""


class Gathered(NamedTuple):
    """Records that are sent as one set."""

    payloads: list[bytes]
    handles: list[Any]
    """What the callers wait for, one for each."""


@dataclass(slots=True)
class RecordSetBuffer:
    """Records that wait for their set to be full, or for its time."""

    bytes_max: int
    _open: Gathered = field(default_factory=lambda: Gathered([], []))
    _size: int = 0

    def __len__(self) -> int:
        return len(self._open.payloads)

    def add(self, payload: bytes, handle: Any) -> list[Gathered]:
        """Take a record; return the sets that are full with it, or because of it."""
        size, full = len(payload) + RECORD_BYTES, list[Gathered]()
        if self._size and self._size + size > self.bytes_max:
            full.append(self.take())
        self._open.payloads.append(payload)
        self._open.handles.append(handle)
        self._size += size
        if self._size >= self.bytes_max:
            full.append(self.take())
        return full

    def take(self) -> Gathered:
        """Return what waits, and begin another set."""
        taken, self._open, self._size = self._open, Gathered([], []), 0
        return taken


class Turns:
    """Gives each set its streams, round robin: the first to be tried and those behind it."""

    def __init__(self, streams: Sequence[str]) -> None:
        """Errors: ValueError without a stream."""
        self._streams = list(dict.fromkeys(streams))
        if not self._streams:
            raise ValueError("a writer of several streams needs one at least")
        self._next = 0

    def next(self) -> list[str]:
        """Return all streams, in the order in which the next set tries them."""
        at, self._next = self._next, (self._next + 1) % len(self._streams)
        return self._streams[at:] + self._streams[:at]


def speculations_ms(first_ms: int, max_ms: int, within_ms: int) -> list[int]:
    """Return when further streams are tried, after the first: 50, 150, 350 ms and so on.

    The pause doubles from `first_ms` up to `max_ms`; none is at or behind `within_ms`.
    Source: DefaultSpeculativeRequestExecutionPolicy.
    """
    found, pause, at = list[int](), first_ms, first_ms
    while at < within_ms:
        found.append(at)
        pause = min(pause * 2, max_ms)
        at += pause
    return found
