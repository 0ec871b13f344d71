"""The bookie's store: adds go through group commit, reads through one thread, checkpoints behind.

The loop owns every LedgerState. An entry becomes readable when its group is durable, never before:
what a bookie shows it keeps. Flow of an add: `add` -> GroupCommit (writer thread) -> `_on_group`
(loop: locations, LAC, replies). Memory is bounded by the caller's limit on `pending_bytes`, by the
entries since the last checkpoint (8 bytes each), and by the cache limits of the configuration.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any

from bookie import journal_format
from bookie.checkpoint import Checkpointer
from bookie.config import MIB, BookieConfig
from bookie.entry_log_format import pack_location
from bookie.entry_reader import EntryReader
from bookie.errors import StorageFailed
from bookie.group_commit import CommittedGroup, GroupCommit, Item
from bookie.group_format import RECORD_HEAD_SIZE, pack_size
from bookie.grouped_file import EntryLog, Journal
from bookie.index_files import IndexFiles
from bookie.index_format import IndexHeader
from bookie.ledger_dirs import LedgerDirs
from bookie.ledger_state import LedgerState
from bookie.metrics import BookieMetrics
from bookie.page_cache import SHARE_OF_MEMORY, PageCacheWindow
from bookie.recovery import JournalEntry, Recovered, Recovery, load_state
from bookie.upkeep import Upkeep
from core.runtime.clock import Clock
from core.runtime.files import Files, Space
from core.runtime.threads import JobThread
from protocol.bookkeeper.messages import AddResponse, StatusCode
from protocol.ids import Buffer, EntryId, LedgerId

logger = logging.getLogger(__name__)

EOK = StatusCode.EOK
FENCED_AND_REMOVED_MAX = 10_000
"""Removed ledgers whose fence is remembered, until a restart (Java: for seven days)."""


class Storage:
    """Entries and per-ledger state of one bookie. Call from the loop it was opened on."""

    def __init__(self, config: BookieConfig, clock: Clock, files: Files) -> None:
        self._config = config
        self._clock = clock
        self._files = files
        self._loop = asyncio.get_running_loop()
        self.journal_directory = config.journal_directories[0] / "current"
        self.dirs = LedgerDirs(files, config.ledger_directories)
        self.indexes = IndexFiles(files, self.dirs)
        self._reader = EntryReader(
            files,
            self.dirs,
            self.indexes,
            files_max=config.open_file_limit,
            pages_max=config.cached_index_pages_max,
        )
        self.metrics = BookieMetrics()
        self.failed: asyncio.Future[StorageFailed] = self._loop.create_future()
        """Has a result once nothing may be acknowledged any more: the process should end."""
        checkpointer = Checkpointer(files, self.journal_directory, self.dirs, self.indexes)
        self.upkeep = Upkeep(config, checkpointer, self._fail, self.metrics)
        self._reads = JobThread("bookie-reader", self._fail)
        self.ledgers: dict[LedgerId, LedgerState] = {}
        self._fenced_and_removed: dict[LedgerId, None] = {}
        self._log_id = -1

    # Start and end

    async def open(self) -> None:
        """Recover what is there and start to serve. Errors: OSError, CorruptData."""
        self._reads.start()
        recovery = Recovery(
            self._files, self.journal_directory, self.dirs, self.indexes, self._reader
        )
        try:
            found = await self._reads.call(functools.partial(recovery.run, self._clock.now_ms()))
        except BaseException:
            await self._end(self._reads)
            raise
        self._start_writer(found)
        self.ledgers.update(found.ledgers)
        self.upkeep.start(found, self.ledgers)
        try:
            if found.only_in_journal:
                await self._add_again(found.only_in_journal)
            self.upkeep.resume()
        except BaseException:
            await self._end_writer()
            await self._end(self.upkeep.thread, self._reads)
            raise

    def _start_writer(self, found: Recovered) -> None:
        config = self._config
        journal = Journal(self._files, self.journal_directory, found.next_journal_id)
        entry_log = EntryLog(self._files, self.dirs, found.entry_log)
        journal.size_max = config.journal_max_size_mb * MIB
        entry_log.size_max = config.log_size_limit
        journal.step = entry_log.step = config.preallocate_mb * MIB
        entry_log.page_cache = PageCacheWindow(self._files, self._page_cache_bytes())
        self._log_id = found.entry_log.file_id if found.entry_log else -1
        self._commits = GroupCommit(
            journal,
            entry_log,
            self._on_group,
            self._fail,
            write_data_to_journal=config.journal_write_data,
            group_bytes_max=config.group_bytes_max,
        )
        self._put: Callable[[Item], None] = self._commits.put
        self._commits.start(found.journal)

    def _page_cache_bytes(self) -> int:
        given = self._config.page_cache_mb
        if given is None:
            return self._files.memory_bytes() // SHARE_OF_MEMORY
        return given * MIB

    async def _add_again(self, entries: list[JournalEntry]) -> None:
        """Put entries that only the journal has into the entry log, for good."""
        logger.info("journal_entries_added_again count=%d", len(entries))
        done: asyncio.Future[None] = self._loop.create_future()
        for ledger_id, entry_id, lac, body in entries:
            self.add(self.ledgers[ledger_id], entry_id, lac, (body,), _nobody)
        self.barrier(lambda: done.set_result(None))
        await asyncio.wait((done, self.failed), return_when=asyncio.FIRST_COMPLETED)
        if self.failed.done():
            raise self.failed.result()
        await self.upkeep.checkpoint()

    async def close(self) -> None:
        """Finish what was put, checkpoint, end the threads. After a failure only the last.

        Errors: OSError, when the checkpoint fails: what was acknowledged is safe all the same.
        """
        await self._end_writer()
        try:
            if not self.failed.done():
                await self.upkeep.checkpoint()
        finally:
            self.upkeep.hold()
            await self._end(self.upkeep.thread, self._reads)
            self._reader.close()

    async def _end_writer(self) -> None:
        self._commits.stop()
        await self._loop.run_in_executor(None, self._commits.join)

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

    def was_fenced(self, ledger_id: LedgerId) -> bool:
        """Return whether a ledger was fenced before it was removed, lately."""
        return ledger_id in self._fenced_and_removed

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
        self.journal(journal_format.pack_key(state.ledger_id, master_key), _nobody)

    def fence(self, state: LedgerState) -> None:
        """Fence a ledger, at once for adds; its waiters are called when that is durable."""
        state.fenced = True
        wake(state, self._loop)
        self._keep_header(state)
        self.journal(
            journal_format.pack_fence(state.ledger_id), functools.partial(_fence_is_durable, state)
        )

    def write_lac(self, state: LedgerState, packet: bytes, durable: Callable[[], Any]) -> None:
        """Store an explicit LAC; it counts when it is durable."""

        def keep() -> None:
            state.pending -= 1
            if state.take_explicit_lac(packet):
                self._keep_header(state)
                state.lac_ms = self._clock.now_ms()
                wake(state, self._loop)
            durable()

        state.pending += 1
        self.journal(journal_format.pack_explicit_lac(state.ledger_id, packet), keep)

    def add(
        self,
        state: LedgerState,
        entry_id: EntryId,
        lac: EntryId,
        body: tuple[Buffer, ...],
        reply: Callable[[AddResponse], Any],
    ) -> None:
        """Store an entry of at most MAX_ENTRY_BYTES; the reply comes when it is durable."""
        size = sum(map(len, body))
        record_size = size + RECORD_HEAD_SIZE
        state.pending += 1
        self.metrics.pending_bytes += record_size
        self.metrics.adds_total += 1
        self._put((record_size, (pack_size(size), *body), state, entry_id, lac, reply))

    def journal(self, record: bytes, durable: Callable[[], Any]) -> None:
        """Write a record to the journal; `durable` is called when all put so far is on disk."""
        self._put((0, (record,), None, 0, 0, durable))

    def barrier(self, durable: Callable[[], Any]) -> None:
        """Call `durable` when all put so far is on disk."""
        self._put((0, (), None, 0, 0, durable))

    def _keep_header(self, state: LedgerState) -> None:
        state.header_unsaved = True
        self.upkeep.dirty.add(state)

    def _on_group(self, group: CommittedGroup) -> None:
        """Publish a durable group. Cost: about 1 us an entry besides its reply."""
        if self.failed.done():
            return
        if group.size and group.start.file_id != self._log_id:
            self.upkeep.note_roll()
            self._log_id = group.start.file_id
        location = pack_location(*group.start) + RECORD_HEAD_SIZE
        for item in group.items:
            at, location = location, location + item[0]
            try:
                if item[2] is None:
                    item[5]()
                    continue
                self._publish(item, at)
                item[5](AddResponse(EOK, item[2].ledger_id, item[3]))
            except Exception:
                # One entry or reply must not cost the others of the group theirs: it is not
                # acknowledged, and their locations do not depend on it.
                logger.exception("reply_failed entry=%d", item[3])
        metrics = self.metrics
        metrics.groups_total += 1
        metrics.add_bytes_total += group.size
        metrics.pending_bytes -= group.size
        self.upkeep.note_group(group)

    def _publish(self, item: Item, location: int) -> None:
        size, _, state, entry_id, lac, _ = item
        assert state is not None, "an entry has its ledger"
        state.unsaved.put(entry_id, location)
        state.pending -= 1
        state.log_bytes += size
        self.upkeep.dirty.add(state)
        if entry_id > state.last_entry:
            state.last_entry = entry_id
        if lac > state.lac:
            self._move_lac(state, lac)

    def _move_lac(self, state: LedgerState, lac: EntryId) -> None:
        state.lac = lac
        state.lac_ms = self._clock.now_ms()
        if state.waiters:
            wake(state, self._loop)

    # Reads

    def load(
        self, ledger_id: LedgerId, then: Callable[[LedgerState | Exception | None], None]
    ) -> None:
        """Find a ledger that is not in memory; `then` gets None if this bookie has none such."""

        def keep(result: LedgerState | Exception | None) -> None:
            if isinstance(result, LedgerState):
                result.generation = self.upkeep.generation
                result = self.ledgers.setdefault(ledger_id, result)
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

    def list_entries(
        self, state: LedgerState, then: Callable[[list[EntryId] | Exception], None]
    ) -> None:
        """Find the ids of all durable entries of a ledger, sorted."""
        recent = set(state.unsaved.entry_ids())
        if state.saving is not None:
            recent.update(state.saving.entry_ids())

        def work() -> list[EntryId]:
            return sorted(recent.union(self.indexes.entry_ids(state.ledger_id)))

        self._reads.submit(work, then)

    # Removal

    def forget_ledger(self, ledger_id: LedgerId) -> None:
        """Drop a ledger whose metadata is gone; its entries go with their entry logs."""
        state = self.ledgers.pop(ledger_id, None)
        if state is not None:
            self.upkeep.dirty.discard(state)
            if state.fenced:
                self._fenced_and_removed[ledger_id] = None
                if len(self._fenced_and_removed) > FENCED_AND_REMOVED_MAX:
                    del self._fenced_and_removed[next(iter(self._fenced_and_removed))]
            wake(state, self._loop)
        self.metrics.ledgers_removed_total += 1

    def forget_log(self, log_id: int) -> None:
        """Let go of an entry log that was removed."""
        self.metrics.entry_logs_removed_total += 1
        self._reads.submit(functools.partial(self._reader.forget_log, log_id), _nobody)

    def space(self, then: Callable[[Space | Exception], None]) -> None:
        """Find the room of the ledger directory's file system."""
        self._reads.submit(functools.partial(self._files.space, self.dirs.all[0]), then)


def _nobody(*_: object) -> None:
    """Do nothing: nobody waits for this."""


def wake(state: LedgerState, loop: asyncio.AbstractEventLoop) -> None:
    """Call everybody who waits for this ledger's LAC, soon."""
    waiters, state.waiters = state.waiters, []
    for waiter in waiters:
        loop.call_soon(waiter)


def _fence_is_durable(state: LedgerState) -> None:
    state.fence_durable = True
    waiters, state.fence_waiters = state.fence_waiters, []
    for waiter in waiters:
        waiter()
