"""Settings of ledgers and of the way to bookies."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.runtime.config import setting
from protocol.bookkeeper.digest import DigestType


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

    def __post_init__(self) -> None:
        if not self.ensemble_size >= self.write_quorum >= self.ack_quorum >= 1:
            raise ValueError(
                f"quorums E={self.ensemble_size} Qw={self.write_quorum} Qa={self.ack_quorum}"
            )
        if self.unconfirmed_entries_max < 1 or self.unconfirmed_bytes_max < 1:
            raise ValueError("a ledger needs room for one unconfirmed entry")


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieClientConfig:
    """The connection to one bookie."""

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
    unsent_bytes_max: int = setting(
        "bookieUnsentBytesMax",
        64 * 1024 * 1024,
        "Bytes that a slow bookie may leave unread here before requests fail at once.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerClientConfig:
    """What all ledgers of one client share."""

    root: str = setting("ledgersPath", "/ledgers", "Root of the ledgers in the metadata store.")
    read_window: int = setting(
        "ledgerReadWindow", 32, "Entries of one range read that are asked for at once."
    )
    recovery_read_batch: int = setting(
        "recoveryReadBatchSize",
        4,
        "Entries that recovery reads at once behind the LAC; more when they turn out to be small.",
    )
    metadata_update_attempts: int = setting(
        "ledgerMetadataUpdateAttempts",
        16,
        "Races that one metadata update may lose before it fails with MetadataConflict.",
    )
