"""Reading groups back: where the acknowledged part of a file ends.

Rule. Groups are written one after the other, each synced before the next begins; so only the last
can be torn. A group that does not verify is therefore either the torn end of the file (cut it: it
was never acknowledged) or damage inside what was acknowledged (never cut that). Which of the two
is told by a later synced group that does verify.
"""

from collections.abc import Callable, Iterator

from tailrace.bookie.group_format import (
    GROUP_BYTES_MAX,
    TRAILER_SIZE,
    Group,
    Stop,
    read_group,
    trailer_pattern,
    trailer_span,
)
from tailrace.bookie.journal_format import padding_size
from tailrace.core.errors import CorruptData
from tailrace.protocol.ids import Position

WINDOW_BYTES = 16 * 1024 * 1024
LARGEST_WINDOW_BYTES = GROUP_BYTES_MAX + TRAILER_SIZE
"""For a group with an entry that is longer than a window."""
_PATTERN = trailer_pattern()
_ZEROS_BEFORE = len(_PATTERN) - len(_PATTERN.lstrip(b"\0"))
_SEARCHED = _PATTERN.strip(b"\0")
"""Searching for zeros, Python looks at each byte of the zeros that a file was allocated with; for
others it leaps over them (16 MiB, of which each journal has some: 77 ms, and 5)."""

Read = Callable[[int, Position], bytes]
"""(size, position) -> bytes, fewer only at the end of the file."""


class GroupScan:
    """Iterates over the groups of one file; afterwards `end` is where the next one belongs.

    A group with a wrong checksum but a whole structure is given out (`intact` false) if something
    acknowledged follows it: its entries exist, and their readers' digests judge them.
    Errors: CorruptData, if records behind a broken structure were acknowledged.
    Cost: one pass of CRC32C over the file, 0.3 us a record, two windows of memory, and a group
    that is longer.
    """

    def __init__(self, read: Read, name: str, file_id: int, alignment: int = 1) -> None:
        self._read = read
        self.name = name
        self._file_id = file_id
        self._alignment = alignment
        self.end: Position = 0

    def has_group(self, start: Position) -> bool:
        """Return whether a synced group that verifies begins at or behind `start`."""
        return self._is_followed(start)

    def next_group(self, start: Position) -> Position | None:
        """Return where the next synced group that verifies begins, None if there is none."""
        return self._find(start)

    def groups(self, start: Position) -> Iterator[Group]:
        """Yield the groups from `start`, the first byte of one."""
        self.end = start
        origin, asked = start, WINDOW_BYTES
        window = memoryview(self._read(asked, start))
        while True:
            group = read_group(window, self.end - origin, origin, self._file_id)
            is_at_start = self.end == origin
            may_be_longer = len(window) == asked and not (is_at_start and asked > WINDOW_BYTES)
            if group is Stop.SHORT and may_be_longer:
                asked = LARGEST_WINDOW_BYTES if is_at_start else WINDOW_BYTES
                origin, window = self.end, memoryview(self._read(asked, self.end))
                continue
            if isinstance(group, Stop):
                self._refuse_if_followed(self.end)
                return
            if not group.intact and not self._is_followed(group.end):
                return
            yield group
            self.end = group.end + padding_size(group.end, self._alignment)
            if self.end - origin > len(window):
                origin, asked = self.end, WINDOW_BYTES
                window = memoryview(self._read(asked, self.end))

    def _refuse_if_followed(self, position: Position) -> None:
        if self._is_followed(position):
            raise CorruptData(
                f"{self.name}: damaged at position {position}, and acknowledged records follow; "
                "restore the file from a backup, or remove this bookie and let it be rebuilt"
            )

    def _is_followed(self, position: Position) -> bool:
        return self._find(position) is not None

    def _find(self, position: Position) -> Position | None:
        overlap = TRAILER_SIZE - 1
        at = position
        while len(window := self._read(WINDOW_BYTES, at)) >= TRAILER_SIZE:
            for place in _trailers(window):
                span = trailer_span(window, place)
                if span is not None and self._verifies(span, position, at + place):
                    return span[0]
            at += len(window) - overlap
        return None

    def _verifies(self, span: tuple[Position, int], first: Position, trailer_at: Position) -> bool:
        start, length = span
        if start < first or start + length != trailer_at or length > GROUP_BYTES_MAX:
            return False
        group = read_group(
            memoryview(self._read(length + TRAILER_SIZE, start)), 0, start, self._file_id
        )
        return isinstance(group, Group) and group.intact


def _trailers(window: bytes) -> Iterator[int]:
    """Yield each place where the trailer of a synced group may begin."""
    found = window.find(_SEARCHED)
    while found >= 0:
        place = found - _ZEROS_BEFORE
        if place >= 0 and window.startswith(_PATTERN, place):
            yield place
        found = window.find(_SEARCHED, found + 1)
