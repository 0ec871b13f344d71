"""Reading entries: location from the index file, body from the entry log. Used by one thread only.

What is read is checked against what was asked for (size, ledger id, entry id): a wrong one is
damage (CorruptData), never "no such entry". The bytes themselves are judged by the client's digest.
"""

import struct
from collections.abc import Sequence

from tailrace.bookie.entry_log_format import file_name, split_location
from tailrace.bookie.entry_spans import LENGTH_SIZE, SLACK_BYTES, next_span
from tailrace.bookie.group_format import MIN_BODY_SIZE
from tailrace.bookie.index_files import SLOTS_PER_PAGE, IndexFiles, Page
from tailrace.bookie.index_format import ENTRY_ID_MAX, unpack_slots
from tailrace.bookie.ledger_dirs import LedgerDirs
from tailrace.bookie.ledger_index import SLOTS_PER_SECTOR
from tailrace.bookie.page_cache import ReadBehind
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import Files
from tailrace.protocol.bookkeeper.entry import FRAME_BYTES_LIMIT
from tailrace.protocol.ids import Buffer, EntryId, LedgerId

_SIZE = struct.Struct(">i")
_IDS = struct.Struct(">qq")
_LAC = struct.Struct(">q")


class EntryReader:
    """Entry logs and index files, with a bounded number of open files and cached index pages."""

    def __init__(
        self,
        files: Files,
        dirs: LedgerDirs,
        indexes: IndexFiles,
        behind: ReadBehind | None = None,
        *,
        files_max: int,
        pages_max: int,
    ) -> None:
        """`behind`: hears of what was read of entry logs; None for tools."""
        self._files = files
        self._behind = behind
        self._dirs = dirs
        self._indexes = indexes
        self._files_max = files_max
        self._pages_max = pages_max
        self._fds: dict[int, int] = {}
        self._pages: dict[tuple[LedgerId, int], tuple[int, Page]] = {}

    def read(
        self, ledger_id: LedgerId, entry_id: EntryId, location: int, generation: int
    ) -> bytes | None:
        """Return a body, None if there is no such entry.

        `location` 0: look into the index file, whose pages are valid for `generation`.
        Errors: OSError, CorruptData.
        """
        location = location or self.locate(ledger_id, entry_id, generation)
        if not location:
            return None
        return self.read_at(ledger_id, entry_id, location)

    def read_at(self, ledger_id: LedgerId, entry_id: EntryId, location: int) -> bytes:
        """Return the body at a location. Errors: OSError, CorruptData."""
        log_id, position = split_location(location)
        fd = self._fd(log_id)
        head = self._files.read_at(fd, _SIZE.size, position - _SIZE.size)
        (size,) = _SIZE.unpack(head) if len(head) == _SIZE.size else (0,)
        if not MIN_BODY_SIZE <= size <= FRAME_BYTES_LIMIT:
            raise self._damage(ledger_id, entry_id, location, f"a size of {size}")
        body = self._files.read_at(fd, size, position)
        if self._behind is not None:
            self._behind.read(log_id, fd, position, position + size)
        if len(body) < size:
            raise self._damage(ledger_id, entry_id, location, f"{len(body)} of {size} bytes")
        found = _IDS.unpack_from(body)
        if found != (ledger_id, entry_id):
            raise self._damage(ledger_id, entry_id, location, f"ledger and entry {found}")
        return body

    def read_batch(
        self,
        ledger_id: LedgerId,
        first: EntryId,
        locations: Sequence[int],
        generation: int,
        bytes_max: int,
    ) -> list[Buffer]:
        """Return the bodies of entries from `first` on, one for each location at most.

        Shape: up to the first that is missing or damaged; together with four bytes each they keep
        below `bytes_max`, but the first comes whatever its length. They are views of what was read
        at once. Errors: OSError, CorruptData of the first entry; those behind it just end the list.
        """
        places = self._locate_all(ledger_id, first, locations, generation)
        bodies: list[Buffer] = []
        used = longest = 0
        while len(bodies) < len(places) and (not bodies or used < bytes_max):
            at = len(bodies)
            span = next_span(places, at, longest and longest + SLACK_BYTES)
            try:
                some = self._read_span(
                    ledger_id, first + at, places[at : at + span.entry_count], span.size_bytes
                )
            except (OSError, CorruptData):
                if not bodies:
                    raise
                return bodies
            for body in some:
                used += len(body) + LENGTH_SIZE
                if bodies and used > bytes_max:
                    return bodies
                bodies.append(body)
            longest = max(map(len, some))
        return bodies

    def _read_span(
        self, ledger_id: LedgerId, first: EntryId, places: Sequence[int], size: int
    ) -> list[Buffer]:
        """Read entries that lie together; fewer, but one, if they are longer than guessed.

        One alone is read whole, what was not guessed with a second system call.
        """
        log_id, position = split_location(places[0])
        bodies: list[Buffer] = []
        if size:
            fd, start = self._fd(log_id), position - LENGTH_SIZE
            data = self._files.read_at(fd, size, start)
            if len(places) == 1 and (missing := _missing(data)):
                data += self._files.read_at(fd, missing, start + len(data))
            if self._behind is not None:
                self._behind.read(log_id, fd, position, start + len(data))
            view = memoryview(data)
            for entry_id, place in enumerate(places, first):
                body = _body_at(view, place - places[0])
                if body is None or _IDS.unpack_from(body) != (ledger_id, entry_id):
                    break
                bodies.append(body)
        return bodies or [self.read_at(ledger_id, first, places[0])]

    def lac_at(self, ledger_id: LedgerId, entry_id: EntryId, location: int) -> EntryId:
        """Return the LAC field of the entry at a location. Errors: OSError, CorruptData."""
        body = self.read_at(ledger_id, entry_id, location)
        lac: EntryId = _LAC.unpack_from(body, 16)[0] if len(body) >= 24 else -1
        return lac

    def _locate_all(
        self, ledger_id: LedgerId, first: EntryId, locations: Sequence[int], generation: int
    ) -> list[int]:
        """Return where entries are, up to the first that is nowhere: `locations`, or the index."""
        places: list[int] = []
        if not 0 <= first <= ENTRY_ID_MAX:
            return places
        known_page = -1
        slots: Sequence[int] = ()
        for entry_id, location in enumerate(locations, first):
            place = location
            if not place:
                page, at = divmod(entry_id, SLOTS_PER_PAGE)
                if page != known_page:
                    known_page = page
                    slots = unpack_slots(self._page(ledger_id, page, generation).data)
                place = slots[at] if at < len(slots) else 0
            if not place and not places:
                place = self.locate(ledger_id, entry_id, generation)
            if not place:
                break
            places.append(place)
        return places

    def locate(self, ledger_id: LedgerId, entry_id: EntryId, generation: int) -> int:
        """Return the location that the index file has for an entry, 0 if none.

        Errors: OSError; CorruptData: what the index file says of this entry is damaged.
        """
        if not 0 <= entry_id <= ENTRY_ID_MAX:
            return 0
        page, at = divmod(entry_id, SLOTS_PER_PAGE)
        location = self._page(ledger_id, page, generation).location(at)
        return location or self._locate_for_sure(ledger_id, page, at, generation)

    def _locate_for_sure(self, ledger_id: LedgerId, page: int, at: int, generation: int) -> int:
        """Return the location at a place of a page; before that is "none", it is proved."""
        found = self._page(ledger_id, page, generation)
        if found.damaged is None:
            found = self._indexes.check_page(ledger_id, page)
            self._pages[ledger_id, page] = (generation, found)
        location = found.location(at)
        if not location and found.damaged and at // SLOTS_PER_SECTOR in found.damaged:
            entry_id = page * SLOTS_PER_PAGE + at
            raise CorruptData(
                f"ledger={ledger_id} entry={entry_id}: its place in the index is damaged"
            )
        return location

    def _page(self, ledger_id: LedgerId, page: int, generation: int) -> Page:
        cached = self._pages.pop((ledger_id, page), None)
        if cached is None or cached[0] != generation:
            cached = (generation, self._indexes.read_page(ledger_id, page))
        self._pages[ledger_id, page] = cached  # last: used most recently
        if len(self._pages) > self._pages_max:
            del self._pages[next(iter(self._pages))]
        return cached[1]

    def forget_log(self, log_id: int) -> None:
        """Close a log that was removed."""
        fd = self._fds.pop(log_id, None)
        if fd is not None:
            try:
                if self._behind is not None:
                    self._behind.close_log(log_id)
            finally:
                self._files.close(fd)

    def close(self) -> None:
        """Close all files."""
        while self._fds:
            self.forget_log(next(iter(self._fds)))

    def _fd(self, log_id: int) -> int:
        fd = self._fds.pop(log_id, None)
        if fd is None:
            try:
                fd = self._dirs.open_log(log_id)
            except FileNotFoundError as error:
                raise CorruptData(f"a location points to what is not there: {error}") from error
        self._fds[log_id] = fd
        if len(self._fds) > self._files_max:
            self.forget_log(next(iter(self._fds)))
        return fd

    def _damage(
        self, ledger_id: LedgerId, entry_id: EntryId, location: int, what: str
    ) -> CorruptData:
        log_id, position = split_location(location)
        return CorruptData(
            f"ledger={ledger_id} entry={entry_id} file={file_name(log_id)} position={position}: "
            f"found {what}"
        )


def _missing(data: bytes) -> int:
    """Return how much of a body is missing behind what was read from its length on."""
    if len(data) < LENGTH_SIZE:
        return 0
    (size,) = _SIZE.unpack_from(data)
    return max(LENGTH_SIZE + size - len(data), 0) if size <= FRAME_BYTES_LIMIT else 0


def _body_at(span: memoryview, at: int) -> memoryview | None:
    """Return the body whose length stands at `at`, None if it is not whole or no body."""
    start = at + LENGTH_SIZE
    if start > len(span):
        return None
    (size,) = _SIZE.unpack_from(span, at)
    if not MIN_BODY_SIZE <= size <= FRAME_BYTES_LIMIT or start + size > len(span):
        return None
    return span[start : start + size]
