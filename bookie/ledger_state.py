"""What a bookie knows of one ledger between two checkpoints. Values only; the loop owns them."""

from array import array
from collections.abc import Callable, Iterator

from tailrace.bookie.index_format import IndexHeader
from tailrace.protocol.ids import EntryId, LedgerId

GAP_MAX = 1024
"""Ids that an add may skip and still extend the dense run; striping leaves such gaps."""


class LocationTable:
    """Entry id -> location of what no index file has yet. Mostly a dense run, 8 bytes an entry."""

    __slots__ = ("_base", "_run", "_sparse")

    def __init__(self) -> None:
        self._base: EntryId = 0
        self._run: array[int] = array("q")
        self._sparse: dict[EntryId, int] = {}

    def __bool__(self) -> bool:
        return bool(self._run or self._sparse)

    def put(self, entry_id: EntryId, location: int) -> None:
        """Set the location of an entry, replacing an older one."""
        run = self._run
        at = entry_id - self._base
        if at == len(run) and run and not self._sparse:
            run.append(location)
        else:
            self._put_anywhere(entry_id, location)

    def _put_anywhere(self, entry_id: EntryId, location: int) -> None:
        run = self._run
        if not run:
            self._base = entry_id
        at = entry_id - self._base
        if not 0 <= at <= len(run) + GAP_MAX:
            self._sparse[entry_id] = location
            return
        self._sparse.pop(entry_id, None)
        if at < len(run):
            run[at] = location
        else:
            run.extend(array("q", bytes(8 * (at - len(run)))))
            run.append(location)

    def get(self, entry_id: EntryId) -> int:
        """Return the location of an entry, 0 if it is not here."""
        at = entry_id - self._base
        if 0 <= at < len(self._run) and (location := self._run[at]):
            return location
        return self._sparse.get(entry_id, 0)

    def runs(self) -> "Iterator[tuple[EntryId, array[int]]]":
        """Return the locations as (first entry id, locations) without gaps."""
        start = 0
        run = self._run
        while start < len(run):
            if not run[start]:
                start += 1
                continue
            end = _end_of_run(run, start)
            yield self._base + start, run[start:end]
            start = end
        for entry_id, location in sorted(self._sparse.items()):
            yield entry_id, array("q", (location,))

    def entry_ids(self) -> Iterator[EntryId]:
        """Return every entry id that is here; not sorted over sparse ones."""
        for first, locations in self.runs():
            yield from range(first, first + len(locations))


def _end_of_run(run: "array[int]", start: int) -> int:
    try:
        return run.index(0, start)
    except ValueError:
        return len(run)


class LedgerState:
    """One ledger: who may write, what is known, which locations are not in its index file yet.

    Invariant: `fenced` is true from the moment a fence arrives; `fence_durable` once the journal
    has it. `unsaved` and `saving` are what the index file lacks; `saving` is being written.
    """

    __slots__ = (
        "explicit_lac",
        "explicit_lac_id",
        "fence_durable",
        "fence_waiters",
        "fenced",
        "generation",
        "header_unsaved",
        "is_last_known",
        "lac",
        "lac_ms",
        "last_entry",
        "ledger_id",
        "log_bytes",
        "master_key",
        "pending",
        "saving",
        "unsaved",
        "waiters",
    )

    def __init__(self, ledger_id: LedgerId, header: IndexHeader) -> None:
        self.ledger_id = ledger_id
        self.master_key = header.master_key
        self.fenced = header.fenced
        self.fence_durable = header.fenced
        self.fence_waiters: list[Callable[[], None]] = []
        self.explicit_lac = header.explicit_lac
        self.explicit_lac_id: EntryId = lac_of(header.explicit_lac)
        self.lac: EntryId = self.explicit_lac_id
        """Highest LAC known here: of entry headers and of the explicit LAC."""
        self.lac_ms = 0
        self.last_entry: EntryId = -1
        self.is_last_known = True
        """Whether no higher entry can be here: the end of a damaged index is not known."""
        self.unsaved = LocationTable()
        self.saving: LocationTable | None = None
        self.header_unsaved = False
        self.generation = 0
        """Rises when `saving` has reached the index file: cached pages of before are stale."""
        self.waiters: list[Callable[[], None]] = []
        """Called once when the LAC moves or the ledger is fenced."""
        self.pending = 0
        """Adds and explicit LACs that are not durable yet."""
        self.log_bytes = 0
        """Bytes in the entry log that is being written, with size fields."""

    def locate(self, entry_id: EntryId) -> int:
        """Return the location if it is not in the index file yet, else 0."""
        return self.unsaved.get(entry_id) or (self.saving.get(entry_id) if self.saving else 0)

    def note_entry(self, entry_id: EntryId, lac: EntryId) -> None:
        """Take note of a durable entry; wakes nobody."""
        if entry_id > self.last_entry:
            self.last_entry = entry_id
        if lac > self.lac:
            self.lac = lac

    def header(self) -> IndexHeader:
        """Return what the index file's header should say."""
        return IndexHeader(self.master_key, self.fenced, self.explicit_lac)

    def is_clean(self) -> bool:
        """Return whether nothing but `log_bytes` would be lost if this were dropped from memory."""
        busy = self.pending or self.header_unsaved or self.waiters or self.fence_waiters
        fencing = self.fenced and not self.fence_durable
        return not (busy or fencing or self.unsaved or self.saving is not None)

    def take_explicit_lac(self, packet: bytes) -> bool:
        """Keep an explicit LAC unless a higher one is there; return whether it was kept."""
        lac = lac_of(packet)
        if lac < self.explicit_lac_id:
            return False
        self.explicit_lac = packet
        self.explicit_lac_id = lac
        self.lac = max(self.lac, lac)
        return True


def lac_of(packet: bytes) -> EntryId:
    """Return the number in an explicit LAC packet, -1 if there is none."""
    return int.from_bytes(packet[8:16], "big", signed=True) if len(packet) >= 16 else -1
