"""Removing what no metadata names any more. Source: reference BookKeeper 5.11.

A ledger is dead when it is here and the metadata does not have it; the list of what is here is
taken first, so a ledger made meanwhile is never taken for dead. Any error in reading the metadata
removes nothing. An entry log goes when nothing in it belongs to a ledger that lives here; one with
little that does is compacted first (log_compactor). Of a cluster's bookie, ledgers go too that
other bookies keep by now (over_replicated).
Only logs before entryLogMark are looked at: a recovery never needs them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final, NamedTuple

from tailrace.bookie.compaction_rules import (
    CompactionSchedule,
    GcConfig,
    LogUsage,
    Throttle,
    fits,
    logs_to_compact,
    usage_of,
)
from tailrace.bookie.errors import BookieError
from tailrace.bookie.log_compactor import LogCompactor
from tailrace.bookie.log_usage import LogUsages
from tailrace.bookie.over_replicated import MayGo, OverReplicated
from tailrace.bookie.storage import Storage
from tailrace.core.errors import CoreError, CorruptData
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.files import Files
from tailrace.core.runtime.forever import Forever
from tailrace.protocol.ids import LedgerId

logger = logging.getLogger(__name__)

WAIT_WITHOUT_ROOM_S: Final = 30.0
"""While adds are refused for want of room: whoever deletes something waits for it to be freed."""

ListLedgers = Callable[[], Awaitable[set[LedgerId]]]
"""Every ledger that has metadata. Errors: CoreError: then nothing is removed."""


class Removed(NamedTuple):
    """What a collection removed."""

    ledgers: list[LedgerId]
    entry_logs: list[int]


class GarbageCollector:
    """Collects one bookie's garbage; the upkeep thread does the blocking part."""

    def __init__(
        self,
        storage: Storage,
        files: Files,
        list_ledgers: ListLedgers,
        clock: Clock,
        config: GcConfig,
        is_full: Callable[[], bool],
    ) -> None:
        """`is_full`: whether adds are refused because there is no room."""
        self._is_full = is_full
        self._storage = storage
        self._list_ledgers = list_ledgers
        self._clock = clock
        self._config = config
        self._usages = LogUsages(files, storage.dirs)
        self._schedule = CompactionSchedule(config, clock.monotonic_s())
        self._compactor = LogCompactor(storage, files, clock, Throttle(config))
        self._one_at_a_time = asyncio.Lock()
        self._forever = Forever("bookie.gc", expected=(CoreError, BookieError, OSError))
        self.over_replicated: OverReplicated | None = None
        """Finds what other bookies keep by now; None: there are no others."""
        self._over_replicated_s = clock.monotonic_s()
        self._damaged: set[int] = set()
        """Logs that could not be copied whole: not tried again and again while there is no room."""

    async def run(self) -> None:
        """Collect every gcWaitTime, sooner while there is no room, until cancelled.

        A failure is logged, and tried again then.
        """
        await self._forever.run(self._collect_later)

    async def _collect_later(self) -> None:
        await self._pause()
        await self.collect()

    async def _pause(self) -> None:
        left_s = self._config.wait_ms / 1000
        while left_s > 0:
            step_s = min(left_s, WAIT_WITHOUT_ROOM_S)
            await asyncio.sleep(step_s)
            if self._is_full():
                return
            left_s -= step_s

    async def collect(self, *, force: bool = False) -> Removed:
        """Remove dead ledgers, then entry logs without a living one; compact when it is time.

        `force`: compact now, by the major threshold; so it does by itself while there is no room,
        but only what `fits`. Errors: OSError, StorageFailed. Cancel: what was removed stays
        removed, the rest follows at the next collection.
        """
        async with self._one_at_a_time:
            return await self._collect(force=force)

    async def _collect(self, *, force: bool) -> Removed:
        storage = self._storage
        call = storage.upkeep.thread.call
        local = set(storage.ledgers) | await call(storage.indexes.ledger_ids)
        try:
            living = await self._list_ledgers()
        except CoreError as error:
            logger.warning("garbage_collection_skipped error=%s", error)
            return Removed([], [])
        surplus = await self._remove_over_replicated(local & living, force=force)
        dead = sorted(local - living)
        await self._note_fenced(dead)
        for ledger_id in dead:
            storage.forget_ledger(ledger_id)
        # Looked at in one job behind all checkpoints so far: a log before the mark of then has all
        # its ledgers either in an index file or, since before this job, in memory.
        alive: set[int] = set(storage.ledgers)
        before = storage.upkeep.marked_log
        usages = await call(lambda: self._survey(dead, alive, before))
        emptied = [usage.log_id for usage in usages if not usage.live_bytes]
        await self._remove(emptied)
        compacted = await self._compact(usages, alive, force=force)
        if dead or surplus or emptied or compacted:
            logger.info(
                "garbage_collected ledgers=%d over_replicated=%d entry_logs=%d compacted=%d",
                len(dead),
                len(surplus),
                len(emptied),
                len(compacted),
            )
        return Removed(sorted(dead + surplus), sorted(emptied + compacted))

    async def _remove_over_replicated(
        self, ledgers: Collection[LedgerId], *, force: bool
    ) -> list[LedgerId]:
        """Remove what is here too many times, if it is time to look.

        A look that had errors is repeated at the next collection.
        """
        wait_s, now_s = self._config.over_replicated_wait_ms / 1000, self._clock.monotonic_s()
        is_due = force or 0 < wait_s <= now_s - self._over_replicated_s
        if self.over_replicated is None:
            return []
        try:
            if not is_due:
                await self.over_replicated.remove_left_locks()
                return []
            done = await self.over_replicated.remove(ledgers, self._give_up)
        except CoreError as error:
            logger.warning("over_replicated_ledgers_kept error=%s", error)
            return []
        if done.is_whole:
            self._over_replicated_s = now_s
        self._storage.metrics.over_replicated_total += len(done.removed)
        return done.removed

    async def _give_up(self, ledger_id: LedgerId, may_go: MayGo) -> bool:
        """Remove one ledger if it still may go; tell whether it did.

        Copies that arrive once it is forgotten are safe: a checkpoint brings them into an index
        file, and that is a job of the same thread as the removal, behind it.
        """
        storage = self._storage
        call = storage.upkeep.thread.call
        if not await self._note_fenced([ledger_id]) or not await may_go():
            return False
        storage.forget_ledger(ledger_id)  # nothing is awaited since the answer
        await call(lambda: storage.indexes.remove(ledger_id))
        return True

    async def _note_fenced(self, ledgers: Collection[LedgerId]) -> bool:
        """Remember which of these are fenced, before that goes with them.

        Returns False if only this life of the bookie will know: there is no room to write it down.
        """
        storage = self._storage
        call = storage.upkeep.thread.call
        states = {ledger_id: storage.ledgers.get(ledger_id) for ledger_id in ledgers}
        fenced = {ledger_id for ledger_id, state in states.items() if state and state.fenced}
        fenced |= set(await call(lambda: list(filter(storage.indexes.is_fenced, ledgers))))
        for ledger_id in sorted(fenced):
            storage.fenced_and_removed.add(ledger_id)
        try:
            if fenced:
                await call(storage.fenced_and_removed.save)
        except OSError as error:
            logger.warning("fences_kept_in_memory ledgers=%d error=%s", len(fenced), error)
            return False
        return True

    def _survey(self, dead: list[LedgerId], alive: set[int], before: int) -> list[LogUsage]:
        """Remove dead index files; return the usage of the logs.

        Ledgers that are on disk are added to `alive`.
        """
        storage = self._storage
        for ledger_id in dead:
            storage.indexes.remove(ledger_id)
        alive |= storage.indexes.ledger_ids()
        usages = []
        for log_id in storage.dirs.log_ids():
            ledgers = self._usages.read(log_id) if log_id < before else None
            if ledgers is not None:
                usages.append(usage_of(log_id, ledgers, alive))
        return usages

    async def _compact(
        self, usages: list[LogUsage], alive: Collection[int], *, force: bool
    ) -> list[int]:
        is_full = self._is_full()
        threshold = self._schedule.due(self._clock.monotonic_s(), force=force, is_full=is_full)
        if not threshold:
            return []
        wasted = logs_to_compact(usages, threshold)
        if is_full and not force:
            wasted = [usage for usage in wasted if usage.log_id not in self._damaged]
        compacted = []
        unfit = 0
        for usage in wasted:
            with self._forever.item(f"entry log {usage.log_id:x}"):
                if not await self._has_room(usage):
                    unfit += 1
                elif await self._compact_log(usage, alive):
                    compacted.append(usage.log_id)
        if unfit:
            logger.warning(
                "compaction_skipped logs=%d reason=there is no room, and a copy would take more"
                " than half of what is left",
                unfit,
            )
        self._schedule.done(threshold, self._clock.monotonic_s())
        return compacted

    async def _has_room(self, usage: LogUsage) -> bool:
        """Tell whether a log may be copied: without room only if little of it lives."""
        if self._config.allowed_without_room or not self._is_full():
            return True
        rooms = await self._storage.rooms()
        places = self._storage.dirs.writable() or tuple(rooms)
        return fits(usage, min(rooms[place].free_bytes for place in places))

    async def _compact_log(self, usage: LogUsage, alive: Collection[int]) -> bool:
        storage, log_id = self._storage, usage.log_id
        ledgers = await storage.upkeep.thread.call(lambda: self._usages.read(log_id))
        if ledgers is None:
            return False
        try:
            entries, size_bytes = await self._compactor.run(log_id, ledgers, alive)
            await storage.upkeep.checkpoint()
        except (CorruptData, OSError) as error:
            logger.error("entry_log_kept log=%x error=%s", log_id, error)  # noqa: TRY400
            if isinstance(error, CorruptData):
                self._damaged.add(log_id)
            return False
        await storage.call_reader(lambda _: None)  # behind reads that still look into the old log
        await self._remove([log_id])
        metrics = storage.metrics
        metrics.compacted_logs_total += 1
        metrics.compacted_bytes_total += size_bytes
        logger.info(
            "entry_log_compacted log=%x usage=%.2f entries=%d bytes=%d",
            log_id,
            usage.share,
            entries,
            size_bytes,
        )
        return True

    async def _remove(self, log_ids: list[int]) -> None:
        def remove() -> None:
            for log_id in log_ids:
                self._storage.dirs.remove_log(log_id)
                self._usages.forget(log_id)

        await self._storage.upkeep.thread.call(remove)
        for log_id in log_ids:
            self._damaged.discard(log_id)
            self._storage.forget_log(log_id)
