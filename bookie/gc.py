"""Removing what no metadata names any more. Source: reference BookKeeper 5.11.

A ledger is dead when it is here and the metadata does not have it; the list of what is here is
taken first, so a ledger made meanwhile is never taken for dead. Any error in reading the metadata
removes nothing. An entry log goes when no ledger in its map lives here any more; half-empty logs
stay as they are (rewriting them is compaction, a later step).
"""

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from bookie import entry_log_format
from bookie.ledger_dirs import LedgerDirs
from bookie.storage import Storage
from core.errors import CoreError
from core.runtime.files import Files
from protocol.errors import DecodeError
from protocol.ids import LedgerId

logger = logging.getLogger(__name__)

ListLedgers = Callable[[], Awaitable[set[LedgerId]]]
"""Every ledger that has metadata. Errors: CoreError: then nothing is removed."""


class Removed(NamedTuple):
    """What a collection removed."""

    ledgers: list[LedgerId]
    entry_logs: list[int]


class GarbageCollector:
    """Collects one bookie's garbage; the upkeep thread does the blocking part."""

    def __init__(self, storage: Storage, files: Files, list_ledgers: ListLedgers) -> None:
        self._storage = storage
        self._files = files
        self._list_ledgers = list_ledgers

    async def collect(self) -> Removed:
        """Remove dead ledgers, then entry logs without a living one. Errors: OSError.

        Cancel: what was removed stays removed, the rest follows at the next collection.
        """
        storage = self._storage
        call = storage.upkeep.thread.call
        local = set(storage.ledgers) | await call(storage.indexes.ledger_ids)
        try:
            living = await self._list_ledgers()
        except CoreError as error:
            logger.warning("garbage_collection_skipped error=%s", error)
            return Removed([], [])
        dead = sorted(local - living)
        for ledger_id in dead:
            storage.forget_ledger(ledger_id)
        # Listed in one job behind all checkpoints so far: a log that is sealed by then has all its
        # ledgers either in an index file or, since before this job, in memory.
        in_memory = {int(ledger_id) for ledger_id in storage.ledgers}
        logs = await call(lambda: self._remove_indexes(dead))
        candidates = [log_id for log_id, ledgers in logs.items() if not ledgers & in_memory]
        emptied = await call(lambda: self._remove_logs(candidates))
        for log_id in emptied:
            storage.forget_log(log_id)
        if dead or emptied:
            logger.info("garbage_collected ledgers=%d entry_logs=%d", len(dead), len(emptied))
        return Removed(dead, emptied)

    def _remove_indexes(self, dead: list[LedgerId]) -> dict[int, set[int]]:
        """Remove index files; return each sealed log without a ledger that has one."""
        storage = self._storage
        for ledger_id in dead:
            storage.indexes.remove(ledger_id)
        on_disk = {int(ledger_id) for ledger_id in storage.indexes.ledger_ids()}
        logs = sealed_logs(self._files, storage.dirs)
        return {log_id: ledgers for log_id, ledgers in logs.items() if not ledgers & on_disk}

    def _remove_logs(self, log_ids: list[int]) -> list[int]:
        for log_id in log_ids:
            self._storage.dirs.remove_log(log_id)
        return log_ids


def sealed_logs(files: Files, dirs: LedgerDirs) -> dict[int, set[int]]:
    """Return log id -> ledgers in its map, of every sealed log whose map can be read. Blocks."""
    found: dict[int, set[int]] = {}
    for log_id in dirs.log_ids():
        fd = dirs.open_log(log_id)
        try:
            header = entry_log_format.read_header(
                files.read_at(fd, entry_log_format.HEADER_SIZE, 0)
            )
            if header.map_offset:
                size = files.size(fd) - header.map_offset
                data = files.read_at(fd, size, header.map_offset)
                found[log_id] = set(entry_log_format.read_ledgers_map(data, header.ledgers))
        except DecodeError as error:
            logger.warning("entry_log_kept log=%x error=%s", log_id, error)
        finally:
            files.close(fd)
    return found
