"""One ledger's index file and the checksums beside it, open. Blocks; used by one thread at a time.

What can be proved by it:

    ABSENT    there is none, or a crash came before its first header: the ledger is in the tail
    UNPROVEN  Java's bookie wrote it, or a version without checksums: it is taken as it is
    PROVEN    a sector of locations that has neither of its sums is damaged
    LOST      we wrote it, and its sums are gone: any sector of it may be damaged

A damaged sector denies nothing: a location in it may be followed, as entries say which they are,
but where it has none the answer is CorruptData.

Order of a write: pairs (old sum, new sum) -> sync -> locations and header -> sync, with the names.
Where a write before this one was cut by a crash, or found no room, what it left is synced first.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from itertools import chain, compress, count
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from tailrace.bookie.index_format import (
    HEADER_SIZE,
    PAGE_SIZE,
    SLOT_SIZE,
    IndexHeader,
    is_signed,
    pack_header,
    pack_slots,
    read_header,
    sign_header,
    unpack_slots,
)
from tailrace.bookie.index_sums import (
    BLOCK_SIZE,
    PAIR_SIZE,
    SECTOR_SIZE,
    Pair,
    Proof,
    damaged_sectors,
    pack_pairs,
    pack_proof,
    pair_position,
    planned,
    ranges,
    read_pairs,
    read_proof,
    sector_sum,
)
from tailrace.bookie.ledger_state import LocationTable
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.files import Files
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import Buffer, EntryId, LedgerId

REMEDY: Final = "tailrace bookie rebuild-index makes it again from the entry logs"
SLOTS_PER_SECTOR: Final = SECTOR_SIZE // SLOT_SIZE
SECTORS_PER_PAGE: Final = PAGE_SIZE // SECTOR_SIZE
CHUNK_BYTES: Final = 1024 * 1024
"""Read at once of a whole file: one add with a high entry id makes 16 GiB of holes."""
_HOLE = bytes(CHUNK_BYTES)


Cut: TypeAlias = frozenset[int] | None
"""Sectors that the last write may not have reached, and the header; None: any sector."""
NOTHING: Final = frozenset((-1,))
"""Stands for an index whose last write is whole for sure."""


class Standing(Enum):
    """What an index file proves: see above."""

    ABSENT = "absent"
    UNPROVEN = "unproven"
    PROVEN = "proven"
    LOST = "lost"


class _Changed(NamedTuple):
    """Sectors that a write changes."""

    contents: dict[int, bytearray]
    """As they will be."""
    old_sums: dict[int, int]
    replaced: set[int]
    """Those of which all locations are written."""


class LedgerIndex:
    """One index file with its sums. Errors of all calls: OSError, CorruptData."""

    def __init__(self, files: Files, ledger_id: LedgerId, path: Path, sums_path: Path) -> None:
        """Open what is there of both files; `close` it. Errors: OSError."""
        self._files = files
        self._ledger_id = ledger_id
        self.path = path
        self._sums_path = sums_path
        self._fd = self._open(path)
        try:
            self._sums_fd = self._open(sums_path)
        except BaseException:
            self.close()
            raise
        self.standing = Standing.ABSENT
        self._proof: Proof | None = None
        self._cut: Cut = None

    _fd: int | None = None
    _sums_fd: int | None = None

    def _open(self, path: Path) -> int | None:
        with suppress(FileNotFoundError):
            return self._files.open(path, os.O_RDWR)
        return None

    @property
    def is_there(self) -> bool:
        """Whether there is a file, with a header or not."""
        return self._fd is not None

    @property
    def has_sums(self) -> bool:
        """Whether there is a file of sums."""
        return self._sums_fd is not None

    def close(self) -> None:
        """Close both files."""
        for fd in (self._fd, self._sums_fd):
            if fd is not None:
                self._files.close(fd)
        self._fd = self._sums_fd = None

    def look(self, java_log: int, cut: Cut) -> IndexHeader | None:
        """Find out what it proves; return its header, None if it is absent.

        `java_log`: the highest entry log that Java's bookie made. `cut`: what of it may be as it
        was before the last write. Errors: CorruptData: the header is damaged or lost.
        """
        self._cut = cut
        data = b"" if self._fd is None else self._files.read_at(self._fd, HEADER_SIZE, 0)
        try:
            is_born = len(data) == HEADER_SIZE and any(data[:12])
            proof = self._read_proof(is_born=is_born)
            if is_born:
                header = read_header(data)
                self.standing = self._judge(
                    proof, java_log, signed=is_signed(data, self._ledger_id)
                )
                return header
        except DecodeError as error:
            self.standing = Standing.LOST if self._proof is None else Standing.PROVEN
            raise CorruptData(f"{self.path}: {error}; {REMEDY}") from error
        if proof is not None and cut is NOTHING:
            self.standing = Standing.PROVEN
            raise CorruptData(f"{self.path}: lost, or without its header; {REMEDY}")
        return None

    def _read_proof(self, *, is_born: bool) -> Proof | None:
        if self._sums_fd is None:
            return None
        try:
            data = self._files.read_at(self._sums_fd, BLOCK_SIZE, 0)
            self._proof = read_proof(data, self._ledger_id)
        except DecodeError:
            if not is_born:
                raise
        return self._proof

    def _judge(self, proof: Proof | None, java_log: int, *, signed: bool) -> Standing:
        if not signed:
            return Standing.UNPROVEN
        if proof is None:
            return Standing.LOST
        return Standing.PROVEN if proof.newest_log >= java_log else Standing.UNPROVEN

    # Locations

    def sector_count(self) -> int:
        """Return how many sectors of locations there are, by the file or by its sums."""
        count = 0
        if self._fd is not None:
            count = -(-max(self._files.size(self._fd) - HEADER_SIZE, 0) // SECTOR_SIZE)
        if self._sums_fd is not None and self.standing is Standing.PROVEN:
            sums = max(self._files.size(self._sums_fd) - BLOCK_SIZE, 0) // PAIR_SIZE
            count = max(count, sums)
        return count

    def read(self, sectors: range) -> bytes:
        """Return the locations of some sectors, shorter at the end of the file."""
        if self._fd is None:
            return b""
        size = len(sectors) * SECTOR_SIZE
        return self._files.read_at(self._fd, size, HEADER_SIZE + sectors.start * SECTOR_SIZE)

    def location(self, entry_id: EntryId) -> int:
        """Return the location of an entry as it stands there, 0 without one."""
        sector, at = divmod(entry_id, SLOTS_PER_SECTOR)
        slots = unpack_slots(self.read(range(sector, sector + 1)))
        return slots[at] if at < len(slots) else 0

    @property
    def is_begun(self) -> bool:
        """Whether there are sums of it: then its ledger was written, or was about to be."""
        return self._proof is not None

    def damaged(self, sectors: range, data: Buffer) -> frozenset[int]:
        """Return which of these sectors, as `read` returned them, cannot be trusted."""
        if self.standing is Standing.LOST:
            return frozenset(sectors)
        if self.standing is not Standing.PROVEN:
            return frozenset()
        pairs = self._pairs(sectors)
        if not any(data) and not any(map(all, pairs)):
            return frozenset()
        return damaged_sectors(self._ledger_id, sectors.start, data, pairs)

    def _pairs(self, sectors: range) -> list[Pair]:
        size, at = len(sectors) * PAIR_SIZE, pair_position(sectors.start)
        data = b"" if self._sums_fd is None else self._files.read_at(self._sums_fd, size, at)
        pairs = read_pairs(data, len(sectors))
        if self._cut is None:
            return pairs
        return [
            pair if sector in self._cut else Pair(pair.after, pair.after)
            for sector, pair in zip(sectors, pairs, strict=True)
        ]

    def last(self) -> tuple[EntryId, int, bool]:
        """Return the last entry id with a location, that, and whether no later one can be lost.

        (-1, 0, ...) if there is none.
        """
        is_known, end = True, self.sector_count()
        while end:
            sectors = range(max(end - SECTORS_PER_PAGE, 0), end)
            data = self.read(sectors)
            damaged = self.damaged(sectors, data)
            slots = unpack_slots(data)
            for at in range(len(slots) - 1, -1, -1):
                if slots[at]:
                    sector = sectors.start + at // SLOTS_PER_SECTOR
                    is_known &= max(damaged, default=-1) < sector
                    return sectors.start * SLOTS_PER_SECTOR + at, slots[at], is_known
            is_known &= not damaged
            end = sectors.start
        return -1, 0, is_known

    def entry_ids(self) -> list[EntryId]:
        """Return the ids of all entries, sorted. Errors: CorruptData: there may be more.

        Cost: reads both files, 8 bytes for each id up to the highest; holes are only skipped.
        """
        found: list[EntryId] = []
        step, end = CHUNK_BYTES // SECTOR_SIZE, self.sector_count()
        for start in range(0, end, step):
            sectors = range(start, min(start + step, end))
            data = self.read(sectors)
            damaged = self.damaged(sectors, data)
            if damaged:
                entry_id = min(damaged) * SLOTS_PER_SECTOR
                raise CorruptData(
                    f"{self.path}: damaged from the place of entry {entry_id} on; {REMEDY}"
                )
            if data != _HOLE[: len(data)]:
                found += compress(count(start * SLOTS_PER_SECTOR), unpack_slots(data))
        return found

    # Writing

    def write(
        self,
        header: IndexHeader,
        tables: Sequence[LocationTable],
        newest_log: int,
        sync_names: Callable[[], None],
    ) -> None:
        """Write header and locations and sync them, their sums first. After `look`.

        `newest_log`: the highest entry log there is. `sync_names` sees to it that the names of both
        files are on disk. What is damaged stays damaged, unless it is replaced as a whole.
        """
        if self.standing is Standing.LOST:
            self._write_index(header, self._read_into(tables).contents)
            sync_names()
            return
        if self._fd is not None and (self.standing is Standing.UNPROVEN or self._proof is None):
            self._trust_what_is_there(newest_log)
        if self._fd is not None and self._cut is not NOTHING:
            self._files.sync(self._fd)
        changed = self._read_into(tables)
        self._write_sums(self._plan(changed), Proof(self._ledger_id, newest_log))
        self._files.sync(self._opened_sums())
        self._write_index(header, changed.contents)
        sync_names()

    def _trust_what_is_there(self, newest_log: int) -> None:
        """Make sums of an index that has none, as they would be had we written it."""
        assert self._fd is not None, "there is a file"
        self._files.sync(self._fd)
        spare = self._sums_path.with_name(self._sums_path.name + ".new")
        fd = self._files.open(spare, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            for sectors, data in self._chunks():
                sums = [
                    sector_sum(self._ledger_id, sector, data[at : at + SECTOR_SIZE])
                    for sector, at in zip(sectors, count(0, SECTOR_SIZE), strict=False)
                ]
                pairs = pack_pairs(Pair(one, one) for one in sums)
                self._files.write_at(fd, [pairs], pair_position(sectors.start))
            proof = Proof(self._ledger_id, newest_log)
            self._files.write_at(fd, [pack_proof(proof)], 0)
            self._files.sync(fd)
        finally:
            self._files.close(fd)
        self._files.replace(spare, self._sums_path)
        self._files.sync_directory(self._sums_path.parent)
        if self._sums_fd is not None:
            self._files.close(self._sums_fd)
        self._sums_fd = self._open(self._sums_path)
        self._proof = proof

    def _chunks(self) -> Iterator[tuple[range, bytes]]:
        """Yield all sectors of the file but those in holes."""
        step, end = CHUNK_BYTES // SECTOR_SIZE, self.sector_count()
        for start in range(0, end, step):
            sectors = range(start, min(start + step, end))
            data = self.read(sectors)
            if data != _HOLE[: len(data)]:
                yield sectors, data

    def _plan(self, changed: "_Changed") -> dict[int, Pair]:
        """Return the pairs to write before the locations are."""
        planned_pairs = {}
        for sectors in ranges(sorted(changed.contents)):
            for sector, pair in zip(sectors, self._pairs(sectors), strict=True):
                new = sector_sum(self._ledger_id, sector, changed.contents[sector])
                is_replaced = sector in changed.replaced
                after = planned(pair, changed.old_sums[sector], new, is_replaced=is_replaced)
                if after is not None:
                    planned_pairs[sector] = after
        return planned_pairs

    def _read_into(self, tables: Sequence[LocationTable]) -> "_Changed":
        """Return the sectors that tables change, as they will be."""
        changed = _Changed({}, {}, set())
        for first, run in chain.from_iterable(table.runs() for table in tables):
            packed = memoryview(pack_slots(run))
            sectors = range(
                first // SLOTS_PER_SECTOR, (first + len(run) - 1) // SLOTS_PER_SECTOR + 1
            )
            self._read(changed, sectors)
            offset = first % SLOTS_PER_SECTOR * SLOT_SIZE
            for sector in sectors:
                part = packed[: SECTOR_SIZE - offset]
                changed.contents[sector][offset : offset + len(part)] = part
                if len(part) == SECTOR_SIZE:
                    changed.replaced.add(sector)
                packed = packed[len(part) :]
                offset = 0
        return changed

    def _read(self, changed: "_Changed", sectors: range) -> None:
        """Add the sectors that are not there yet."""
        contents = changed.contents
        if all(sector in contents for sector in sectors):
            return
        data = self.read(sectors).ljust(len(sectors) * SECTOR_SIZE, b"\0")
        for sector, at in zip(sectors, count(0, SECTOR_SIZE), strict=False):
            if sector not in contents:
                contents[sector] = bytearray(data[at : at + SECTOR_SIZE])
                changed.old_sums[sector] = sector_sum(self._ledger_id, sector, contents[sector])

    def _write_sums(self, pairs: Mapping[int, Pair], proof: Proof) -> None:
        fd = self._opened_sums()
        if proof != self._proof:
            self._files.write_at(fd, [pack_proof(proof)], 0)
            self._proof = proof
        for sectors in ranges(sorted(pairs)):
            packed = pack_pairs(pairs[sector] for sector in sectors)
            self._files.write_at(fd, [packed], pair_position(sectors.start))

    def _opened_sums(self) -> int:
        if self._sums_fd is None:
            self._sums_fd = self._files.open(self._sums_path, os.O_RDWR | os.O_CREAT)
        return self._sums_fd

    def _write_index(self, header: IndexHeader, contents: Mapping[int, bytearray]) -> None:
        """Write each sector in one piece: half of its changes would have neither of its sums."""
        if self._fd is None:
            self._fd = self._files.open(self.path, os.O_RDWR | os.O_CREAT)
        fd = self._fd
        data = sign_header(pack_header(header), self._ledger_id)
        self._files.write_at(fd, [data], 0)
        end = HEADER_SIZE
        for sectors in ranges(sorted(contents)):
            packed = b"".join(contents[sector] for sector in sectors)
            self._files.write_at(fd, [packed], HEADER_SIZE + sectors.start * SECTOR_SIZE)
            end = HEADER_SIZE + sectors.stop * SECTOR_SIZE
        padded = end + -(end - HEADER_SIZE) % PAGE_SIZE
        if padded > self._files.size(fd):
            self._files.truncate(fd, padded)
        self._files.sync(fd)
