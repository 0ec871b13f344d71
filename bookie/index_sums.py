"""Checksums of an index file, in a file of ours beside it: BookKeeper's has no room for them.

    file  = block, pair for each sector of 512 bytes (64 locations) behind the index file's header
    block = 512 bytes: "TLIS", i32 version 1, i64 ledger id, i64 newest log, u32 CRC32C of these,
            zeros
    pair  = u32 sum before, u32 sum after the last write of the sector

A sum is the CRC32C of (ledger id, sector number) and the sector's bytes; 0 stands for zeros. The
pair is on disk before its sector is written. A disk writes a sector whole or not at all, so a write
that a crash has cut leaves the sector with one of the two sums; after one that was finished it has
the second. With any other one it is damaged. Whether a write may have been cut tells the tail: its
ledger is in it. No page is a unit here: after a crash it could be of both kinds.

`newest log` is the highest entry log when the pairs were written. Java's bookie puts a location
into an index file only after it made an entry log, so where there is a log of Java's above that id
the sums are not those of the file any more.
"""

import struct
import sys
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.errors import BadValue
from tailrace.protocol.ids import Buffer, LedgerId, Position

SUFFIX = ".sums"
BLOCK_SIZE = 512
SECTOR_SIZE = 512
PAIR_SIZE = 8

_BLOCK = struct.Struct(">4siqq")
_CRC = struct.Struct(">I")
_SEED = struct.Struct(">qq")
_PAIR = struct.Struct(">II")
_ZEROS = bytes(SECTOR_SIZE)


class Proof(NamedTuple):
    """What the block of a file of sums says."""

    ledger_id: LedgerId
    newest_log: int


class Pair(NamedTuple):
    """The sums that one sector may have."""

    before: int = 0
    after: int = 0


def pack_proof(proof: Proof) -> bytes:
    """Return the block."""
    data = _BLOCK.pack(b"TLIS", 1, proof.ledger_id, proof.newest_log)
    return (data + _CRC.pack(crc32c(data))).ljust(BLOCK_SIZE, b"\0")


def read_proof(data: Buffer, ledger_id: LedgerId) -> Proof | None:
    """Read the block; None if it was never written. Errors: BadValue: it is damaged."""
    if len(data) < BLOCK_SIZE or not any(data):
        return None
    head = bytes(data[: _BLOCK.size])
    magic, version, of_ledger, newest_log = _BLOCK.unpack(head)
    (crc,) = _CRC.unpack_from(data, _BLOCK.size)
    if crc != crc32c(head) or (magic, version, of_ledger) != (b"TLIS", 1, ledger_id):
        raise BadValue("the checksums of the index are damaged themselves")
    return Proof(ledger_id, newest_log)


def sector_sum(ledger_id: LedgerId, sector: int, data: Buffer) -> int:
    """Return the sum of a sector; `data` may be short at the end of the file, as before zeros."""
    whole = bytes(data).ljust(SECTOR_SIZE, b"\0")
    if whole == _ZEROS:
        return 0
    return crc32c(whole, crc32c(_SEED.pack(ledger_id, sector))) or 1


def pair_position(sector: int) -> Position:
    """Return where a sector's pair lies."""
    return BLOCK_SIZE + PAIR_SIZE * sector


def pack_pairs(pairs: Iterable[Pair]) -> bytes:
    """Return the bytes of pairs that follow each other."""
    return b"".join(_PAIR.pack(*pair) for pair in pairs)


def read_pairs(data: Buffer, count: int) -> list[Pair]:
    """Return `count` pairs; those behind the end of `data` are of zeros."""
    sums = array("I", bytes(data).ljust(count * PAIR_SIZE, b"\0")[: count * PAIR_SIZE])
    if sys.byteorder == "little":
        sums.byteswap()
    return list(map(Pair, sums[::2], sums[1::2]))


def planned(pair: Pair, old: int, new: int, *, is_replaced: bool) -> Pair | None:
    """Return the pair to write before a sector changes its sum from `old` to `new`.

    None: the sector is damaged, and stays so, with the pair that it has; unless all of its
    locations are replaced (`is_replaced`).
    """
    if old in pair:
        return Pair(old, new)
    return Pair(new, new) if is_replaced else None


def damaged_sectors(
    ledger_id: LedgerId, first: int, data: Buffer, pairs: Iterable[Pair]
) -> frozenset[int]:
    """Return which sectors from `first` on have neither of their sums; one for each pair."""
    view = memoryview(data)
    return frozenset(
        sector
        for sector, at, pair in _places(first, pairs)
        if sector_sum(ledger_id, sector, view[at : at + SECTOR_SIZE]) not in pair
    )


def _places(first: int, pairs: Iterable[Pair]) -> Iterator[tuple[int, int, Pair]]:
    for number, pair in enumerate(pairs):
        yield first + number, number * SECTOR_SIZE, pair


def ranges(sectors: Iterable[int]) -> Iterator[range]:
    """Yield sorted numbers as ranges without gaps."""
    start = end = -1
    for sector in sectors:
        if sector != end:
            if end > start:
                yield range(start, end)
            start = sector
        end = sector + 1
    if end > start:
        yield range(start, end)
