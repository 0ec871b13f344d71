"""The records of a batch as the loops take them: bytes, where a payload may be any buffer."""

from tailrace.protocol.ids import Buffer

WINDOW_BYTES = 1 << 20
"""So much of a payload that is not bytes is copied at once; more for a record that is larger."""


class Window:
    """A part of a payload, as bytes."""

    def __init__(self, payload: Buffer) -> None:
        self._payload = payload
        self._start = 0
        self._size = WINDOW_BYTES
        self.data = payload if isinstance(payload, bytes) else bytes(payload[:WINDOW_BYTES])

    @property
    def is_last(self) -> bool:
        """Whether nothing lies behind it."""
        return self._start + len(self.data) == len(self._payload)

    def move(self, at: int) -> None:
        """Begin it at a place inside; if that is its beginning, have it twice as large."""
        self._start += at
        if at == 0:
            self._size *= 2
        self.data = bytes(self._payload[self._start : self._start + self._size])
