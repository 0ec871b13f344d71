"""Decides, from the room on its disks, whether a bookie takes entries. Pure.

A disk becomes full above `full` and is taken back only below `low_water`, so that a bookie at the
edge does not change its mind with every check. A write that found no room makes its disk full at
once, whatever the last check said. While read-only, high-priority writes (recovery and
re-replication) still go to a disk that has `high_priority_bytes` left.
Source: BookKeeper LedgerDirsMonitor, BookieStateManager.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tailrace.core.runtime.files import Space


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRules:
    """When a disk is full. Shape: shares of the disk that are used, 0 < low_water <= full < 1."""

    full: float = 0.95
    warn: float = 0.90
    low_water: float = 0.95
    on_any_full: bool = True
    """One full disk of several is enough; else all must be full."""
    high_priority_bytes: int = 0

    def __post_init__(self) -> None:
        if not (0 < self.low_water <= self.full < 1 and 0 < self.warn <= self.full):
            raise ValueError(
                "disk thresholds: 0 < low water mark <= full < 1 and 0 < warn <= full, not"
                f" {self.low_water}, {self.full}, {self.warn}"
            )


def in_all(rooms: Mapping[Path, Space]) -> Space:
    """Return the room of several directories together; what they share counts once."""
    devices = {room.device: room for room in rooms.values()}.values()
    return Space(sum(d.total_bytes for d in devices), sum(d.free_bytes for d in devices))


class DiskVerdict(NamedTuple):
    """What follows from the last check."""

    writable: tuple[Path, ...]
    """Directories that take new entries, sorted."""
    reason: str
    """Why the bookie is read-only; empty: it is not."""
    high_priority: bool
    """Whether high-priority writes still find room."""
    nearly_full: tuple[Path, ...]
    """Directories above the warning threshold, sorted."""


@dataclass(slots=True)
class DiskWatch:
    """The disks of one bookie, as the last checks saw them."""

    rules: DiskRules
    _rooms: dict[Path, Space] = field(default_factory=dict)
    _full: dict[Path, str] = field(default_factory=dict)

    def on_room(self, rooms: Mapping[Path, Space]) -> DiskVerdict:
        """Take what a check of all directories found."""
        self._rooms = dict(rooms)
        for directory, room in rooms.items():
            if room.usage > self.rules.full:
                self._full[directory] = (
                    f"{directory} is {room.usage:.1%} full, the limit is {self.rules.full:.1%}"
                )
            elif room.usage < self.rules.low_water:
                self._full.pop(directory, None)
        return self.verdict()

    def on_no_room(self, directory: Path) -> DiskVerdict:
        """Take note that a write found no room there."""
        self._full[directory] = f"a write found no room in {directory}"
        return self.verdict()

    def verdict(self) -> DiskVerdict:
        """Return what follows from what is known now."""
        rules = self.rules
        directories = sorted(self._rooms.keys() | self._full.keys())
        writable = tuple(found for found in directories if found not in self._full)
        is_read_only = bool(self._full) and (rules.on_any_full or not writable)
        reasons = [self._full[found] for found in directories if found in self._full]
        return DiskVerdict(
            writable,
            "; ".join(reasons) if is_read_only else "",
            any(
                room.free_bytes >= max(1, rules.high_priority_bytes)
                for room in self._rooms.values()
            ),
            tuple(found for found in directories if self._usage(found) > rules.warn),
        )

    def bytes_until_full(self) -> int:
        """Return what may be written before some disk that has room passes the limit."""
        return min(
            (
                max(0, int(room.free_bytes - room.total_bytes * (1 - self.rules.full)))
                for directory, room in self._rooms.items()
                if directory not in self._full
            ),
            default=0,
        )

    def _usage(self, directory: Path) -> float:
        room = self._rooms.get(directory)
        return room.usage if room is not None else 1.0
