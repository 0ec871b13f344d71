"""What a bookie counts."""

from dataclasses import dataclass

from tailrace.core.runtime.metrics import counter, gauge


@dataclass(slots=True)
class BookieMetrics:
    """Numbers of one bookie."""

    adds_total: int = counter("adds that were accepted")
    add_bytes_total: int = counter("bytes of entries made durable, with their size fields")
    adds_refused_total: int = counter("adds refused because too much waited")
    groups_total: int = counter("group commits")
    reads_total: int = counter("entries looked for")
    reads_refused_total: int = counter("reads refused because too many waited")
    reads_damaged_total: int = counter("reads that found something else than was stored")
    reads_unjudged_total: int = counter("entries given out without a digest to verify them by")
    pending_bytes: int = gauge("bytes of adds that wait for their sync")
    pending_reads: int = gauge("reads that wait")
    long_polls: int = gauge("reads that wait for a LAC")
    ledgers_open: int = gauge("ledgers in memory")
    checkpoints_total: int = counter("checkpoints")
    ledgers_removed_total: int = counter("ledgers removed: no metadata, or it names others")
    over_replicated_total: int = counter("ledgers removed because other bookies keep them by now")
    entry_logs_removed_total: int = counter("entry logs removed because no ledger lives in them")
    compacted_logs_total: int = counter("entry logs rewritten because little in them was alive")
    compacted_bytes_total: int = counter("bytes of entries that compaction wrote again")


@dataclass(slots=True)
class DoorMetrics:
    """Numbers of a bookie that asks its clients who they are. Register them as `bookie_door`."""

    tls_connections_total: int = counter("connections that were let in over TLS")
    refusals_total: int = counter("connections that were not let in")
