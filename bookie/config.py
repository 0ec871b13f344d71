"""Settings of a bookie, by BookKeeper's property names. Built once; see core.runtime.config."""

from dataclasses import dataclass, field
from pathlib import Path

from tailrace.bookie.compaction_rules import GcConfig
from tailrace.bookie.disk_watch import DiskRules
from tailrace.bookie.entry_log_format import HEADER_SIZE, POSITION_MAX
from tailrace.bookie.group_format import GROUP_BYTES_MAX
from tailrace.bookie.scrub import ScrubConfig
from tailrace.bookie.security_config import BookieSecurity
from tailrace.core.metadata.network_location import NetworkLocation, parse_location
from tailrace.core.runtime.config import setting
from tailrace.core.security.http_port import HttpTlsConfig
from tailrace.protocol.bookkeeper.entry import (
    FRAME_BYTES_LIMIT,
    FRAME_OVERHEAD_BYTES,
    MAX_FRAME_BYTES,
)

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskConfig:
    """When a bookie stops taking entries because its disks are full."""

    full: float = setting(
        "diskUsageThreshold",
        0.95,
        "A ledger directory whose disk is used above this share is full: the bookie becomes "
        "read-only, and says why.",
    )
    warn: float = setting("diskUsageWarnThreshold", 0.90, "Above this share a line is logged.")
    low_water: float | None = setting(
        "diskUsageLwmThreshold",
        None,
        "Below this share a full directory is used again. Default: diskUsageThreshold.",
    )
    check_interval_ms: int = setting(
        "diskCheckInterval", 10_000, "How often the room on the disks is looked at. Unit: ms."
    )
    on_any_full: bool = setting(
        "readOnlyModeOnAnyDiskFullEnabled",
        True,
        "One full ledger directory makes the bookie read-only; else all of them must be full.",
    )
    high_priority_bytes: int | None = setting(
        "minUsableSizeForHighPriorityWrites",
        None,
        "Room that a read-only bookie must have to take recovery's and re-replication's adds. "
        "Unit: bytes. Default: logSizeLimit.",
    )
    forced: bool = setting(
        "forceReadOnlyBookie", False, "Take no entries whatever room there is: for maintenance."
    )

    def rules(self, log_size_limit: int) -> DiskRules:
        """Return the rules in force. Errors: ValueError where they contradict each other."""
        high = self.high_priority_bytes
        return DiskRules(
            full=self.full,
            warn=self.warn,
            low_water=self.full if self.low_water is None else self.low_water,
            on_any_full=self.on_any_full,
            high_priority_bytes=log_size_limit if high is None else high,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """Health, metrics and administration over HTTP."""

    enabled: bool = setting(
        "httpServerEnabled",
        False,
        "Answer /health, /metrics and BookKeeper's admin paths over HTTP; who may is a matter of "
        "httpServerTrustStorePath: without it, whoever reaches the port.",
    )
    host: str = setting("httpServerHost", "127.0.0.1", "Address of the HTTP port.")
    port: int = setting("httpServerPort", 8080, "The HTTP port; 0 picks one.")
    tls: HttpTlsConfig = field(default_factory=HttpTlsConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieConfig:
    """One bookie."""

    journal_directories: tuple[Path, ...] = setting(
        "journalDirectories",
        (Path("tailrace-data/bookie/journal"),),
        "Directories of the journals: master keys, fences, explicit LACs (and entries, if "
        "journalWriteData: a ledger's go to the directory ledger id mod their number). The order "
        "matters: to change the list, stop cleanly first.",
    )
    ledger_directories: tuple[Path, ...] = setting(
        "ledgerDirectories",
        (Path("tailrace-data/bookie/ledgers"),),
        "Directories of entry logs and index files; new files go to those with room, in turn.",
    )
    bookie_id: str = setting("bookieId", "", "Id in ledger metadata. Default: host:port.")
    host: str = setting("listeningInterface", "127.0.0.1", "Address to listen on.")
    port: int = setting("bookiePort", 3181, "Port to listen on; 0 picks one.")
    advertised_host: str = setting("advertisedAddress", "", "Host for clients. Default: host.")
    network_location: str = setting(
        "networkLocation",
        "",
        "Where it stands, as /region/rack: clients that place copies by racks or regions, or read "
        "near ones first, hear it from its registration. Default: it does not say.",
    )
    journal_write_data: bool = setting(
        "journalWriteData",
        False,
        "Write entries to the journal too and sync only that. Costs a second write of every byte "
        "(34-47 % of the throughput on one disk); useful with the journal on a disk of its own.",
    )
    journal_max_size_mb: int = setting("journalMaxSizeMB", 64, "A journal file rolls at this size.")
    preallocate_mb: int = setting(
        "journalPreAllocSizeMB",
        16,
        "Journal and entry log reserve room in steps of this size. 0: for each group as it comes.",
    )
    page_cache_mb: int | None = setting(
        "entryLogPageCacheMB",
        None,
        "How much of the newest entries stays in the system's page cache; older pages are given "
        "back, and whoever reads them reads from disk. -1 leaves it to the system. Unit: MiB. "
        "Default: an eighth of the memory that the process may use, at most 1024.",
    )
    log_size_limit: int = setting(
        "logSizeLimit", 1024 * MIB, "An entry log rolls at this size. Unit: bytes."
    )
    group_bytes_max: int = setting(
        "journalBufferedWritesThreshold",
        4 * MIB,
        "One sync covers all that waits, up to this much. Unit: bytes.",
    )
    flush_when_queue_empty: bool = setting(
        "journalFlushWhenQueueEmpty",
        True,
        "Write and sync what waits as soon as the disk is free. If false, it waits for company, by "
        "journalMaxGroupWaitMSec and the two thresholds.",
    )
    group_wait_ms: int = setting(
        "journalMaxGroupWaitMSec",
        2,
        "How long an add waits for company, without journalFlushWhenQueueEmpty. Unit: ms.",
    )
    group_entries_max: int = setting(
        "journalBufferedEntriesThreshold",
        0,
        "So many waiting adds end the wait, without journalFlushWhenQueueEmpty. 0: no such limit.",
    )
    journal_backups_max: int = setting(
        "journalMaxBackups",
        5,
        "Journal files kept in each directory beyond those that a replay would need.",
    )
    memtable_bytes_max: int = setting(
        "skipListSizeLimit",
        64 * MIB,
        "With journalWriteData: entries kept in memory until they are flushed, sorted, to the "
        "entry log. Twice this much is held while a flush runs; then adds wait, and are refused "
        "when journalMaxMemorySizeMb of them do. Unit: bytes.",
    )
    flush_entry_log_bytes: int = setting(
        "flushEntrylogBytes",
        256 * MIB,
        "A checkpoint follows this much of new entries: bounds memory and the scan at start. "
        "Unit: bytes.",
    )
    flush_interval_ms: int = setting(
        "flushInterval", 60_000, "A checkpoint follows new entries after this time. Unit: ms."
    )
    pending_bytes_max: int = setting(
        "journalMaxMemorySizeMb",
        64,
        "Adds that wait for their sync; above it they are refused (ETOOMANYREQUESTS). Unit: MiB.",
    )
    pending_reads_max: int = setting(
        "maxPendingReadRequestsPerThread", 10_000, "Reads that wait; above it they are refused."
    )
    frame_bytes_max: int = setting(
        "nettyMaxFrameSizeBytes",
        FRAME_BYTES_LIMIT,
        "A longer frame ends its connection. Clients hear of it in the bookie's registration and "
        "send larger entries than 5 MiB, BookKeeper's default, only where it allows them.",
    )
    batch_read_bytes_max: int = setting(
        "maxBatchReadSize", MAX_FRAME_BYTES, "An answer to a batch read. Unit: bytes."
    )
    cached_ledgers_max: int = setting(
        "openLedgerLimit", 20_000, "Ledgers whose state is kept in memory when nothing is unsaved."
    )
    open_file_limit: int = setting("openFileLimit", 512, "Files kept open for reading.")
    cached_index_pages_max: int = setting(
        "pageLimit", 1024, "Pages of index files kept in memory, 8 KiB each."
    )
    long_polls_max: int = setting(
        "maxLongPolls", 1_000, "Reads that wait for a LAC; above it they are refused."
    )
    ledgers_root: str = setting("zkLedgersRootPath", "/ledgers", "Root in the metadata store.")
    gc: GcConfig = field(default_factory=GcConfig)
    disks: DiskConfig = field(default_factory=DiskConfig)
    scrub: ScrubConfig = field(default_factory=ScrubConfig)
    http: HttpConfig = field(default_factory=HttpConfig)
    security: BookieSecurity = field(default_factory=BookieSecurity)

    def __post_init__(self) -> None:
        for name, paths in (
            ("journalDirectories", self.journal_directories),
            ("ledgerDirectories", self.ledger_directories),
        ):
            if not paths or len(set(paths)) < len(paths):
                raise ValueError(f"{name} must name at least one directory, and none twice")
        if not HEADER_SIZE < self.log_size_limit <= POSITION_MAX - GROUP_BYTES_MAX:
            raise ValueError("logSizeLimit must be in 1025..2^31-1 less 83 MiB")
        if not 0 < self.group_bytes_max <= (GROUP_BYTES_MAX - FRAME_BYTES_LIMIT) // 2:
            raise ValueError("journalBufferedWritesThreshold must be in 1..5.5 MiB")
        if self.pending_bytes_max * MIB < MAX_FRAME_BYTES:
            raise ValueError("journalMaxMemorySizeMb must hold one frame of 5 MiB")
        if self.frame_bytes_max > FRAME_BYTES_LIMIT:
            raise ValueError(f"nettyMaxFrameSizeBytes is at most {FRAME_BYTES_LIMIT}")
        if self.batch_read_bytes_max > MAX_FRAME_BYTES:
            raise ValueError(f"maxBatchReadSize is at most {MAX_FRAME_BYTES}")
        self.disks.rules(self.log_size_limit)
        self.location()

    def location(self) -> NetworkLocation | None:
        """Return where it stands, if that is set. Errors: ValueError for what is no path."""
        return parse_location(self.network_location) if self.network_location else None

    @property
    def entry_bytes_max(self) -> int:
        """The largest body of an entry that is taken."""
        return self.frame_bytes_max - FRAME_OVERHEAD_BYTES

    @property
    def identity(self) -> str:
        """Return the bookie id: the one given, else where clients find it."""
        return self.bookie_id or f"{self.advertised_host or self.host}:{self.port}"
