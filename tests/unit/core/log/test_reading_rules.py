"""The decisions of reading, each against a dumb second opinion or by a table."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import AlreadyTruncatedTransaction
from tailrace.core.log.entries import LogRecordWithDLSN, visible_records
from tailrace.core.log.idleness import NEVER_MS, Idleness, Silence
from tailrace.core.log.position_check import PositionCheck, PositionGap
from tailrace.core.log.positioning import first_readable
from tailrace.core.log.read_pace import SMALLEST_BYTES, ReadPace
from tailrace.core.log.segments import SegmentList
from tailrace.core.log.sequence_ids import sequence_id, sequence_start
from tailrace.core.metadata.segment_metadata import SegmentMetadata, Truncation
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.envelope import pack_envelope
from tailrace.protocol.distributedlog.record import LogRecord, control_record
from tailrace.protocol.distributedlog.record_set import record_set
from tailrace.protocol.ids import LedgerId

ACTIVE, PARTIAL, TRUNCATED = Truncation.ACTIVE, Truncation.PARTIALLY_TRUNCATED, Truncation.TRUNCATED


def segments_of(first: int, *statuses: Truncation) -> SegmentList:
    return SegmentList(
        tuple(
            SegmentMetadata(
                lssn=lssn,
                ledger_id=LedgerId(lssn),
                first_txid=lssn,
                in_progress=False,
                truncation=status,
                min_active_entry_id=4 if status is PARTIAL else 0,
                min_active_slot=2 if status is PARTIAL else 0,
            )
            for lssn, status in enumerate(statuses, first)
        )
    )


@pytest.mark.parametrize(
    ("segments", "start", "expected"),
    [
        (segments_of(1), DLSN(5, 1, 1), DLSN(5, 1, 1)),
        (segments_of(3, ACTIVE, ACTIVE), DLSN(1, 0, 0), DLSN(3, 0, 0)),
        (segments_of(3, ACTIVE, ACTIVE), DLSN(4, 7, 1), DLSN(4, 7, 1)),
        (segments_of(3, ACTIVE, ACTIVE), DLSN(9, 7, 1), DLSN(9, 7, 1)),
        (segments_of(1, TRUNCATED, TRUNCATED, ACTIVE), DLSN(1, 0, 0), DLSN(3, 0, 0)),
        (segments_of(1, TRUNCATED, PARTIAL, ACTIVE), DLSN(1, 0, 0), DLSN(2, 4, 2)),
        (segments_of(1, TRUNCATED, PARTIAL, ACTIVE), DLSN(2, 4, 1), DLSN(2, 4, 2)),
        (segments_of(1, TRUNCATED, PARTIAL, ACTIVE), DLSN(2, 4, 3), DLSN(2, 4, 3)),
        (segments_of(1, TRUNCATED, PARTIAL, ACTIVE), DLSN(3, 0, 0), DLSN(3, 0, 0)),
        (segments_of(1, TRUNCATED, TRUNCATED), DLSN(1, 0, 0), DLSN(3, 0, 0)),
        (segments_of(1, TRUNCATED, TRUNCATED), DLSN(5, 0, 0), DLSN(5, 0, 0)),
    ],
)
def test_where_a_reader_begins(segments: SegmentList, start: DLSN, expected: DLSN) -> None:
    """TestReadAheadEntryReader.testPositioningAtInvalidLogSegment, reference 7.3."""
    assert first_readable(segments, start) == expected
    assert first_readable(segments, start, ignores_truncation=True) == start


@pytest.mark.parametrize(
    "statuses", [(ACTIVE, TRUNCATED), (PARTIAL, ACTIVE, PARTIAL), (TRUNCATED, PARTIAL, TRUNCATED)]
)
def test_a_hole_in_what_is_kept_is_no_beginning(statuses: tuple[Truncation, ...]) -> None:
    """TestReadAheadEntryReader.testPositioningAtInvalidLogSegment: 511."""
    with pytest.raises(AlreadyTruncatedTransaction) as caught:
        first_readable(segments_of(1, *statuses), DLSN(1, 0, 0))
    assert caught.value.code == 511
    segments = segments_of(1, *statuses)
    assert first_readable(segments, DLSN(1, 0, 0), ignores_truncation=True) == DLSN(1, 0, 0)


def test_an_idle_reader_looks_again_and_gives_up_later() -> None:
    idle = Idleness(warn_ms=2000, error_ms=5000)
    assert idle.left_s(99.0) is None
    told = [idle.on_nothing(10.0 + second) for second in range(6)]
    normal, look = Silence.NORMAL, Silence.LOOK_AGAIN
    assert told == [normal, normal, look, normal, look, Silence.TOO_LONG]
    assert idle.left_s(12.0) == pytest.approx(3.0)
    assert idle.left_s(99.0) == 0.0
    idle.on_entry()
    assert idle.on_nothing(100.0) is normal


def test_by_default_no_reader_gives_up() -> None:
    idle = Idleness(warn_ms=10, error_ms=NEVER_MS)
    assert idle.on_nothing(0.0) is Silence.NORMAL
    assert idle.on_nothing(1e9) is Silence.LOOK_AGAIN
    assert idle.left_s(1e9) is None


def test_the_pace_follows_the_consumer() -> None:
    pace = ReadPace(4 * SMALLEST_BYTES)
    assert pace.bytes == 0
    pace.on_asked(10)
    assert pace.bytes == SMALLEST_BYTES
    pace.on_asked(10)
    for expected in (2, 4, 4):
        pace.on_taken(waited=True, came_in_s=1.0, lay_s=0.0)
        assert pace.bytes == expected * SMALLEST_BYTES
    pace.on_taken(waited=False, came_in_s=1.0, lay_s=8.0)
    assert pace.bytes == 4 * SMALLEST_BYTES, "quick enough"
    for expected in (2, 1, 1):
        pace.on_taken(waited=False, came_in_s=1.0, lay_s=9.0)
        assert pace.bytes == expected * SMALLEST_BYTES
    pace.on_asked(2 * SMALLEST_BYTES)
    assert pace.bytes == 2 * SMALLEST_BYTES
    pace.on_asked(10)
    pace.on_taken(waited=False, came_in_s=1.0, lay_s=9.0)
    assert pace.bytes == 2 * SMALLEST_BYTES, "never half of what the consumer takes at once"
    pace.on_asked(9 * SMALLEST_BYTES)
    assert pace.bytes == 4 * SMALLEST_BYTES
    small = ReadPace(1000)
    small.on_asked(10)
    small.on_taken(waited=False, came_in_s=1.0, lay_s=9.0)
    assert small.bytes == 1000


def counted(lssn: int, *, start: int, count: int, version: int = 5) -> SegmentMetadata:
    return SegmentMetadata(
        lssn=lssn,
        ledger_id=LedgerId(lssn),
        first_txid=0,
        in_progress=False,
        version=version,
        record_count=count,
        start_sequence_id=start,
    )


def test_sequence_ids() -> None:
    """TestSequenceID.testSequenceID, testCompleteV4LogSegmentAsV5: mixed versions."""
    writing = SegmentMetadata(lssn=3, ledger_id=LedgerId(3), first_txid=0)
    first, second = counted(1, start=0, count=7), counted(2, start=7, count=3)
    segments = SegmentList((first, second, writing))
    assert [sequence_start(segments, lssn) for lssn in (1, 2, 3)] == [0, 7, 10]
    record = LogRecordWithDLSN(DLSN(3, 4, 0), LogRecord(9, b"", 0, 5))
    assert sequence_id(segments, record) == 14
    assert sequence_start(SegmentList((writing,)), 3) == 0
    old = SegmentList((counted(1, start=-1, count=7, version=4), replace(writing, lssn=2)))
    assert [sequence_start(old, lssn) for lssn in (1, 2)] == [-(2**63) + (n << 32) for n in (1, 2)]
    rolling = SegmentList((replace(writing, lssn=2), writing))
    assert [sequence_start(rolling, lssn) for lssn in (2, 3)] == [0, -(2**63) + (3 << 32)]


# -- gaps in positions ---

kinds = st.sampled_from(["user", "control", "set"])


@given(
    entries=st.lists(st.lists(st.tuples(kinds, st.integers(1, 3)), max_size=4), max_size=6),
    lost=st.sets(st.integers(0, 5)),
    expands=st.booleans(),
    from_beginning=st.booleans(),
)
def test_a_gap_is_seen_exactly_where_records_are_missing(
    entries: list[list[tuple[str, int]]], lost: set[int], expands: bool, from_beginning: bool
) -> None:
    """The oracle writes every position down and looks for the neighbour of each."""
    segment = SegmentMetadata(lssn=1, ledger_id=LedgerId(1), first_txid=0)
    position = 1
    check = PositionCheck(from_beginning=from_beginning)
    last = 0 if from_beginning else None
    for entry_id, kinds_of in enumerate(entries):
        records: list[LogRecord] = []
        here: list[int] = []
        for kind, count in kinds_of:
            if kind == "control":
                records.append(control_record(0, position - 1))
                continue
            size = count if kind == "set" else 1
            here += range(position, position + size)
            values = [b"x"] * size
            records.append(
                record_set(0, values, position) if kind == "set" else LogRecord(0, b"", 0, position)
            )
            position += size
        if not records or entry_id in lost:
            continue
        payload = memoryview(b"".join(pack_envelope(records)))
        entry = Entry(LedgerId(1), entry_id, -1, len(payload), payload)
        seen = visible_records(segment, entry, expands_sets=expands)
        if not seen.slots:
            continue
        gap = check.passes(seen)
        if last is not None and here[0] != last + 1:
            assert gap == PositionGap(last + 1, here[0])
            check.accept(seen)
        else:
            assert gap is None
        last = here[-1]


def test_who_does_not_count_has_no_gaps() -> None:
    segment = SegmentMetadata(lssn=1, ledger_id=LedgerId(1), first_txid=0)
    check = PositionCheck(from_beginning=True)
    for entry_id in range(3):
        payload = memoryview(b"".join(pack_envelope([LogRecord(0, b""), LogRecord(1, b"")])))
        entry = Entry(LedgerId(1), entry_id, -1, len(payload), payload)
        assert check.passes(visible_records(segment, entry)) is None
    payload = memoryview(
        b"".join(pack_envelope([LogRecord(0, b"", 0, 1), LogRecord(0, b"", 0, 3)]))
    )
    entry = Entry(LedgerId(1), 9, -1, len(payload), payload)
    assert check.passes(visible_records(segment, entry)) == PositionGap(2, 3)
