"""Adds in BookKeeper's own way (`journalWriteData=true`): journal first, entry log behind.

A group is synced in the journal of its ledger (ledger id mod number of directories), each directory
with its own thread. Then its entries are in the memtable, shown and acknowledged. When that is full
a checkpoint takes it as the snapshot and flushes it, sorted, while the next one fills. With both
full, adds are acknowledged only when the flush is done, and count as pending until then: so who
waits for acknowledgements is slowed down, and the limits of pending adds hold for all others.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from tailrace.bookie.add_path import AddHooks, Covered
from tailrace.bookie.group_wait import GroupRules, Item
from tailrace.bookie.grouped_file import Journal, close_all
from tailrace.bookie.journal_writer import JournalGroup, JournalWriter
from tailrace.bookie.ledger_state import LedgerState
from tailrace.bookie.marks import Mark
from tailrace.bookie.memtable import Memtable
from tailrace.bookie.recovery import Recovered
from tailrace.bookie.sorted_flush import Flushed, LogToSeal, SortedFlush
from tailrace.protocol.bookkeeper.messages import AddResponse, StatusCode
from tailrace.protocol.ids import EntryId, LedgerId

logger = logging.getLogger(__name__)

EOK = StatusCode.EOK


class JournaledAdds:
    """An AddPath with one writer thread for each journal directory, and a memtable behind them."""

    def __init__(
        self,
        journals: list[Journal],
        rules: GroupRules,
        found: Recovered,
        hooks: AddHooks,
        memtable_bytes_max: int,
    ) -> None:
        self._known = hooks.known
        self._failed = hooks.failed
        self._consider = hooks.consider
        self._loop = asyncio.get_running_loop()
        self._flush = found.flush
        self._entry_log_mark = found.flush.entry_log.mark()
        self._seals = found.seals
        self._journals = journals
        self._journal_marks = list(found.journal_marks)
        self._memtable_bytes_max = memtable_bytes_max
        self._active = Memtable()
        self._snapshot: Memtable | None = None
        self._late: list[Item] = []
        """Adds that are durable, and wait for their acknowledgement until there is room."""
        self._wait_for_room: list[Callable[[bool], Any]] = []
        self._writers = [
            JournalWriter(index, journal, mark, rules, self._on_group, hooks.fail)
            for index, (journal, mark) in enumerate(zip(journals, self._journal_marks, strict=True))
        ]
        only_one = len(self._writers) == 1
        self.put: Callable[[Item], None] = self._writers[0].put if only_one else self._put

    # Threads and files

    def start(self) -> None:
        """Start the writer threads."""
        for writer in self._writers:
            writer.start()

    def stop(self) -> None:
        """Let the threads end once all that was put is done."""
        for writer in self._writers:
            writer.stop()

    def join(self) -> None:
        """Wait for the threads. Blocks."""
        for writer in self._writers:
            writer.join()

    def close(self) -> None:
        """Close the files, after the last checkpoint."""
        close_all([*self._journals, self._flush.entry_log])

    # Adds

    def _put(self, item: Item) -> None:
        state = item[2]
        assert state is not None, "an entry has its ledger"
        self._writers[state.ledger_id % len(self._writers)].put(item)

    def put_record(self, ledger_id: LedgerId, record: bytes, durable: Callable[[], Any]) -> None:
        """Journal a record, or wait for what was put before for this ledger's journal."""
        item = (0, (record,) if record else (), None, 0, 0, durable)
        self._writers[ledger_id % len(self._writers)].put(item)

    def put_copy(
        self, state: LedgerState, entry_id: EntryId, body: bytes, taken: Callable[[bool], Any]
    ) -> None:
        """Keep an entry for the next flush; no journal: its old place stays until then."""
        if self.find(state.ledger_id, entry_id) is None:
            self._active.put(state.ledger_id, entry_id, body)
            self._known.unsaved.add(state)
            self._known.unsaved_bytes += len(body)
        if self._is_overfull():
            self._wait_for_room.append(taken)
        else:
            self._loop.call_soon(taken, True)  # noqa: FBT003  its one argument
        self._consider()

    def _on_group(self, index: int, group: JournalGroup) -> None:
        """Keep, show and acknowledge a durable group."""
        if self._failed.done():
            return
        bodies = iter(group.bodies)
        is_late = self._is_overfull()
        size = late_size = 0
        for item in group.items:
            try:
                if item[2] is None:
                    item[5]()
                    continue
                size += item[0]
                self._publish(item, next(bodies))
                if is_late:
                    self._late.append(item)
                    late_size += item[0]
                else:
                    _acknowledge(item)
            except Exception:
                # One entry or reply must not cost the others of the group theirs.
                logger.exception("reply_failed entry=%d", item[3])
        self._journal_marks[index] = group.mark
        metrics = self._known.metrics
        metrics.groups_total += 1
        metrics.add_bytes_total += size
        metrics.pending_bytes -= size - late_size
        self._known.unsaved_bytes += size
        self._consider()

    def _publish(self, item: Item, body: bytes) -> None:
        _, _, state, entry_id, lac, _ = item
        assert state is not None, "an entry has its ledger"
        self._active.put(state.ledger_id, entry_id, body)
        state.pending -= 1
        self._known.publish(state, entry_id, lac)

    def _acknowledge_late(self) -> None:
        late, self._late = self._late, []
        for item in late:
            self._known.metrics.pending_bytes -= item[0]
            try:
                _acknowledge(item)
            except Exception:
                logger.exception("reply_failed entry=%d", item[3])

    # What has no location yet

    def find(self, ledger_id: LedgerId, entry_id: EntryId) -> bytes | None:
        """Return the body of an entry that is in memory, None without one."""
        body = self._active.get(ledger_id, entry_id)
        if body is None and self._snapshot is not None:
            body = self._snapshot.get(ledger_id, entry_id)
        return body

    def entry_ids(self, ledger_id: LedgerId) -> list[EntryId]:
        """Return the ids of a ledger's entries in memory."""
        found = self._active.entry_ids(ledger_id)
        return found + self._snapshot.entry_ids(ledger_id) if self._snapshot else found

    def forget(self, ledger_id: LedgerId) -> None:
        """Drop the entries of a ledger that is being removed; what is being flushed, is."""
        self._active.forget(ledger_id)

    # Checkpoints

    def marks(self) -> tuple[Mark, ...]:
        """Return where the next groups will be: of the entry log, then of each journal."""
        return (self._entry_log_mark, *self._journal_marks)

    def wants_checkpoint(self) -> bool:
        """Return whether the memtable is full, or an entry log waits to be sealed."""
        return self._active.size >= self._memtable_bytes_max or bool(self._seals)

    def begin_checkpoint(self) -> Covered:
        """Take the memtable as the snapshot to flush."""
        self._snapshot, self._active = self._active, Memtable()
        seals, self._seals = self._seals, []
        flush = _FlushOnce(self._flush, self._snapshot, seals)
        return Covered(flush.run, list(self._journal_marks))

    def end_checkpoint(self, flushed: Flushed) -> None:
        """Let go of the snapshot, and of what waited for its room."""
        self._snapshot = None
        self._entry_log_mark = flushed.entry_log_mark
        self._acknowledge_late()
        waiting, self._wait_for_room = self._wait_for_room, []
        for taken in waiting:
            self._loop.call_soon(taken, True)  # noqa: FBT003  its one argument

    def _is_overfull(self) -> bool:
        return self._snapshot is not None and self._active.size > self._memtable_bytes_max


def _acknowledge(item: Item) -> None:
    _, _, state, entry_id, _, reply = item
    assert state is not None, "an entry has its ledger"
    reply(AddResponse(EOK, state.ledger_id, entry_id))


class _FlushOnce:
    """The flush of one snapshot. A checkpoint that found no room runs it again."""

    def __init__(self, flush: SortedFlush, snapshot: Memtable, seals: list[LogToSeal]) -> None:
        self._flush = flush
        self._snapshot = snapshot
        self._seals = seals
        self._flushed: Flushed | None = None

    def run(self) -> Flushed:
        """Flush, unless that has been done; what a failed attempt left is written again."""
        if self._flushed is None:
            flushed = self._flush.flush(self._snapshot)
            self._flushed = flushed._replace(seals=self._seals + flushed.seals)
        return self._flushed
