"""What readers see of an entry, against a dumb second implementation that makes every record."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import CorruptData
from tailrace.core.log.entries import LogRecordWithDLSN, visible_records
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.envelope import EnvelopeCodec, pack_bare, pack_envelope
from tailrace.protocol.distributedlog.record import (
    CONTROL,
    HEADER_SIZE,
    LogRecord,
    control_record,
    end_of_stream_record,
)
from tailrace.protocol.distributedlog.record_set import record_set
from tailrace.protocol.ids import LedgerId

LSSN = 7


def segment_of(version: int) -> SegmentMetadata:
    return SegmentMetadata(lssn=LSSN, ledger_id=LedgerId(3), first_txid=0, version=version)


def entry_of(payload: bytes) -> Entry:
    return Entry(LedgerId(3), 5, 4, len(payload), memoryview(payload))


values = st.binary(max_size=20)
pieces = st.one_of(
    st.tuples(st.just("plain"), values),
    st.tuples(st.just("control"), values),
    st.tuples(st.just("set"), st.lists(values, max_size=4)),
    st.tuples(st.just("controlled set"), st.lists(values, max_size=3)),
    st.tuples(st.just("unknown flag"), values),
    st.tuples(st.just("end"), st.just(b"")),
)


def record_of(kind: str, value: Any, txid: int, position: int) -> LogRecord:
    match kind:
        case "control":
            return control_record(txid, position, value)
        case "end":
            return end_of_stream_record(position)
        case "set":
            return record_set(txid, value, position)
        case "controlled set":
            record = record_set(txid, value, position)
            return record._replace(flags=record.flags | CONTROL)
        case _:
            return LogRecord(txid, value, 0x100 if kind == "unknown flag" else 0, position)


@st.composite
def written(draw: st.DrawFn) -> tuple[list[LogRecord], list[LogRecordWithDLSN], bool]:
    """Records of an entry, what readers see of them, and whether the log ends with them."""
    records: list[LogRecord] = []
    seen: list[LogRecordWithDLSN] = []
    slot = position = 0
    is_last = False
    for txid, (kind, value) in enumerate(draw(st.lists(pieces, max_size=8))):
        inner = value if isinstance(value, list) else [value]
        records.append(record_of(kind, value, txid, position))
        is_last = is_last or kind == "end"
        if kind in {"plain", "set", "unknown flag"} and not is_last:
            flags = 0x100 if kind == "unknown flag" else 0
            for index, each in enumerate(inner):
                found = LogRecord(txid, each, flags, position + index)
                seen.append(LogRecordWithDLSN(DLSN(LSSN, 5, slot + index), found))
        slot += len(inner)
        position += len(inner)
    return records, seen, is_last


@given(written(), st.sampled_from(["none", "lz4", "bare"]))
def test_what_readers_see(
    case: tuple[list[LogRecord], list[LogRecordWithDLSN], bool], form: str
) -> None:
    records, expected, is_last = case
    if form == "bare":
        parts = pack_bare(records)
    else:
        parts = pack_envelope(records, EnvelopeCodec.LZ4 if form == "lz4" else 0)
    found = visible_records(segment_of(3 if form == "bare" else 5), entry_of(b"".join(parts)))
    assert list(found.records()) == expected
    assert found.is_last == is_last
    sizes = [HEADER_SIZE + len(each.record.payload) for each in expected]
    assert found.size_bytes == sum(sizes)
    for count in range(len(expected) + 1):
        rest = found.behind(count)
        assert list(rest.records()) == expected[count:]
        assert rest.size_bytes == sum(sizes[count:])
        assert rest.is_last == is_last
    for slot in range(12):
        at = [each for each in expected if each.dlsn.slot >= slot]
        assert list(found.from_slot(slot).records()) == at


@given(written(), st.integers(0, 400))
def test_cut_bytes_are_corrupt_or_fewer_records(
    case: tuple[list[LogRecord], list[LogRecordWithDLSN], bool], size: int
) -> None:
    whole = b"".join(pack_bare(case[0]))
    cut = whole[:size]
    ends = [0]
    for record in case[0]:
        ends.append(ends[-1] + HEADER_SIZE + len(record.payload))
    if len(cut) not in ends:
        with pytest.raises(CorruptData):
            visible_records(segment_of(3), entry_of(cut))
    else:
        found = list(visible_records(segment_of(3), entry_of(cut)).records())
        assert found == case[1][: len(found)]
