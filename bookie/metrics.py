"""What a bookie counts. Plain numbers: whoever exports them reads them when asked."""

from dataclasses import dataclass


@dataclass(slots=True)
class BookieMetrics:
    """Counters and gauges of one bookie; `_total` ones only rise."""

    adds_total: int = 0
    add_bytes_total: int = 0
    adds_refused_total: int = 0
    """Adds refused because too much waited (ETOOMANYREQUESTS)."""
    groups_total: int = 0
    """Group commits: syncs of the hot path."""
    reads_total: int = 0
    reads_refused_total: int = 0
    reads_damaged_total: int = 0
    """Reads that found something else than what the index promised."""
    pending_bytes: int = 0
    pending_reads: int = 0
    long_polls: int = 0
    checkpoints_total: int = 0
    ledgers_open: int = 0
    ledgers_removed_total: int = 0
    entry_logs_removed_total: int = 0
