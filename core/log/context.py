"""What all logs of a namespace share: the stores below them, their settings and their numbers."""

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from tailrace.core.ledger.client import LedgerClient
from tailrace.core.log.allocation import Allocator, LedgerAllocator
from tailrace.core.log.allocation_node import AllocationNode
from tailrace.core.log.allocator_pool import AllocatorPool
from tailrace.core.log.cold.store import ColdStore
from tailrace.core.log.config import LogConfig
from tailrace.core.log.entry_cache import EntryCache
from tailrace.core.log.rolling import RollPermits
from tailrace.core.log.write_limits import OutstandingWrites
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.metrics import counter, gauge


@dataclass(slots=True)
class LogMetrics:
    """Numbers of all logs of one namespace in this process."""

    writers: int = gauge("logs that this process writes")
    records_total: int = counter("records sent to bookies")
    record_bytes_total: int = counter("bytes of these records, with their headers")
    entries_total: int = counter("entries that these records were packed into")
    control_records_total: int = counter("control records: snapshots, indexes, and for the LAC")
    segments_started_total: int = counter("log segments begun")
    segments_completed_total: int = counter("log segments completed by their writer")
    segments_recovered_total: int = counter("log segments recovered at open")
    lock_wait_ms: int = gauge("ms that the last opening of a log waited for its lock")
    ledger_recovery_ms: int = gauge("ms that fencing and recovering ledgers took, the last time")
    take_over_ms: int = gauge("ms from the lock to the writer at the last opening")
    rolls_given_up_total: int = counter("rolls without a ledger; the old segment went on")
    roll_retries_total: int = counter("steps of rolls tried again, the metadata store being away")
    refused_appends_total: int = counter(
        "appends refused because too much waited, or there was no ledger for the first segment"
    )
    write_limit_exceeded_total: int = counter("appends above the limits of outstanding writes")
    failed_writers_total: int = counter("log writers that failed")
    replayed_records_total: int = counter("records read to restore an owner's state")
    broken_entries_skipped_total: int = counter("entries that readers left out, unreadable")
    position_gaps_total: int = counter("places where a reader missed records, by their positions")
    idle_readers_total: int = counter("times that a reader heard nothing for suspiciously long")


class NamespaceLimits(NamedTuple):
    """What all writers of a namespace in this process may do together."""

    writes: OutstandingWrites
    rolls: RollPermits

    @staticmethod
    def of(config: LogConfig) -> "NamespaceLimits":
        """Return the limits that the settings name, unused."""
        return NamespaceLimits(
            OutstandingWrites(config.outstanding_writes_of_all_max),
            RollPermits(config.rolls_per_minute),
        )


class LogContext(NamedTuple):
    """The surroundings of a log."""

    store: MetadataStore
    ledgers: LedgerClient
    config: LogConfig
    clock: Clock
    metrics: LogMetrics
    entries: EntryCache
    """What all readers of these logs hold."""
    limits: NamespaceLimits
    cold: ColdStore | None = None
    """Where completed segments may be besides on bookies."""
    pool: AllocatorPool | None = None
    """Where all logs get their ledgers; None: each makes its own."""
    rng: Random = Random()

    def allocator(self, node: AllocationNode) -> Allocator:
        """Return who makes a log's ledgers; `node`: the log's own."""
        if self.pool is not None:
            return self.pool.allocator(self.config)
        return LedgerAllocator(node, self.ledgers, self.config)
