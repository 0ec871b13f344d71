"""A log segment's metadata: the numbers that DistributedLog keeps in one node per segment.

Text of decimal numbers joined by ';'. The first packs version, status, region and record count:

    bits 0-7 version | 8-15 status (low 2 bits: truncation) | 28-31 region | 32-63 record count

    version 1   vsc; ledger; first txid          completed: + last txid; completion time
    version 2   ... lssn                         ... lssn; last entry; last slot
    version 3,4 ... min active entry; slot       ... min active entry; slot
    version 5   ... start sequence id            ... start sequence id

A segment stays with the version it was begun with. Source: DistributedLog LogSegmentMetadata;
vectors: tests/golden/dl.txt A4.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from tailrace.core.errors import CorruptData
from tailrace.protocol.ids import EntryId, LedgerId, TxId

LATEST_VERSION: Final = 5
INVALID_TXID: Final = -999
UNASSIGNED_LSSN: Final = 0
IN_PROGRESS_PREFIX: Final = "inprogress"
COMPLETED_PREFIX: Final = "logrecs"

_IN_PROGRESS_FIELDS: Final = {1: 3, 2: 4, 3: 6, 4: 6, 5: 7}
_COMPLETED_FIELDS: Final = {1: 5, 2: 8, 3: 10, 4: 10, 5: 11}
_INT64: Final = range(-(2**63), 2**63)
_NUMBERED_NAMES: Final = re.compile(rf"((?:{IN_PROGRESS_PREFIX}|{COMPLETED_PREFIX})_[0-9]{{18}}/)*")
_NUMBERED_NAME: Final = re.compile(rf"({IN_PROGRESS_PREFIX}|{COMPLETED_PREFIX})_([0-9]{{18}})")


class Truncation(IntEnum):
    """How much of a segment was given up."""

    ACTIVE = 0
    PARTIALLY_TRUNCATED = 1
    TRUNCATED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMetadata:
    """What the node of one segment says. Fields from `last_txid` on: of completed segments only."""

    lssn: int
    """Log segment sequence number, from 1; 0 in version 1, which had none."""
    ledger_id: LedgerId
    first_txid: TxId
    in_progress: bool = True
    version: int = LATEST_VERSION
    truncation: Truncation = Truncation.ACTIVE
    region_id: int = 0
    min_active_entry_id: EntryId = 0
    """With `min_active_slot`: first record kept in a partially truncated segment, else 0."""
    min_active_slot: int = 0
    start_sequence_id: int = -1
    """Number of records in all segments before; -1 while in progress or when unknown."""
    last_txid: TxId = INVALID_TXID
    completion_time_ms: int = 0
    record_count: int = 0
    last_entry_id: EntryId = -1
    last_slot: int = -1
    node_name: str = field(default="", compare=False)
    """The name of the node that it was read from; older writers had other names."""


def in_progress_name(lssn: int) -> str:
    """Return the node name of a segment that is being written."""
    return f"{IN_PROGRESS_PREFIX}_{lssn:018d}"


def completed_name(lssn: int) -> str:
    """Return the node name of a completed segment."""
    return f"{COMPLETED_PREFIX}_{lssn:018d}"


def segment_name(segment: SegmentMetadata) -> str:
    """Return the name of a segment's node: the one that it has, or the one that it will get."""
    if segment.node_name:
        return segment.node_name
    if segment.version == 1:  # without a number, it is named by its txids
        if segment.in_progress:
            return f"{IN_PROGRESS_PREFIX}_{segment.first_txid:x}"
        return f"{COMPLETED_PREFIX}_{segment.first_txid:018d}_{segment.last_txid:018d}"
    name = in_progress_name if segment.in_progress else completed_name
    return name(segment.lssn)


class NumberedName(NamedTuple):
    """What the name of a node says of its segment."""

    lssn: int
    in_progress: bool


def read_segment_name(name: str) -> NumberedName | None:
    """Return what a name says; None: an older form, only the data tells."""
    found = _NUMBERED_NAME.fullmatch(name)
    return found and NumberedName(int(found[2]), found[1] == IN_PROGRESS_PREFIX)


def are_numbered(names: Sequence[str]) -> bool:
    """Tell whether `read_segment_name` knows all of these names. Cost: one step for all."""
    return _NUMBERED_NAMES.fullmatch("/".join((*names, ""))) is not None


def is_segment_name(name: str) -> bool:
    """Tell segments from other nodes; the data, not the name, says what the segment is."""
    return name.startswith((IN_PROGRESS_PREFIX, COMPLETED_PREFIX))


def encode_segment(segment: SegmentMetadata) -> bytes:
    """Return the data of a segment's node."""
    return ";".join(map(str, [_pack_status(segment), *_numbers(segment)])).encode()


def decode_segment(data: bytes) -> SegmentMetadata:
    """Read the data of a segment's node. Errors: CorruptData."""
    numbers = _split(data)
    status = numbers[0] & 0xFFFF_FFFF_FFFF_FFFF
    version = status & 0xFF
    if version not in _COMPLETED_FIELDS:
        raise CorruptData(f"segment metadata of version {version}: {data[:80]!r}")
    in_progress = len(numbers) == _IN_PROGRESS_FIELDS[version]
    if not in_progress and len(numbers) != _COMPLETED_FIELDS[version]:
        raise CorruptData(f"{len(numbers)} fields in version {version}: {data[:80]!r}")
    try:
        truncation = Truncation(status >> 8 & 0x3)
    except ValueError:
        raise CorruptData(f"unknown truncation status: {data[:80]!r}") from None
    return _decode_fields(numbers, in_progress=in_progress, version=version, truncation=truncation)


def _pack_status(segment: SegmentMetadata) -> int:
    packed = segment.version | segment.truncation << 8 | segment.region_id << 28
    if not segment.in_progress:
        packed |= segment.record_count << 32
    return packed if packed < 2**63 else packed - 2**64


def _numbers(segment: SegmentMetadata) -> list[int]:
    numbers: list[int] = [segment.ledger_id, segment.first_txid]
    if not segment.in_progress:
        numbers += [segment.last_txid, segment.completion_time_ms]
    if segment.version >= 2:
        numbers.append(segment.lssn)
        if not segment.in_progress:
            numbers += [segment.last_entry_id, segment.last_slot]
    if segment.version >= 3:
        numbers += [segment.min_active_entry_id, segment.min_active_slot]
    if segment.version >= 5:
        numbers.append(segment.start_sequence_id)
    return numbers


def _split(data: bytes) -> list[int]:
    # Not int() alone: it also takes "+1", " 1" and "1_0", which nobody ever wrote here.
    fields = data.split(b";")
    if not all(field.removeprefix(b"-").isdigit() and len(field) <= 20 for field in fields):
        raise CorruptData(f"not segment metadata: {data[:80]!r}")
    numbers = [int(field) for field in fields]
    if not all(number in _INT64 for number in numbers):
        raise CorruptData(f"a number beyond 64 bits: {data[:80]!r}")
    return numbers


def _decode_fields(
    numbers: list[int], *, in_progress: bool, version: int, truncation: Truncation
) -> SegmentMetadata:
    status = numbers[0] & 0xFFFF_FFFF_FFFF_FFFF
    rest = iter(numbers[1:])
    ledger_id, first_txid = LedgerId(next(rest)), next(rest)
    last_txid, completion_time_ms, lssn = INVALID_TXID, 0, UNASSIGNED_LSSN
    last_entry_id = last_slot = -1
    if not in_progress:
        last_txid, completion_time_ms = next(rest), next(rest)
    if version >= 2:
        lssn = next(rest)
        if not in_progress:
            last_entry_id, last_slot = next(rest), next(rest)
    return SegmentMetadata(
        lssn=lssn,
        ledger_id=ledger_id,
        first_txid=first_txid,
        in_progress=in_progress,
        version=version,
        truncation=truncation,
        region_id=status >> 28 & 0xF,
        min_active_entry_id=next(rest) if version >= 3 else 0,
        min_active_slot=next(rest) if version >= 3 else 0,
        start_sequence_id=next(rest) if version >= 5 else -1,
        last_txid=last_txid,
        completion_time_ms=completion_time_ms,
        record_count=0 if in_progress else status >> 32,
        last_entry_id=last_entry_id,
        last_slot=last_slot,
    )
