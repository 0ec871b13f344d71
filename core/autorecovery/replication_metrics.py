"""Numbers of who copies what is missing. Register them as `replication_worker`."""

from dataclasses import dataclass

from tailrace.core.runtime.metrics import counter, gauge


@dataclass(slots=True)
class ReplicationMetrics:
    """One worker, all its ledgers."""

    ledgers_taken_total: int = counter("marked ledgers that were locked and looked at")
    ledgers_repaired_total: int = counter("marks taken away because nothing is missing any more")
    ledgers_deleted_total: int = counter("marks taken away because the ledger is gone")
    ledgers_failed_total: int = counter("ledgers set aside because something is still missing")
    ledgers_closed_total: int = counter("open ledgers closed because a member stayed away")
    locks_lost_total: int = counter("ledgers given up because the session ended under the lock")
    fragments_replaced_total: int = counter("fragments whose metadata names a new bookie")
    updates_outrun_total: int = counter("copies dropped because somebody else was faster")
    entries_copied_total: int = counter("entries written to their new bookies")
    bytes_copied_total: int = counter("bytes of these entries")
    replicas_failed_total: int = counter("reads of replicas that gave no sound entry")
    ledgers_in_hand: int = gauge("ledgers that are being looked at or copied now")
