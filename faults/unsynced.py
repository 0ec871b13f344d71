"""What was changed in one file since it was synced, and how it was before."""

import os
from dataclasses import dataclass, field
from typing import Final

from tailrace.protocol.ids import Position

SAVED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Overwritten bytes of one file that are kept."""


@dataclass(slots=True)
class _Layer:
    """The changes between two syncs: the length before, and what was overwritten below it."""

    size: int
    saved: list[tuple[Position, bytes]] = field(default_factory=list)
    is_sealed: bool = False


class Unsynced:
    """The changes of one file. Not thread-safe. Appends cost nothing but the first one's note."""

    def __init__(self, fd: int) -> None:
        """`fd`: open for reading; a copy of it is kept, whatever happens to the file's name."""
        self._fd = os.dup(fd)
        self._layers: list[_Layer] = []
        self._forgotten = 0
        self._saved_bytes = 0

    def before_write(self, position: Position, size: int) -> None:
        """Note what is about to be overwritten; what lies behind the old length is not kept."""
        layer = self._open_layer()
        end = min(position + size, layer.size)
        if position < end:
            self._save(layer, position, end - position)

    def before_truncation(self, size: int) -> None:
        """Note what is about to be cut off."""
        layer = self._open_layer()
        if size < layer.size:
            self._save(layer, size, layer.size - size)

    def seal(self) -> int:
        """Begin a sync; return how many layers, of all there ever were, are synced after it."""
        for layer in self._layers:
            layer.is_sealed = True
        return self._forgotten + len(self._layers)

    def forget(self, covered: int) -> bool:
        """Forget what a sync covered, less what another one has; return whether nothing is left."""
        gone = max(0, covered - self._forgotten)
        for layer in self._layers[:gone]:
            self._saved_bytes -= sum(len(data) for _, data in layer.saved)
        del self._layers[:gone]
        self._forgotten += gone
        return not self._layers

    def undo(self) -> None:
        """Make the file what it was when it was synced."""
        for layer in reversed(self._layers):
            for position, data in reversed(layer.saved):
                os.pwrite(self._fd, data, position)
            os.ftruncate(self._fd, layer.size)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)

    def _open_layer(self) -> _Layer:
        if not self._layers or self._layers[-1].is_sealed:
            self._layers.append(_Layer(os.fstat(self._fd).st_size))
        return self._layers[-1]

    def _save(self, layer: _Layer, position: Position, size: int) -> None:
        layer.saved.append((position, os.pread(self._fd, size, position)))
        self._saved_bytes += size
        while self._saved_bytes > SAVED_BYTES_MAX and layer.saved:
            self._saved_bytes -= len(layer.saved.pop(0)[1])
