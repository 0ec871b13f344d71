"""Settings of log streams, and what a record may weigh."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.durability import durability_problem
from tailrace.core.runtime.config import setting
from tailrace.protocol.bookkeeper.entry import ENTRY_BYTES_LIMIT, MAX_ENTRY_BYTES
from tailrace.protocol.distributedlog.envelope import ENVELOPE_SIZE, EnvelopeCodec
from tailrace.protocol.distributedlog.record import HEADER_SIZE, MAX_LOGRECORDSET_SIZE

_BOOKKEEPER_HEADER_MAX: Final = 100
"""Above BookKeeper's entry header (32 bytes) and its largest digest (20)."""

_AROUND_RECORD: Final = _BOOKKEEPER_HEADER_MAX + ENVELOPE_SIZE + HEADER_SIZE
"""What an entry has beside the payload of its only record."""

RECORD_BYTES_MAX: Final = MAX_ENTRY_BYTES - _AROUND_RECORD
"""Largest payload of one record in any ledger: what one frame to any bookie carries.

DistributedLog's own writer stops at 1,040,384 bytes (DESIGN.md).
"""

RECORD_BYTES_LIMIT: Final = ENTRY_BYTES_LIMIT - _AROUND_RECORD
"""Largest payload of one record in a ledger that asks for bookies with large frames."""

REGION_ID_MAX: Final = 15

ENTRY_RECORDS_BYTES_MAX: Final = MAX_LOGRECORDSET_SIZE - ENVELOPE_SIZE
"""Records (with headers) that are packed together; a larger record has an entry of its own."""


def entry_bytes_for(record_bytes: int) -> int:
    """Return how large the entries of a ledger must be allowed to be for such a record."""
    return max(record_bytes + _AROUND_RECORD, MAX_ENTRY_BYTES)


def record_bytes_in(entry_bytes: int) -> int:
    """Return the largest record that fits into entries of this size."""
    return entry_bytes - _AROUND_RECORD


_NOT_NEGATIVE: Final = (
    "add_quorum_timeout_ms",
    "cold_retention_hours",
    "control_flush_ms",
    "delete_delay_ms",
    "immediate_flush_delay_ms",
    "keep_alive_ms",
    "retention_hours",
    "rolls_per_minute",
    "segment_bytes",
    "segment_minutes",
    "transmit_buffer_bytes",
)

_POSITIVE: Final = (
    "allocator_pool_size",
    "first_lssn",
    "lac_poll_ms",
    "lock_reacquire_timeout_s",
    "read_ahead_bytes",
    "read_ahead_entries",
    "read_cache_bytes",
    "reader_idle_error_ms",
    "reader_idle_warn_ms",
    "transmit_interval_ms",
    "unacked_bytes_max",
    "unacked_entries_max",
)


class TransmitMode(StrEnum):
    """When waiting records are sent."""

    IMMEDIATE = "immediate"
    """What arrives in one turn of the loop goes together, at once."""
    PERIODIC = "periodic"
    """Every `transmit_interval_ms`."""
    BUFFERED = "buffered"
    """When more than `transmit_buffer_bytes` wait, or after `transmit_interval_ms`."""


class CompressionType(StrEnum):
    """How the records of an entry are stored."""

    NONE = "none"
    LZ4 = "lz4"

    @property
    def codec(self) -> EnvelopeCodec:
        """The codec of envelopes and record sets."""
        return EnvelopeCodec.LZ4 if self is CompressionType.LZ4 else EnvelopeCodec.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Log streams. Names of settings are DistributedLog's where it has them."""

    ensemble_size: int = setting(
        "bkcEnsembleSize", 1, "Bookies that a log segment is spread over; at least the write quorum"
    )
    write_quorum: int = setting("bkcWriteQuorumSize", 1, "Copies of each entry")
    ack_quorum: int = setting(
        "bkcAckQuorumSize",
        1,
        "Copies on disk before an entry is confirmed; at most the write quorum",
    )
    delay_ensemble_change: bool = setting(
        "bkc.delayEnsembleChange",
        False,
        "Replace a failed bookie only when entries could not be confirmed otherwise",
    )
    opportunistic_striping: bool = setting(
        "bkc.opportunisticStriping",
        False,
        "Take a smaller ensemble, down to the write quorum, while there are too few bookies",
    )
    add_quorum_timeout_ms: int = setting(
        "log.add.entry.quorum.timeout.ms",
        0,
        "Time in which an entry must be confirmed, or its log is given up, in ms; 0: no limit",
    )
    segment_bytes: int = setting(
        "maxLogSegmentBytes", 256 * 1024 * 1024, "Size at which a log segment is rolled; 0: never"
    )
    segment_minutes: int = setting(
        "logSegmentRollingMinutes", 120, "Age at which it is rolled, in minutes; 0: never"
    )
    rolls_per_minute: int = setting(
        "logSegmentRollingConcurrency",
        0,
        "Log segments of a namespace that this process may roll in a minute; the others grow on."
        " 0: no limit",
    )
    transmit_policy: TransmitMode | None = setting(
        "log.transmit.policy",
        None,
        "When appended records are sent to bookies: immediate, periodic or buffered. Unset:"
        " immediate if writerOutputBufferSize is 0, else buffered for half of"
        " periodicFlushFrequencyMilliSeconds at most, as DistributedLog does",
    )
    transmit_interval_ms: int = setting(
        "log.transmit.interval.ms", 10, "Longest wait of a record with periodic and buffered, in ms"
    )
    transmit_buffer_bytes: int = setting(
        "writerOutputBufferSize",
        0,
        "Bytes that may wait with buffered; more are sent. 0: nothing waits",
    )
    compression: CompressionType = setting(
        "compressionType", CompressionType.NONE, "Compression of entries: none or lz4"
    )
    unacked_entries_max: int = setting(
        "log.unacked.entries.max",
        64,
        "Entries in flight per log; further records wait and are packed",
    )
    unacked_bytes_max: int = setting(
        "log.unacked.bytes.max", 16 * 1024 * 1024, "Bytes in flight per log; further records wait"
    )
    waiting_bytes_max: int = setting(
        "log.waiting.bytes.max",
        64 * 1024 * 1024,
        "Bytes that may wait per log; beyond it appends are refused",
    )
    record_bytes_max: int = setting(
        "log.record.bytes.max",
        RECORD_BYTES_MAX,
        "Largest record; Java's writer stops at 1040364 bytes, its reader does not. Above"
        f" {RECORD_BYTES_MAX} segments are written to bookies only whose nettyMaxFrameSizeBytes"
        " is as large. A topic's max.message.bytes raises it for its logs",
    )
    control_flush_ms: int = setting(
        "periodicFlushFrequencyMilliSeconds",
        100,
        "Quiet time after which a control record shows the last records to others, in ms; 0: never",
    )
    immediate_flush: bool = setting(
        "enableImmediateFlush",
        False,
        "Write that control record at once when everything sent is confirmed and nothing follows",
    )
    immediate_flush_delay_ms: int = setting(
        "minimumDelayBetweenImmediateFlushMilliSeconds",
        0,
        "Shortest time between two control records of enableImmediateFlush, in ms",
    )
    keep_alive_ms: int = setting(
        "periodicKeepAliveMilliSeconds",
        0,
        "Time without any entry after which a control record shows readers that the writer lives,"
        " in ms; 0: never",
    )
    outstanding_writes_max: int = setting(
        "perWriterOutstandingWriteLimit",
        -1,
        "Records of a log that may be unconfirmed; further appends are refused. -1: no limit",
    )
    outstanding_writes_of_all_max: int = setting(
        "globalOutstandingWriteLimit", -1, "The same for all logs of a namespace together"
    )
    outstanding_writes_dark: bool = setting(
        "outstandingWriteLimitDarkmode",
        True,
        "Only count appends above the two limits of outstanding writes, refuse none",
    )
    read_ahead_entries: int = setting(
        "readAheadMaxRecords", 256, "Entries that a reader holds or requests ahead of its caller"
    )
    read_ahead_bytes: int = setting(
        "log.read.ahead.bytes", 16 * 1024 * 1024, "Bytes that a reader holds ahead of its caller"
    )
    lac_poll_ms: int = setting(
        "readLACLongPollTimeout",
        1000,
        "How long bookies let a reader wait for records of another process before they answer"
        " that there are none, in ms",
    )
    client_id: str = setting(
        "log.client.id", "tailrace", "Name of this process in the locks of the logs that it writes"
    )
    client_id_is_exclusive: bool = setting(
        "log.client.id.exclusive",
        False,
        "Claim a log at once that a former process of the same log.client.id owned. Only where"
        " nothing else can run under that name; a broker's registration sees to it",
    )
    lock_timeout_s: int = setting(
        "lockTimeoutSeconds",
        30,
        "How long to wait for a log that another process owns; 0: not at all, negative: for ever",
    )
    lock_reacquire_timeout_s: int = setting(
        "lockReacquireTimeoutSeconds",
        120,
        "How long an owner whose session ended waits for the answer whether the log is still its"
        " own, before it asks again",
    )

    read_cache_bytes: int = setting(
        "log.read.cache.bytes",
        128 * 1024 * 1024,
        "Bytes that all readers of a process together hold ahead of their callers and for each"
        " other; beyond it they read no more than they are asked for",
    )
    reader_idle_warn_ms: int = setting(
        "readerIdleWarnThresholdMillis",
        120_000,
        "After so long without an entry a reader looks for new log segments by itself, in ms",
    )
    reader_idle_error_ms: int = setting(
        "readerIdleErrorThresholdMillis",
        2**31 - 1,
        "After so long without an entry a reader fails, in ms; 2147483647: never",
    )
    detects_position_gaps: bool = setting(
        "positionGapDetectionEnabled",
        False,
        "Fail a reader when the positions of the records say that one is missing; else it is"
        " counted and logged",
    )
    ignores_truncation: bool = setting(
        "ignoreTruncationStatus", False, "Read what was truncated and is not deleted yet, too"
    )
    alerts_on_truncated: bool = setting(
        "alertPositionOnTruncated",
        True,
        "Log it when a reader is opened at a position that was truncated",
    )
    skips_broken_entries: bool = setting(
        "readAheadSkipBrokenEntries",
        False,
        "Let readers go on behind an entry that no bookie has intact, and count it",
    )
    expands_record_sets: bool = setting(
        "deserializeRecordSetOnReads",
        True,
        "Give readers the records of a record set one by one, not the set as one record",
    )

    retention_hours: int = setting(
        "logSegmentRetentionHours",
        0,
        "Age, counted from its completion, at which a log segment is deleted by its log's writer;"
        " 0: never. Topics have retention.ms instead",
    )
    only_truncated_expires: bool = setting(
        "explicitTruncationByApp",
        False,
        "Delete only segments that were truncated when they reach that age",
    )
    delete_delay_ms: int = setting(
        "log.segment.delete.delay.ms",
        60_000,
        "Time between the end of a log segment in the metadata and the deletion of its ledger, or"
        " of its object in cold storage, for readers that are still inside, in ms",
    )
    cold_storage: bool = setting(
        "log.cold.storage.enable",
        False,
        "Copy completed log segments to cold storage, and delete none from the bookies that is not"
        " there; needs cold.storage.url. Topics have remote.storage.enable instead",
    )
    cold_retention_hours: int = setting(
        "log.cold.retention.hours",
        0,
        "Age, counted from its completion, at which a log segment is deleted from cold storage as"
        " well; 0: never",
    )

    creates_logs: bool = setting(
        "createStreamIfNotExists",
        False,
        "Make a log that is opened and is not there. DistributedLog's default is true; the logs of"
        " topics are made with their topics",
    )
    first_lssn: int = setting(
        "firstLogsegmentSequenceNumber",
        1,
        "Number of the first log segment of a log; a number in the namespace's binding wins",
    )
    encodes_region: bool = setting(
        "encodeRegionIDInVersion",
        False,
        "Write log.region.id into the metadata of log segments; the namespace's binding wins",
    )
    region_id: int = setting("log.region.id", 0, "Number of this process' region, 0 to 15")
    uses_allocator_pool: bool = setting(
        "enableLedgerAllocatorPool",
        False,
        "Take ledgers from a pool of allocators that all logs of this process share",
    )
    allocator_pool_path: str = setting(
        "ledgerAllocatorPoolPath",
        ".allocation_pool",
        "Where pools of allocators lie in the namespace; begins with a dot",
    )
    allocator_pool_name: str = setting(
        "ledgerAllocatorPoolName",
        "",
        "Name of this process' own pool; no other process may use it at the same time",
    )
    allocator_pool_size: int = setting(
        "ledgerAllocatorPoolCoreSize", 20, "Allocators of a pool: log segments begun at once"
    )
    regions_min: int | None = setting(
        "log.min.regions.for.durability",
        None,
        "Regions that hold every acknowledged record, whatever ensemblePlacementPolicy says; 0, 1:"
        " no promise. Default: the ledger client's reppMinimumRegionsForDurability",
    )

    def __post_init__(self) -> None:
        for least, names in ((0, _NOT_NEGATIVE), (1, _POSITIVE)):
            for name in names:
                if getattr(self, name) < least:
                    key = self.__dataclass_fields__[name].metadata["key"]
                    raise ValueError(f"{key} must be at least {least}")
        self._check_writer()
        self._check_places()

    def ledger_config(self) -> LedgerConfig:
        """Return how the ledgers of a log with these settings are made."""
        return LedgerConfig(
            ensemble_size=self.ensemble_size,
            write_quorum=self.write_quorum,
            ack_quorum=self.ack_quorum,
            delay_ensemble_change=self.delay_ensemble_change,
            opportunistic_striping=self.opportunistic_striping,
            add_entry_quorum_timeout_ms=self.add_quorum_timeout_ms,
            regions_min=self.regions_min,
            entry_bytes_max=entry_bytes_for(self.record_bytes_max),
        )

    def _check_writer(self) -> None:
        if not self.ensemble_size >= self.write_quorum >= self.ack_quorum >= 1:
            raise ValueError("bkcEnsembleSize >= bkcWriteQuorumSize >= bkcAckQuorumSize >= 1")
        problem = durability_problem(self.write_quorum, self.ack_quorum, self.regions_min or 0)
        if problem is not None:
            raise ValueError(f"log.min.regions.for.durability: {problem}")
        if not 1 <= self.record_bytes_max <= RECORD_BYTES_LIMIT:
            raise ValueError(f"log.record.bytes.max must be 1..{RECORD_BYTES_LIMIT}")
        if self.waiting_bytes_max < self.record_bytes_max:
            raise ValueError("log.waiting.bytes.max must hold one record of log.record.bytes.max")
        if self.transmit_policy is TransmitMode.BUFFERED and not self.transmit_buffer_bytes:
            raise ValueError("log.transmit.policy=buffered needs writerOutputBufferSize above 0")

        if 0 in (self.outstanding_writes_max, self.outstanding_writes_of_all_max):
            raise ValueError("limits of outstanding writes must be -1 or above 0")

    def _check_places(self) -> None:
        if not 0 <= self.region_id <= REGION_ID_MAX:
            raise ValueError(f"log.region.id must be 0..{REGION_ID_MAX}")
        if self.uses_allocator_pool and "/" in (self.allocator_pool_name or "/"):
            raise ValueError("enableLedgerAllocatorPool needs ledgerAllocatorPoolName, without '/'")
        if not self.allocator_pool_path.startswith(".") or "/" in self.allocator_pool_path:
            raise ValueError("ledgerAllocatorPoolPath must begin with '.' and have no '/'")
