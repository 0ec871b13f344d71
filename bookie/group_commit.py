"""Group commit: one thread writes and syncs for all that waits.

Nothing waits for company: a group is what arrived while the group before it was written and synced
(so BookKeeper's journalMaxGroupWaitMSec is 0 here, and journalFlushWhenQueueEmpty is on). The loop
puts one tuple for each add and is called once for each group.

Order within a group: the journal is synced before the entry log, so that an entry can never be
found without the master key of its ledger. A failure ends the thread: what was put after it, or was
in the failed group, is never acknowledged.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeAlias

from bookie.grouped_file import EntryLog, Journal
from bookie.ledger_state import LedgerState
from bookie.marks import Mark
from core.runtime.threads import WorkerThread
from protocol.ids import Buffer, EntryId

logger = logging.getLogger(__name__)

Item: TypeAlias = tuple[
    int,  # bytes in the entry log, with the size field; 0: a journal record or a barrier
    tuple[Buffer, ...],  # what is written, size field first
    LedgerState | None,  # of an entry
    EntryId,
    EntryId,  # the entry's LAC
    Callable[..., Any],  # of an entry: its reply; else called without arguments when durable
]


class CommittedGroup:
    """A group that is on disk."""

    __slots__ = ("entry_log_mark", "items", "journal_mark", "size", "start")

    def __init__(
        self, items: list[Item], size: int, start: Mark, entry_log_mark: Mark, journal_mark: Mark
    ) -> None:
        self.items = items
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
        done: Callable[[CommittedGroup], None],
        failed: Callable[[Exception], None],
        *,
        write_data_to_journal: bool,
        group_bytes_max: int,
    ) -> None:
        self._journal = journal
        self._entry_log = entry_log
        self._done = done
        self._failed = failed
        self._write_data_to_journal = write_data_to_journal
        self._journal_mark = Mark()
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._thread = WorkerThread[Item](
            "bookie-writer",
            self._commit,
            self._report,
            weigh=_weigh,
            weight_max=group_bytes_max,
        )
        self.put: Callable[[Item], None] = self._thread.put

    def start(self, journal_mark: Mark) -> None:
        """Start the thread. `journal_mark`: where a replay of the journal would begin now."""
        self._journal_mark = journal_mark
        self._thread.start()

    def stop(self) -> None:
        """Let the thread end once all that was put is done."""
        self._thread.stop()

    def join(self) -> None:
        """Wait for the thread, then close the files. Blocks. Everything durable is so already."""
        self._thread.join()
        for series in (self._journal, self._entry_log):
            try:
                series.close()
            except OSError as error:
                logger.warning("close_failed error=%s", error)

    def _report(self, error: Exception) -> None:
        self._loop.call_soon_threadsafe(self._failed, error)

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
        if entries and self._write_data_to_journal:
            records += entries
        if records:
            self._journal.append(records)
            self._journal_mark = self._journal.mark() or self._journal_mark
        start = Mark()
        if entries:
            start = self._entry_log.append(entries, size, synced=not self._write_data_to_journal)
        group = CommittedGroup(items, size, start, self._entry_log.mark(), self._journal_mark)
        self._loop.call_soon_threadsafe(self._done, group)


def _weigh(item: Item) -> int:
    return item[0] or 1
