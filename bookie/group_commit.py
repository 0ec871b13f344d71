"""Group commit into the entry log: one thread writes and syncs for all that waits.

Nothing waits for company unless it is told to (group_wait): a group is what arrived while the group
before it was written and synced. The loop puts one tuple for each add and is called once for each
group.

Order within a group: the journal is synced before the entry log, so that an entry can never be
found without the master key of its ledger. A failure ends the thread: what was put after it, or was
in the failed group, is never acknowledged. A full disk is no failure: it shows before anything is
written, so the entries of that group are refused and the next group is tried.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.bookie.errors import NoRoom
from tailrace.bookie.group_wait import GroupRules, GroupThread, Item
from tailrace.bookie.grouped_file import EntryLog, Journal
from tailrace.bookie.marks import Mark

if TYPE_CHECKING:
    from tailrace.protocol.ids import Buffer


class CommittedGroup:
    """A group that is on disk."""

    __slots__ = ("entry_log_mark", "items", "journal_mark", "no_room", "size", "start")

    def __init__(
        self, items: list[Item], size: int, start: Mark, entry_log_mark: Mark, journal_mark: Mark
    ) -> None:
        self.items = items
        self.no_room: NoRoom | None = None
        """Why no entry of it was written; its journal records are on disk all the same."""
        self.size = size
        """Bytes of the entries with their size fields."""
        self.start = start
        """Where the group's first entry begins; meaningless without entries."""
        self.entry_log_mark = entry_log_mark
        self.journal_mark = journal_mark
        """Where the files' next groups begin: everything before is done."""


class GroupCommit:
    """The writer thread and its two series of files."""

    def __init__(
        self,
        journal: Journal,
        entry_log: EntryLog,
        rules: GroupRules,
        done: Callable[[CommittedGroup], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._journal = journal
        self._entry_log = entry_log
        self._done = done
        self._journal_mark = Mark()
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._thread = GroupThread("bookie-writer", rules, self._commit, failed)
        self.put: Callable[[Item], None] = self._thread.put

    def start(self, journal_mark: Mark) -> None:
        """Start the thread. `journal_mark`: where a replay of the journal would begin now."""
        self._journal_mark = journal_mark
        self._thread.start()

    def stop(self) -> None:
        """Let the thread end once all that was put is done."""
        self._thread.stop()

    def join(self) -> None:
        """Wait for the thread. Blocks."""
        self._thread.join()

    def _commit(self, items: list[Item]) -> None:
        """Write and sync one group. Cost: one writev and one sync for each file touched."""
        entries: list[Buffer] = []
        records: list[Buffer] = []
        size = 0
        for item in items:
            if item[0]:
                entries += item[1]
                size += item[0]
            else:
                records += item[1]
        if records:
            self._journal.append(records)
            self._journal_mark = self._journal.mark() or self._journal_mark
        start = Mark()
        no_room = None
        if entries:
            try:
                start = self._entry_log.append(entries, size, synced=True)
            except NoRoom as error:
                no_room = error
        group = CommittedGroup(items, size, start, self._entry_log.mark(), self._journal_mark)
        group.no_room = no_room
        self._loop.call_soon_threadsafe(self._done, group)
