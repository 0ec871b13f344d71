"""Settings of auto-recovery: the auditor's and the replication workers'."""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from tailrace.core.metadata.layout import LEDGERS_ROOT
from tailrace.core.runtime.config import AtLeastOne, NotNegative, setting

Percentage = Annotated[int, msgspec.Meta(ge=0, le=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoRecoveryConfig:
    """One process of auto-recovery. Names are BookKeeper's where it has them."""

    root: str = LEDGERS_ROOT
    """Where the cluster is in the metadata."""

    lost_bookie_recovery_delay_s: NotNegative = setting(
        "lostBookieRecoveryDelay",
        0,
        "How long one lost bookie may take to come back before its ledgers count as lacking a "
        "replica; two or more are noted at once. Only the first auditor of a cluster takes it from "
        "here: it writes it into the metadata, where operators change it. Unit: s.",
    )
    periodic_bookie_check_s: NotNegative = setting(
        "auditorPeriodicBookieCheckInterval",
        86_400,
        "How often the auditor looks for lost bookies though nothing changed; 0: only at its start."
        " Unit: s.",
    )
    periodic_check_s: NotNegative = setting(
        "auditorPeriodicCheckInterval",
        604_800,
        "How often the auditor asks bookies for the entries of all ledgers; 0: never. Unit: s.",
    )
    ledger_verification_percentage: Percentage = setting(
        "auditorLedgerVerificationPercentage",
        0,
        "Share of a fragment's entries that such a check asks for, beside the first and the last. "
        "Unit: %.",
    )
    ledger_checks_at_once: AtLeastOne = setting(
        "auditorMaxNumberOfConcurrentOpenLedgerOperations",
        100,
        "Ledgers that the auditor checks at the same time.",
    )

    open_ledger_grace_ms: NotNegative = setting(
        "openLedgerRereplicationGracePeriod",
        30_000,
        "How long a worker waits for a ledger's writer to replace a lost bookie by itself, before "
        "it fences and closes the ledger. Unit: ms.",
    )
    entry_batch_size: AtLeastOne = setting(
        "rereplicationEntryBatchSize", 10, "Entries that a worker copies at the same time."
    )
    lock_release_of_failed_ms: NotNegative = setting(
        "lockReleaseOfFailedLedgerGracePeriod",
        300_000,
        "How long a ledger that could not be copied is left alone at most; the first failures "
        "leave it for a shorter time. Unit: ms.",
    )
    replicate_backoff_ms: NotNegative = setting(
        "rwRereplicateBackoffMs",
        5_000,
        "How long a worker rests after an error that it did not expect. Unit: ms.",
    )
    replication_bytes_per_s: NotNegative = setting(
        "replicationRateByBytes", 0, "Bytes that a worker copies in a second; 0: no limit."
    )
    replication_concurrency: AtLeastOne = setting(
        "replicationLedgersAtOnce", 1, "Ledgers that this process copies at the same time."
    )
