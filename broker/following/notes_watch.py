"""Hearing of changes to what is noted with a stream.

A watch of the metadata store cannot be taken back: it stays until it fires. So there is one for a
stream, however often its partition is opened and closed here.
"""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tailrace.core.metadata.store import Watch, WatchEvent


class NotesWatch:
    """The watch of one stream. All calls come from the loop."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        """What is noted may be another than was read last."""
        self._is_set = False

    def begin(self) -> "Watch | None":
        """Return the watch for a read that begins now; None if the last one did not fire yet."""
        self.changed.clear()
        if self._is_set:
            return None
        self._is_set = True
        return self._on_changed

    def failed(self) -> None:
        """Hear that the read failed; whether it set the watch is not known."""
        self._is_set = False
        self.changed.set()

    def _on_changed(self, _path: str, _event: "WatchEvent") -> None:
        self._is_set = False
        self.changed.set()
