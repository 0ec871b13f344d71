"""What the cleaner may do with which log now: in progress, paused, uncleanable. Plain values.

Source: LogCleanerManager's states (reference Kafka 9.6).
"""

from collections.abc import Collection
from typing import Final, NamedTuple

ALL: Final = "*"
"""Pauses every log."""


class Uncleanable(NamedTuple):
    """Why a log is left alone until somebody asks for it."""

    reason: str
    since_ms: int
    size_bytes: int
    """Of the log's batches then."""


class LogStates:
    """States by log name; a log that is not here is free."""

    def __init__(self) -> None:
        self.in_progress: set[str] = set()
        self.uncleanable: dict[str, Uncleanable] = {}
        self.paused: set[str] = set()
        self.wanted: set[str] = set()
        """To be cleaned at once, whatever their ratio."""

    def is_paused(self, name: str) -> bool:
        """Whether somebody asked to leave it alone until it is resumed."""
        return ALL in self.paused or name in self.paused

    def is_free(self, name: str) -> bool:
        """Whether a worker may take it up."""
        return not (name in self.in_progress or name in self.uncleanable or self.is_paused(name))

    def describe(self, name: str) -> str:
        """Return the state in a word."""
        if name in self.in_progress:
            return "cleaning"
        if name in self.uncleanable:
            return "uncleanable"
        return "paused" if self.is_paused(name) else "idle"

    def want(self, names: set[str]) -> None:
        """Have logs cleaned next, uncleanable ones too."""
        self.wanted |= names
        for name in names:
            self.uncleanable.pop(name, None)

    def keep(self, names: Collection[str]) -> None:
        """Forget logs that are gone."""
        self.wanted.intersection_update(names)
        for name in self.uncleanable.keys() - set(names):
            del self.uncleanable[name]
