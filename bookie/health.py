"""Whether a bookie takes new entries, and if not, why: its disks, its operator, its settings.

A read-only bookie answers EREADONLY to ordinary adds and explicit LACs; reads, fences and forces go
on, and high-priority writes while there is room for them. What the disks made read-only the disks
make writable again; what an operator made read-only stays so until the operator says otherwise.
Source: BookKeeper BookieStateManager, BookieRequestProcessor.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tailrace.bookie.disk_watch import DiskVerdict, DiskWatch, in_all
from tailrace.core.runtime.files import Space
from tailrace.core.runtime.listeners import tell
from tailrace.core.runtime.metrics import counter, gauge

logger = logging.getLogger(__name__)

_FORCED: Final = "forceReadOnlyBookie is set"
_MANUAL: Final = "an operator made it read-only"


@dataclass(slots=True)
class HealthMetrics:
    """What the disks of a bookie are like."""

    read_only: int = gauge("1 while the bookie is read-only")
    disk_usage_ratio: float = gauge("used share of the fullest disk at the last check")
    free_bytes: int = gauge("room of all disks at the last check")
    mode_changes_total: int = counter("changes between writable and read-only")


class Health:
    """The mode of one bookie. All calls come from the loop."""

    __slots__ = ("_forced", "_listeners", "_manual", "_verdict", "_watch", "metrics", "reason")

    def __init__(self, watch: DiskWatch, *, forced: bool = False) -> None:
        """Follow the disks; with `forced` be read-only whatever they say."""
        self.metrics = HealthMetrics()
        self.reason = ""
        """Why the bookie is read-only; empty: it is not."""
        self._watch = watch
        self._verdict = watch.verdict()
        self._forced = forced
        self._manual = False
        self._listeners: list[Callable[[], None]] = []
        self._update(self._verdict)

    @property
    def is_read_only(self) -> bool:
        """Whether ordinary adds are refused."""
        return bool(self.reason)

    @property
    def is_forced(self) -> bool:
        """Whether the settings say so: nothing can make it writable."""
        return self._forced

    @property
    def verdict(self) -> DiskVerdict:
        """What the disks say by themselves."""
        return self._verdict

    @property
    def bytes_until_full(self) -> int:
        """What may be written before some disk that has room is full, as of the last check."""
        return self._watch.bytes_until_full()

    def refuses(self, priority: int) -> bool:
        """Tell whether a write of this priority is answered EREADONLY."""
        return bool(self.reason) and not (priority > 0 and self._verdict.high_priority)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` on the loop when the mode or the directories with room have changed."""
        self._listeners.append(listener)

    def on_rooms(self, rooms: Mapping[Path, Space]) -> None:
        """Take what a check of all disks found."""
        self.metrics.disk_usage_ratio = max((room.usage for room in rooms.values()), default=0.0)
        self.metrics.free_bytes = in_all(rooms).free_bytes
        nearly = set(self._verdict.nearly_full)
        verdict = self._watch.on_room(rooms)
        for directory in sorted(set(verdict.nearly_full) - nearly):
            logger.warning("disk_nearly_full dir=%s usage=%.3f", directory, rooms[directory].usage)
        self._update(verdict)

    def on_no_room(self, directory: Path) -> None:
        """Take note that a write found no room."""
        self._update(self._watch.on_no_room(directory))

    def set_manual(self, *, read_only: bool) -> None:
        """Do what an operator asks for; full disks and settings still count."""
        self._manual = read_only
        self._update(self._verdict)

    def _update(self, verdict: DiskVerdict) -> None:
        was, had = self.is_read_only, self._verdict.writable
        self._verdict = verdict
        reasons = (_FORCED if self._forced else "", _MANUAL if self._manual else "", verdict.reason)
        self.reason = "; ".join(reason for reason in reasons if reason)
        if self.is_read_only != was:
            self._note_mode()
        if self.is_read_only != was or verdict.writable != had:
            for listener in self._listeners:
                tell("bookie.mode", listener)

    def _note_mode(self) -> None:
        self.metrics.read_only = int(self.is_read_only)
        self.metrics.mode_changes_total += 1
        if self.is_read_only:
            logger.warning("bookie_read_only reason=%s", self.reason)
        else:
            logger.warning("bookie_writable")
