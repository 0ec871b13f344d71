"""The entries that the readers of one log share: each is read from the bookies once.

Invariant: chunks of a ledger do not overlap; one that is on its way is found like one that is
there. A chunk stays until every reader of the log has passed it, or its room is needed.

    reader A: ask(7..) -> new chunk 7..20, fetched by A          reader B: ask(12..) -> the same one
"""

import asyncio
from bisect import bisect_right
from operator import attrgetter
from typing import Final, TypeAlias

from tailrace.core.errors import CoreError
from tailrace.core.log.entry_cache import ENTRY_OVERHEAD_BYTES, Chunk, EntryCache
from tailrace.core.log.segment_ledger import SegmentLedger
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.ids import EntryId, LedgerId

Position: TypeAlias = tuple[int, EntryId]
"""(lssn, entry id)."""

_FIRST: Final = attrgetter("first")
_BEYOND: Final[Position] = (2**63, 0)


class ReaderPlace:
    """Where a reader is: the first entry that it may still ask for."""

    __slots__ = ("at",)

    def __init__(self, at: Position) -> None:
        self.at = at


class SharedEntries:
    """What the readers of one log hold and keep for each other."""

    __slots__ = ("_cache", "_chunks", "_floor", "_places", "entry_bytes")

    def __init__(self, cache: EntryCache) -> None:
        self._cache = cache
        self._chunks: dict[LedgerId, list[Chunk]] = {}
        self._places: dict[ReaderPlace, None] = {}
        self._floor: Position | None = _BEYOND
        """Where the last of the readers is; None: one that was there went on."""
        self.entry_bytes = 0
        """Payload bytes of an entry, as far as the reader tells that took some last; 0: unknown."""

    def join(self, at: Position) -> ReaderPlace:
        """Keep what lies at `at` or behind it for a new reader; it leaves at its end."""
        place = ReaderPlace(at)
        self._places[place] = None
        if self._floor is not None:
            self._floor = min(self._floor, at)
        return place

    def leave(self, place: ReaderPlace) -> None:
        """Keep nothing for a reader any more. Idempotent."""
        if place in self._places:
            del self._places[place]
            self._on_moved(place.at)

    def move(self, place: ReaderPlace, at: Position) -> None:
        """Keep nothing before `at` for this reader any more.

        Cost: a look at each reader for the last of them, nothing for all others.
        """
        before, place.at = place.at, at
        if self._floor is not None:
            self._floor = min(self._floor, at)
        self._on_moved(before)

    def find(self, ledger_id: LedgerId, entry_id: EntryId) -> Chunk | None:
        """Return the chunk with an entry, there or on its way."""
        chunks = self._chunks.get(ledger_id)
        if chunks:
            index = bisect_right(chunks, entry_id, key=_FIRST) - 1
            if index >= 0 and chunks[index].last >= entry_id:
                return chunks[index]
        return None

    def add(
        self, lssn: int, ledger_id: LedgerId, first: EntryId, last: EntryId, size_bytes: int
    ) -> Chunk:
        """Return a new chunk for the caller to fetch, up to `last` or the next one that is known.

        `first` is in no chunk; `size_bytes` is an estimate.
        """
        chunks = self._chunks.setdefault(ledger_id, [])
        index = bisect_right(chunks, first, key=_FIRST)
        if index < len(chunks):
            last = min(last, chunks[index].first - 1)
        chunk = Chunk(self, lssn, ledger_id, first, last)
        chunk.asked_s = asyncio.get_running_loop().time()
        chunks.insert(index, chunk)
        self._cache.count(chunk, size_bytes)
        return chunk

    def has_room(self, size_bytes: int) -> bool:
        """Tell whether so much may be read ahead."""
        return self._cache.has_room(size_bytes, asyncio.get_running_loop().time())

    async def fetch(self, chunk: Chunk, ledger: SegmentLedger) -> None:
        """Read a new chunk's entries. Errors: as SegmentLedger.read, for all who wait for it.

        Cancel: others who wait ask for another chunk.
        """
        try:
            entries = await ledger.read_some(chunk.first, chunk.last)
            chunk.last = entries[-1].entry_id  # fewer came, if they are large
            self._arrived(chunk, entries)
        except CoreError as error:
            chunk.error = error
            raise
        finally:
            self.abandon(chunk)

    def abandon(self, chunk: Chunk) -> None:
        """End a chunk that nobody fetches any more, if its entries are not there. Idempotent."""
        if chunk.entries is None:
            self.drop(chunk)
        chunk.settle()

    def put(self, lssn: int, entry: Entry) -> None:
        """Take an entry that came by itself, unless it is here already or nobody needs it."""
        is_needed = self._last_reader() <= (lssn, entry.entry_id)
        if is_needed and self.find(entry.ledger_id, entry.entry_id) is None:
            at = entry.entry_id
            chunk = self.add(lssn, entry.ledger_id, at, at, 0)
            self._arrived(chunk, [entry])

    def give(self, chunk: Chunk) -> list[Entry]:
        """Give a reader the entries of a chunk; it lets go of them.

        To the only reader of the log for good: what it has used up is freed at once.
        """
        entries = chunk.entries or []
        chunk.holders += 1
        self._cache.hold(chunk)
        if len(self._places) == 1 and not chunk.waiters:
            self._unlist(chunk)
            chunk.entries = []
        return entries

    def let_go(self, chunk: Chunk) -> None:
        """Take a reader's entries back: kept while another may ask for them and there is room."""
        chunk.holders -= 1
        if chunk.holders == 0:
            now_s = asyncio.get_running_loop().time()
            is_needed = self._last_reader() <= (chunk.lssn, chunk.last)
            if is_needed and chunk.entries and self._cache.has_room(0, now_s):
                self._cache.keep(chunk, now_s)
            else:
                self.drop(chunk)

    def drop(self, chunk: Chunk) -> None:
        """Find a chunk for nobody any more (ChunkHome). Idempotent."""
        self._unlist(chunk)
        self._cache.forget(chunk)

    def _unlist(self, chunk: Chunk) -> None:
        chunks = self._chunks.get(chunk.ledger_id, [])
        if chunk in chunks:
            chunks.remove(chunk)
            if not chunks:
                del self._chunks[chunk.ledger_id]

    def _arrived(self, chunk: Chunk, entries: list[Entry]) -> None:
        now_s = asyncio.get_running_loop().time()
        chunk.entries = entries
        chunk.ready_s = now_s
        payloads = entries[-1].length - entries[0].length + len(entries[0].payload)
        size_bytes = payloads + ENTRY_OVERHEAD_BYTES * len(entries)
        self._cache.count(chunk, size_bytes)
        self._cache.keep(chunk, now_s)

    def _last_reader(self) -> Position:
        """Return where the last of the readers is."""
        if self._floor is None:
            self._floor = min((place.at for place in self._places), default=_BEYOND)
        return self._floor

    def _on_moved(self, before: Position) -> None:
        """Drop what lies before every reader, after one has left the place `before`."""
        if self._floor == before:
            self._floor = None
        elif self._floor is not None and before > self._floor:
            return  # the last reader is where it was
        floor = self._last_reader()
        for chunks in list(self._chunks.values()):
            while chunks and self._is_passed(chunks[0], floor):
                self.drop(chunks[0])

    @staticmethod
    def _is_passed(chunk: Chunk, floor: Position) -> bool:
        is_behind = (chunk.lssn, chunk.last) < floor
        return is_behind and chunk.entries is not None and not chunk.holders
