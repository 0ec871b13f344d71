"""Settings of ledgers and of the way to bookies."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tailrace.core.ledger.durability import durability_problem
from tailrace.core.ledger.placement_config import PlacementConfig, QuarantineConfig
from tailrace.core.ledger.security_config import BookieClientSecurity
from tailrace.core.runtime.config import setting
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.bookkeeper.entry import ENTRY_BYTES_LIMIT, MAX_ENTRY_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerConfig:
    """How one new ledger is made and written. Shape: E >= Qw >= Qa >= 1."""

    ensemble_size: int = 1
    write_quorum: int = 1
    ack_quorum: int = 1
    digest: DigestType = DigestType.CRC32
    password: bytes = b""
    custom: Mapping[str, bytes] = field(default_factory=dict)
    """Free metadata, shown by tools and kept for good."""
    unconfirmed_entries_max: int = 10_000
    """Entries added and not confirmed; one more is refused with OverCapacity."""
    unconfirmed_bytes_max: int = 256 * 1024 * 1024
    """Payload added and not confirmed; once it is reached, adds are refused with OverCapacity."""

    delay_ensemble_change: bool = False
    """Replace a failed bookie only when an entry could not reach Qa otherwise, or when the bookie
    is read-only. BookKeeper: delayEnsembleChange."""
    ensemble_changes_max: int = 2**31 - 1
    """One more change fails the ledger. BookKeeper: maxNumEnsembleChanges."""
    opportunistic_striping: bool = False
    """Take a smaller ensemble, down to the write quorum, if there are too few bookies for E.
    BookKeeper: opportunisticStriping."""
    deferred_sync: bool = False
    """Bookies answer adds before they sync; `force` syncs and confirms. The first bookie that fails
    an add ends such a ledger. BookKeeper: WriteFlag.DEFERRED_SYNC."""
    explicit_lac_interval_ms: int = 0
    """Tell bookies the LAC after so long without an add; 0: never.
    BookKeeper: explicitLacInterval."""
    add_entry_quorum_timeout_ms: int = 0
    """Fail the ledger when an add waits for its ack quorum between one and one and a half times so
    long; 0: wait for the bookies' own time-outs. BookKeeper: addEntryQuorumTimeoutSec."""

    entry_bytes_max: int = MAX_ENTRY_BYTES
    """Largest body of an entry, see `entry_limit`; above what every bookie takes, only those are
    chosen whose frames are large enough (BookKeeper: nettyMaxFrameSizeBytes)."""

    regions_min: int | None = None
    """Regions that hold every acknowledged entry (0, 1: no promise); None: the client's
    reppMinimumRegionsForDurability. DistributedLog: minRegionsForDurability."""

    def __post_init__(self) -> None:
        if not self.ensemble_size >= self.write_quorum >= self.ack_quorum >= 1:
            raise ValueError(
                f"quorums E={self.ensemble_size} Qw={self.write_quorum} Qa={self.ack_quorum}"
            )
        problem = durability_problem(self.write_quorum, self.ack_quorum, self.regions_min or 0)
        if problem is not None:
            raise ValueError(problem)
        if not MAX_ENTRY_BYTES <= self.entry_bytes_max <= ENTRY_BYTES_LIMIT:
            raise ValueError(f"entries of {self.entry_bytes_max} bytes")
        if self.unconfirmed_entries_max < 1 or self.unconfirmed_bytes_max < 1:
            raise ValueError("a ledger needs room for one unconfirmed entry")
        if min(
            self.ensemble_changes_max,
            self.explicit_lac_interval_ms,
            self.add_entry_quorum_timeout_ms,
        ) < 0:  # fmt: skip
            raise ValueError("a negative number of changes, or a negative time")


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieClientConfig:
    """The way to one bookie: a connection, and one more for batch reads; limits are for each."""

    connect_timeout_ms: int = setting(
        "clientConnectTimeoutMillis", 10_000, "Time to reach a bookie. Unit: ms."
    )
    request_timeout_ms: int = setting(
        "bookieRequestTimeoutMs",
        5_000,
        "Time for a bookie's answer to a read or an add; checked every half of it. Unit: ms.",
    )
    outstanding_requests_max: int = setting(
        "bookieOutstandingRequestsMax",
        10_000,
        "Requests without an answer per bookie; the next one fails at once.",
    )
    batch_reads: bool = setting(
        "batchReadEnabled",
        True,
        "Read entries that follow each other in one answer, on a second connection, from bookies"
        " that can (BookKeeper 4.17 and ours) where the ledger is not striped.",
    )
    vanished_close_ms: int = setting(
        "bookieVanishedCloseMs",
        60_000,
        "Time after which the idle connection of a bookie that is not registered is closed, in ms.",
    )
    unsent_bytes_max: int = setting(
        "bookieUnsentBytesMax",
        64 * 1024 * 1024,
        "Bytes that a slow bookie may leave unread here before requests fail at once.",
    )
    security: BookieClientSecurity = field(default_factory=BookieClientSecurity)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConfig:
    """How entries are read from their replicas."""

    speculative_timeout_ms: int = setting(
        "speculativeReadTimeout",
        2_000,
        "Silence of a replica before the next one is asked as well, in ms; 0: never",
    )
    speculative_timeout_ms_max: int = setting(
        "maxSpeculativeReadTimeout", 5_000, "How long that may grow, in ms; below the first: not"
    )
    speculative_multiplier: float = setting(
        "speculativeReadTimeoutBackoffMultiplier", 2.0, "Growth of it with each replica asked"
    )
    long_poll_speculative_timeout_ms: int = setting(
        "firstSpeculativeReadLACTimeout",
        1_500,
        "The same for a reader that waits at the tail, in ms; 0: never",
    )
    long_poll_speculative_timeout_ms_max: int = setting(
        "maxSpeculativeReadLACTimeout", 5_000, "How long that may grow, in ms; below the first: not"
    )
    long_poll_speculative_multiplier: float = setting(
        "speculativeReadLACTimeoutBackoffMultiplier", 2.0, "Growth of it with each bookie asked"
    )
    long_poll_parallel: bool = setting(
        "longPollParallel",
        False,
        "Ask the whole ensemble at once at the tail: less delay with E > Qw, more requests",
    )
    reorder: bool = setting(
        "reorderReadSequenceEnabled",
        True,
        "Ask near replicas first, and those last that failed or were slow of late",
    )
    failure_history_ms: int = setting(
        "bookieFailureHistoryExpirationMSec",
        60_000,
        "How long a failed or slow read counts against a bookie, in ms",
    )
    sticky: bool = setting(
        "stickyReadSEnabled",
        False,
        "Read a ledger from one bookie while it works, if each has all entries (E = Qw)",
    )

    def __post_init__(self) -> None:
        if min(self.speculative_timeout_ms, self.long_poll_speculative_timeout_ms) < 0:
            raise ValueError("a speculative timeout cannot be negative")
        if min(self.speculative_multiplier, self.long_poll_speculative_multiplier) < 1:
            raise ValueError("speculative timeouts cannot shrink: multipliers are at least 1")
        if self.failure_history_ms < 0:
            raise ValueError("bookieFailureHistoryExpirationMSec cannot be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerClientConfig:
    """What all ledgers of one client share."""

    root: str = setting("ledgersPath", "/ledgers", "Root of the ledgers in the metadata store.")
    read_window: int = setting(
        "ledgerReadWindow", 32, "Entries of one range read that are asked for at once."
    )
    read: ReadConfig = field(default_factory=ReadConfig)
    placement: PlacementConfig = field(default_factory=PlacementConfig)
    quarantine: QuarantineConfig = field(default_factory=QuarantineConfig)
    recovery_read_batch: int = setting(
        "recoveryReadBatchSize",
        4,
        "Entries that recovery reads at once behind the LAC; more when they turn out to be small.",
    )
    digest_autodetection: bool = setting(
        "enableDigestTypeAutodetection",
        True,
        "Open a ledger with the digest type of its metadata, whatever the caller names.",
    )
    metadata_update_attempts: int = setting(
        "ledgerMetadataUpdateAttempts",
        16,
        "Races that one metadata update may lose before it fails with MetadataConflict.",
    )
