"""The bookie's store: adds go through group commit, reads through one thread, checkpoints behind.

The loop owns every LedgerState. An entry becomes readable when its group is durable, never before:
what a bookie shows it keeps. Flow of an add: `add` -> GroupCommit (writer thread) -> `_on_group`
(loop: locations, LAC, replies). Memory is bounded by the caller's limit on `pending_bytes`, by the
entries since the last checkpoint (8 bytes each), and by the cache limits of the configuration.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from tailrace.bookie import journal_format
from tailrace.bookie.add_path import AddHooks, AddPath
from tailrace.bookie.checkpoint import Checkpointer
from tailrace.bookie.config import MIB, BookieConfig
from tailrace.bookie.direct_adds import DirectAdds
from tailrace.bookie.entry_reader import EntryReader
from tailrace.bookie.entry_spans import LENGTH_SIZE
from tailrace.bookie.errors import NoRoom, StorageFailed
from tailrace.bookie.fenced_and_removed import FencedAndRemoved
from tailrace.bookie.group_format import RECORD_HEAD_SIZE, pack_size
from tailrace.bookie.group_wait import GroupRules, Item
from tailrace.bookie.grouped_file import EntryLog, Journal
from tailrace.bookie.index_files import IndexFiles
from tailrace.bookie.index_format import IndexHeader
from tailrace.bookie.journaled_adds import JournaledAdds
from tailrace.bookie.known_ledgers import KnownLedgers
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.bookie.ledger_state import LedgerState
from tailrace.bookie.marks import Mark
from tailrace.bookie.metrics import BookieMetrics
from tailrace.bookie.page_cache import (
    SHARE_OF_MEMORY,
    WINDOW_BYTES_MAX,
    PageCacheWindow,
    ReadBehind,
)
from tailrace.bookie.recovery import Recovered, Recovery, load_state
from tailrace.bookie.upkeep import Upkeep
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.files import Files, Space
from tailrace.core.runtime.threads import JobThread
from tailrace.protocol.bookkeeper.messages import AddResponse
from tailrace.protocol.ids import Buffer, EntryId, LedgerId

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

T = TypeVar("T")

BATCH_ENTRIES_MAX = 1024
"""Entries of one batch read: bounds how long other reads wait behind it."""


class Storage:
    """Entries and per-ledger state of one bookie. Call from the loop it was opened on."""

    def __init__(self, config: BookieConfig, clock: Clock, files: Files) -> None:
        self._config = config
        self._clock = clock
        self._files = files
        self._loop = asyncio.get_running_loop()
        self._journals = [directory / "current" for directory in config.journal_directories]
        self.dirs = LedgerDirs(files, config.ledger_directories)
        self.indexes = IndexFiles(files, self.dirs)
        self._window = PageCacheWindow(files, self._page_cache_bytes())
        self._reader = EntryReader(
            files,
            self.dirs,
            self.indexes,
            ReadBehind(files, self._window),
            files_max=config.open_file_limit,
            pages_max=config.cached_index_pages_max,
        )
        self.metrics = BookieMetrics()
        self.failed: asyncio.Future[StorageFailed] = self._loop.create_future()
        """Has a result once nothing may be acknowledged any more: the process should end."""
        self.on_no_room: Callable[[NoRoom], None] = _nobody
        """Hears of entries that were refused because a disk is full."""
        self.known = KnownLedgers(clock, self.metrics, config.cached_ledgers_max)
        self.ledgers = self.known.by_id
        checkpointer = Checkpointer(
            files, self._journals, self.dirs, self.indexes, config.journal_backups_max
        )
        self.upkeep = Upkeep(config, checkpointer, self.known, self._fail, self._note_no_room)
        self._reads = JobThread("bookie-reader", self._fail)
        self.fenced_and_removed = FencedAndRemoved(clock, files, self.dirs.all)

    # Start and end

    async def open(self) -> None:
        """Recover what is there and start to serve. Errors: OSError, CorruptData."""
        self._reads.start()
        recovery = Recovery(self._files, self._journals, self.dirs, self.indexes, self._reader)
        recover = functools.partial(
            recovery.run,
            self._clock.now_ms(),
            self._open_entry_log,
            self._config.memtable_bytes_max,
        )
        try:
            found = await self._reads.call(recover)
            await self._reads.call(self.fenced_and_removed.load)
        except BaseException:
            await self._end(self._reads)
            raise
        self.ledgers.update(found.ledgers)
        self._adds = self._new_adds(found)
        self._put: Callable[[Item], None] = self._adds.put
        self._adds.start()
        self.upkeep.start(found, self._adds)

    def _open_entry_log(self, at: Mark | None, last_id: int) -> EntryLog:
        entry_log = EntryLog(self._files, self.dirs, at, last_id)
        entry_log.size_max = self._config.log_size_limit
        entry_log.step = self._config.preallocate_mb * MIB
        entry_log.page_cache = self._window
        return entry_log

    def _new_adds(self, found: Recovered) -> AddPath:
        config = self._config
        journals = []
        ends = zip(self._journals, found.next_journal_ids, found.journal_marks, strict=True)
        for directory, next_id, end in ends:
            journal = Journal(self._files, directory, next_id, end)
            journal.size_max = config.journal_max_size_mb * MIB
            journal.step = config.preallocate_mb * MIB
            journals.append(journal)
        hooks = AddHooks(
            self.known, self.failed, self._fail, self.upkeep.consider, self._note_no_room
        )
        rules = GroupRules.of(config)
        if config.journal_write_data:
            return JournaledAdds(journals, rules, found, hooks, config.memtable_bytes_max)
        return DirectAdds(journals, rules, found, hooks)

    def _page_cache_bytes(self) -> int:
        given = self._config.page_cache_mb
        if given is None:
            return min(self._files.memory_bytes() // SHARE_OF_MEMORY, WINDOW_BYTES_MAX)
        return given * MIB

    async def close(self) -> None:
        """Finish what was put, checkpoint, end the threads. After a failure only the last.

        Errors: OSError, when the checkpoint fails: what was acknowledged is safe all the same.
        """
        self._adds.stop()
        await self._loop.run_in_executor(None, self._adds.join)
        try:
            if not self.failed.done():
                await self.upkeep.checkpoint()
        finally:
            self.upkeep.hold()
            await self._end(self.upkeep.thread, self._reads)
            self._adds.close()
            self._reader.close()

    async def _end(self, *threads: JobThread) -> None:
        for thread in threads:
            thread.stop()
            await self._loop.run_in_executor(None, thread.join)

    def _fail(self, error: Exception) -> None:
        if not self.failed.done():
            logger.critical("storage_failed error=%r", error)
            failure = StorageFailed(f"the bookie's storage failed: {error}")
            failure.__cause__ = error
            self.failed.set_result(failure)

    def _note_no_room(self, error: NoRoom) -> None:
        self.on_no_room(error)

    def was_fenced(self, ledger_id: LedgerId) -> bool:
        """Return whether a ledger was fenced before it was removed, lately."""
        return ledger_id in self.fenced_and_removed

    # Writes

    def create(self, ledger_id: LedgerId, master_key: bytes) -> LedgerState:
        """Take a ledger that is new here, and journal its key."""
        state = LedgerState(ledger_id, IndexHeader(b""))
        state.generation = self.upkeep.generation
        self.ledgers[ledger_id] = state
        self.set_master_key(state, master_key)
        return state

    def set_master_key(self, state: LedgerState, master_key: bytes) -> None:
        """Give a ledger without a key its key. What is put afterwards is durable only with it."""
        state.master_key = master_key
        self._keep_header(state)
        self._journal(state, journal_format.pack_key(state.ledger_id, master_key), _nobody)

    def fence(self, state: LedgerState) -> None:
        """Fence a ledger, at once for adds; its waiters are called when that is durable."""
        state.fenced = True
        self.known.wake(state)
        self._keep_header(state)
        self._journal(
            state,
            journal_format.pack_fence(state.ledger_id),
            functools.partial(_fence_is_durable, state),
        )

    def write_lac(self, state: LedgerState, packet: bytes, durable: Callable[[], Any]) -> None:
        """Store an explicit LAC; it counts when it is durable."""
        record = journal_format.pack_explicit_lac(state.ledger_id, packet)

        def keep() -> None:
            state.pending -= 1
            self.metrics.pending_bytes -= len(record)
            if state.take_explicit_lac(packet):
                self._keep_header(state)
                state.lac_ms = self._clock.now_ms()
                self.known.wake(state)
            durable()

        state.pending += 1
        self.metrics.pending_bytes += len(record)
        self._journal(state, record, keep)

    def add(
        self,
        state: LedgerState,
        entry_id: EntryId,
        lac: EntryId,
        body: tuple[Buffer, ...],
        reply: Callable[[AddResponse], Any],
    ) -> None:
        """Store an entry; the reply comes when it is durable."""
        size = sum(map(len, body))
        record_size = size + RECORD_HEAD_SIZE
        state.pending += 1
        self.metrics.pending_bytes += record_size
        self.metrics.adds_total += 1
        self._put((record_size, (pack_size(size), *body), state, entry_id, lac, reply))

    def force(self, ledger_id: LedgerId, durable: Callable[[], Any]) -> None:
        """Call `durable` when all that was put so far for a ledger is on disk."""
        self._adds.put_record(ledger_id, b"", durable)

    def _journal(self, state: LedgerState, record: bytes, durable: Callable[[], Any]) -> None:
        """Write a record to the journal; `durable` is called when all put so far is on disk."""
        self._adds.put_record(state.ledger_id, record, durable)

    def _keep_header(self, state: LedgerState) -> None:
        state.header_unsaved = True
        self.known.unsaved.add(state)

    # Reads

    def load(
        self, ledger_id: LedgerId, then: Callable[[LedgerState | Exception | None], None]
    ) -> None:
        """Find a ledger that is not in memory; `then` gets None if this bookie has none such."""

        def keep(result: LedgerState | Exception | None) -> None:
            if isinstance(result, LedgerState):
                result.generation = self.upkeep.generation
                result = self.known.keep(result)
            then(result)

        self._reads.submit(
            functools.partial(load_state, ledger_id, self.indexes, self._reader), keep
        )

    def read(
        self,
        state: LedgerState,
        entry_id: EntryId,
        then: Callable[[bytes | Exception | None], None],
    ) -> None:
        """Read one durable entry; `then` gets its body, None if there is no such entry."""
        body = self._adds.find(state.ledger_id, entry_id)
        if body is not None:
            self._loop.call_soon(then, body)
            return
        self._reads.submit(
            functools.partial(
                self._reader.read,
                state.ledger_id,
                entry_id,
                state.locate(entry_id),
                state.generation,
            ),
            then,
        )

    def read_batch(
        self,
        state: LedgerState,
        first: EntryId,
        count_max: int,
        bytes_max: int,
        then: Callable[[list[Buffer] | Exception], None],
    ) -> None:
        """Read durable entries that follow each other; bodies and errors as EntryReader's.

        At most `BATCH_ENTRIES_MAX` of them. `then` gets [] if there is no entry `first`.
        """
        count = max(1, min(count_max, BATCH_ENTRIES_MAX, state.last_entry - first + 1))
        ids = range(first, first + count)
        bodies = self._held(state.ledger_id, ids, bytes_max)
        if bodies:
            self._loop.call_soon(then, bodies)
            return
        find = self._adds.find
        on_disk = takewhile(lambda entry_id: find(state.ledger_id, entry_id) is None, ids)
        locations = list(map(state.locate, on_disk))
        self._reads.submit(
            functools.partial(
                self._reader.read_batch,
                state.ledger_id,
                first,
                locations,
                state.generation,
                bytes_max,
            ),
            then,
        )

    def _held(self, ledger_id: LedgerId, ids: Iterable[EntryId], bytes_max: int) -> list[Buffer]:
        """Return bodies that have no location yet, up to the first that has one or is too much."""
        held: list[Buffer] = []
        for entry_id in ids:
            body = self._adds.find(ledger_id, entry_id)
            if body is None:
                break
            bytes_max -= len(body) + LENGTH_SIZE
            if held and bytes_max < 0:
                break
            held.append(body)
        return held

    def list_entries(
        self, state: LedgerState, then: Callable[[list[EntryId] | Exception], None]
    ) -> None:
        """Find the ids of all durable entries of a ledger, sorted."""
        recent = set(state.unsaved.entry_ids())
        recent.update(self._adds.entry_ids(state.ledger_id))
        if state.saving is not None:
            recent.update(state.saving.entry_ids())

        def work() -> list[EntryId]:
            return sorted(recent.union(self.indexes.entry_ids(state.ledger_id)))

        self._reads.submit(work, then)

    # Compaction and removal

    def copy(
        self, state: LedgerState, entry_id: EntryId, body: bytes, taken: Callable[[bool], Any]
    ) -> None:
        """Write an entry that is here again, elsewhere: see AddPath.put_copy."""
        self._adds.put_copy(state, entry_id, body, taken)

    def call_reader(self, work: Callable[[EntryReader], T]) -> "asyncio.Future[T]":
        """Run `work` in the reading thread, behind all reads so far."""
        return self._reads.call(lambda: work(self._reader))

    def forget_ledger(self, ledger_id: LedgerId) -> None:
        """Drop a ledger; its entries go with their entry logs. Fences were saved before."""
        state = self.ledgers.get(ledger_id)
        if state is not None:
            self._adds.forget(ledger_id)
            del self.ledgers[ledger_id]
            self.known.unsaved.discard(state)
            if state.fenced:
                self.fenced_and_removed.add(ledger_id)
            self.known.wake(state)
        self.metrics.ledgers_removed_total += 1

    def forget_log(self, log_id: int) -> None:
        """Let go of an entry log that was removed."""
        self.metrics.entry_logs_removed_total += 1
        self._reads.submit(functools.partial(self._reader.forget_log, log_id), _nobody)

    def rooms(self) -> "asyncio.Future[dict[Path, Space]]":
        """Find the room of each (configured) ledger directory's file system. Errors: OSError."""
        directories = self.dirs.directories
        return self._reads.call(lambda: {path: self._files.space(path) for path in directories})


def _nobody(*_: object) -> None:
    """Do nothing: nobody waits for this."""


def _fence_is_durable(state: LedgerState) -> None:
    state.fence_durable = True
    waiters, state.fence_waiters = state.fence_waiters, []
    for waiter in waiters:
        waiter()
