"""Which entries of a ledger a bookie has, as GET_LIST_OF_ENTRIES_OF_LEDGER answers.

    64 bytes: i32 version (0) | i32 group count | zeros
    a group: i64 first run's start | i64 last run's start | i32 run length | i32 period (0: one run)

Java 4.17.3 writes each run as a group of its own with period 0; both forms are read, and the same
entries may have several forms. Source: reference BookKeeper 0, 1.9.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tailrace.protocol.errors import BadLength, BadValue, BufferUnderflow
from tailrace.protocol.ids import Buffer, EntryId

_HEADER = struct.Struct(">ii")
_GROUP = struct.Struct(">qqii")
_HEADER_SIZE = 64


class EntryGroup(NamedTuple):
    """Runs of `run_length` entries that start at first, first + period, ... last (inclusive)."""

    first: EntryId
    last: EntryId
    run_length: int
    period: int

    @property
    def entry_count(self) -> int:
        """How many entries the group names."""
        runs = (self.last - self.first) // self.period + 1 if self.period else 1
        return runs * self.run_length

    def contains(self, entry_id: EntryId) -> bool:
        """Whether the entry is named."""
        distance = entry_id - self.first
        if distance < 0 or entry_id >= self.last + self.run_length:
            return False
        return (distance % self.period if self.period else distance) < self.run_length

    def entry_ids(self) -> Iterator[EntryId]:
        """Yield the entries; a hostile group names very many, so look at `entry_count` first."""
        for start in range(self.first, self.last + 1, self.period or 1):
            yield from range(start, start + self.run_length)


def encode_availability(entry_ids: Iterable[EntryId]) -> bytes:
    """Return the form of these entries (rising, no doubles), a group per run as Java's."""
    groups: list[EntryGroup] = []
    first = last = -1
    for entry_id in entry_ids:
        if first >= 0 and entry_id == last + 1:
            last = entry_id
            continue
        assert entry_id > last, f"entry {entry_id} does not rise"
        if first >= 0:
            groups.append(EntryGroup(first, first, last - first + 1, 0))
        first = last = entry_id
    if first >= 0:
        groups.append(EntryGroup(first, first, last - first + 1, 0))
    header = _HEADER.pack(0, len(groups)).ljust(_HEADER_SIZE, b"\x00")
    return header + b"".join(_GROUP.pack(*group) for group in groups)


def decode_availability(data: Buffer) -> tuple[EntryGroup, ...]:
    """Read the groups. Errors: DecodeError family. Cost: by groups, not by entries."""
    if len(data) < _HEADER_SIZE:
        raise BufferUnderflow("fewer bytes than a list of entries has in front")
    version, count = _HEADER.unpack_from(data)
    if version != 0:
        raise BadValue(f"list of entries of version {version}")
    if len(data) != _HEADER_SIZE + count * _GROUP.size:
        raise BadLength(f"list of {count} groups in {len(data)} bytes")
    groups = tuple(
        EntryGroup._make(_GROUP.unpack_from(data, at))
        for at in range(_HEADER_SIZE, len(data), _GROUP.size)
    )
    for group in groups:
        _check_group(group)
    return groups


def _check_group(group: EntryGroup) -> None:
    if group.first < 0 or group.last < group.first or group.run_length < 1 or group.period < 0:
        raise BadValue(f"no group of entries: {group}")
    if group.period == 0 and group.last != group.first:
        raise BadValue(f"several runs without a period: {group}")
    if group.period and (group.last - group.first) % group.period:
        raise BadValue(f"the last run is none of the period's: {group}")
    if 0 < group.period < group.run_length:
        raise BadValue(f"runs that overlap: {group}")
