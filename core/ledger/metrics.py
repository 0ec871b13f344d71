"""Numbers of the ledger client. Register them as `ledger` and `bookie_client`."""

from dataclasses import dataclass

from tailrace.core.runtime.metrics import counter, gauge


@dataclass(slots=True)
class LedgerMetrics:
    """All ledgers of one client."""

    adds_total: int = counter("entries pushed to their write sets")
    add_bytes_total: int = counter("payload bytes of these entries")
    add_failures_total: int = counter("answers of bookies to adds that were not OK")
    add_retries_total: int = counter("adds sent again because a bookie had too many requests")
    ensemble_changes_total: int = counter("times that failed bookies were replaced")
    ensemble_changes_refused_total: int = counter("times that there was no bookie to replace with")
    explicit_lacs_total: int = counter("explicit LACs sent because a ledger was quiet")
    forces_total: int = counter("ledgers that all bookies of an ensemble were asked to sync")
    failed_writers_total: int = counter("ledgers whose writer failed for good")
    reads_total: int = counter("entries given to readers")
    speculative_reads_total: int = counter("replicas asked because another one was silent")
    long_polls_total: int = counter("waits of readers for an entry beyond the last confirmed one")
    replica_failures_total: int = counter("replicas that a read passed over")
    recoveries_total: int = counter("ledgers closed by recovery")
    recovered_entries_total: int = counter("entries that recovery added again")
    update_races_total: int = counter("metadata updates that somebody else outran")


@dataclass(slots=True)
class BookieClientMetrics:
    """All TCP connections to bookies."""

    connects_total: int = counter("connections made")
    connect_failures_total: int = counter("connections that could not be made")
    losses_total: int = counter("connections lost")
    timeouts_total: int = counter("requests without an answer in time")
    refusals_total: int = counter("requests refused here because too much was outstanding")
    batch_refusals_total: int = counter("connections that ended at the first batch read")
    outstanding: int = gauge("requests without an answer yet")
