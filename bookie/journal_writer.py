"""The writer of one journal directory: a thread that writes and syncs for all that waits."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tailrace.bookie.group_wait import GroupRules, GroupThread, Item
from tailrace.bookie.grouped_file import Journal
from tailrace.bookie.marks import Mark

if TYPE_CHECKING:
    from tailrace.protocol.ids import Buffer


class JournalGroup(NamedTuple):
    """A group that is on disk."""

    items: list[Item]
    bodies: list[bytes]
    """Of its entries, in order."""
    mark: Mark
    """Where the journal's next group begins: everything before is done."""


class JournalWriter:
    """Group commit into one journal. A failure ends it: nothing is acknowledged after that."""

    def __init__(
        self,
        index: int,
        journal: Journal,
        mark: Mark,
        rules: GroupRules,
        done: Callable[[int, JournalGroup], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """`index`: place of the directory in the configuration; `mark`: where a replay begins."""
        self._index = index
        self._journal = journal
        self._mark = mark
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._thread = GroupThread(f"bookie-journal-{index}", rules, self._commit, failed)
        self.put: Callable[[Item], None] = self._thread.put

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Let the thread end once all that was put is done."""
        self._thread.stop()

    def join(self) -> None:
        """Wait for the thread. Blocks."""
        self._thread.join()

    def _commit(self, items: list[Item]) -> None:
        """Write and sync one group. Cost: one writev, one sync, one copy of each entry."""
        parts: list[Buffer] = []
        bodies: list[bytes] = []
        for item in items:
            if item[0]:
                size, *rest = item[1]
                body = b"".join(rest)
                bodies.append(body)
                parts += (size, body)
            else:
                parts += item[1]
        if parts:
            self._journal.append(parts)
            self._mark = self._journal.mark() or self._mark
        group = JournalGroup(items, bodies, self._mark)
        self._loop.call_soon_threadsafe(self._done, self._index, group)
