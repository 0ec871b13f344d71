"""Where everything lies in the metadata tree: BookKeeper's and DistributedLog's own paths.

Pure text in, text out. Source: BookKeeper AbstractZkLedgerManager, LegacyHierarchical- and
LongHierarchicalLedgerManager; DistributedLog LogMetadata, DLUtils; captured in
tests/golden/zk-layout.md.
"""

from typing import Final

from tailrace.core.errors import CorruptData
from tailrace.core.runtime.decimal_text import decimal
from tailrace.protocol.ids import BookieId, LedgerId

LEDGERS_ROOT: Final = "/ledgers"
"""BookKeeper's default root."""

NAMESPACE_ROOT: Final = "/distributedlog/tailrace"
"""Where the log streams of a standalone broker are, in its own store."""

KAFKA_CLUSTER: Final = ".tailrace"
"""Child of a namespace in ZooKeeper below which a Kafka cluster keeps what it agrees on. The dot
says that it is not a log, to Java's library too."""

LAYOUT_TEXT: Final = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
"""What `<root>/LAYOUT` holds: layout format 2, ledger manager and its version."""

SHORT_LEDGER_ID_MAX: Final = 2**31 - 2
"""Ids above have 19 digits in their path and come from the long generator."""

LEDGER_ID_MAX: Final = 2**63 - 1
DEFAULT_LOG_PARTITION: Final = "<default>"


def check_layout(data: bytes) -> None:
    """Refuse a LAYOUT that is not the hierarchical one. Errors: CorruptData names what it is.

    Nothing may be looked for, let alone removed, under another one: every ledger would be missing.
    """
    if data.strip() != LAYOUT_TEXT:
        found = data[:200].decode(errors="replace").replace("\n", " ")
        raise CorruptData(
            f"the ledgers' layout is {found!r}; only hierarchical (version 1) is known"
        )


class LedgerPaths:
    """Paths below one BookKeeper root (hierarchical ledger manager)."""

    def __init__(self, root: str = LEDGERS_ROOT) -> None:
        self.root = root
        self.layout = f"{root}/LAYOUT"
        self.instance_id = f"{root}/INSTANCEID"
        self.available = f"{root}/available"
        self.read_only = f"{root}/available/readonly"
        self.cookies = f"{root}/cookies"
        self.idgen = f"{root}/idgen"
        self.idgen_long = f"{root}/idgen-long"

    def ledger(self, ledger_id: LedgerId) -> str:
        """Return the path of a ledger's metadata: 2/4/4 digits, or 3/4/4/4/4 for long ids."""
        if not 0 <= ledger_id <= LEDGER_ID_MAX:
            raise ValueError(f"not a ledger id: {ledger_id}")
        short = ledger_id <= SHORT_LEDGER_ID_MAX
        digits = f"{ledger_id:010d}" if short else f"{ledger_id:019d}"
        head = len(digits) % 4
        parts = [digits[:head], *(digits[at : at + 4] for at in range(head, len(digits), 4))]
        parts[-1] = "L" + parts[-1]
        return "/".join((self.root, *parts))

    def ledger_id(self, path: str) -> LedgerId | None:
        """Return the id of the ledger whose metadata lies at `path`, or None for anything else."""
        if not path.startswith(self.root + "/"):
            return None
        parts = path[len(self.root) + 1 :].split("/")
        name = parts[-1]
        digits = "".join(parts[:-1]) + name[1:]
        number = decimal(digits, LEDGER_ID_MAX)
        if not name.startswith("L") or number is None or self.ledger(LedgerId(number)) != path:
            return None
        return LedgerId(number)

    def bookie(self, bookie_id: BookieId) -> str:
        """Return where a writable bookie is registered (ephemeral)."""
        return f"{self.available}/{bookie_id}"

    def read_only_bookie(self, bookie_id: BookieId) -> str:
        """Return where a read-only bookie is registered (ephemeral)."""
        return f"{self.read_only}/{bookie_id}"

    def cookie(self, bookie_id: BookieId) -> str:
        """Return where a bookie's cookie lies."""
        return f"{self.cookies}/{bookie_id}"


CHECK_ALL_LEDGERS_NAME: Final = "checkallledgersctime"


class UnderreplicationPaths:
    """Paths of what auto-recovery notes, below one BookKeeper root."""

    def __init__(self, root: str = LEDGERS_ROOT) -> None:
        self.base = f"{root}/underreplication"
        self.layout = f"{self.base}/LAYOUT"
        self.ledgers = f"{self.base}/ledgers"
        """Four levels of four hex digits, 64 bits of the ledger id; below them one mark each."""
        self.locks = f"{self.base}/locks"
        self.disable = f"{self.base}/disable"
        """While it is there, nobody audits or copies."""
        self.lost_bookie_recovery_delay = f"{self.base}/lostBookieRecoveryDelay"
        self.check_all_ledgers = f"{self.base}/{CHECK_ALL_LEDGERS_NAME}"
        self.election = f"{self.base}/auditorelection"
        """Its data names the auditor; parent of the votes."""
        self.vote_prefix = f"{self.election}/V_"

    def mark(self, ledger_id: LedgerId) -> str:
        """Return where it is noted that replicas of a ledger are missing."""
        digits = f"{ledger_id:016x}"
        parts = [digits[at : at + 4] for at in range(0, 16, 4)]
        return "/".join((self.ledgers, *parts, _mark_name(ledger_id)))

    def lock(self, ledger_id: LedgerId) -> str:
        """Return what who copies or removes replicas of a ledger holds (ephemeral)."""
        return f"{self.locks}/{_mark_name(ledger_id)}"

    def marked_ledger(self, name: str) -> LedgerId | None:
        """Return the ledger of a mark's or lock's last part, or None for anything else."""
        digits = name.removeprefix("urL")
        number = decimal(digits, LEDGER_ID_MAX)
        if digits == name or number is None or _mark_name(LedgerId(number)) != name:
            return None
        return LedgerId(number)


def _mark_name(ledger_id: LedgerId) -> str:
    return f"urL{ledger_id:010d}"


class LogPaths:
    """Paths of one log stream below a DistributedLog namespace."""

    def __init__(self, namespace: str, log: str, partition: str = DEFAULT_LOG_PARTITION) -> None:
        self.log = f"{namespace}/{log}"
        """The stream itself; its data may hold the application's metadata."""
        self.partition = f"{self.log}/{partition}"
        self.max_txid = f"{self.partition}/maxtxid"
        self.version = f"{self.partition}/version"
        self.lock = f"{self.partition}/lock"
        self.read_lock = f"{self.partition}/readLock"
        self.segments = f"{self.partition}/ledgers"
        """Parent of the segments; its data is the highest log segment sequence number."""
        self.allocation = f"{self.partition}/allocation"
        self.subscribers = f"{self.partition}/subscribers"
        self.purged = f"{self.partition}/purged"
        """Ours: what no segment names any more and is not deleted yet; absent until needed."""
        self.rewrite_lock = f"{self.partition}/rewriteLock"
        """Ours: parent of who rewrites segments, as `lock`; absent until needed."""
        self.cold = f"{self.partition}/cold"
        """Ours: parent of the segments in cold storage, by 18 digits of LSSN; as `purged`."""

    def segment(self, name: str) -> str:
        """Return the path of a segment by its node name."""
        return f"{self.segments}/{name}"

    def cold_segment(self, lssn: int) -> str:
        """Return the path of what is known of a segment in cold storage."""
        return f"{self.cold}/{lssn:018d}"

    def initial_nodes(self) -> list[tuple[str, bytes]]:
        """Return what a new log consists of, parents first: path and data."""
        return [
            (self.log, b""),
            (self.partition, b""),
            (self.max_txid, b"0"),
            (self.version, LOG_LAYOUT_VERSION),
            (self.lock, b""),
            (self.read_lock, b""),
            (self.segments, b"0"),
            (self.allocation, b""),
        ]


LOG_LAYOUT_VERSION: Final = b"\xff\xff\xff\xff"
"""Data of a log's `version` node: -1 as a big-endian int32; anything else is refused."""
