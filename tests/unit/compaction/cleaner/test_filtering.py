"""What stays of records and batches: LogCleanerTest by behaviour, numbered as in reference 9.8."""

import pytest

from tailrace.compaction.cleaner.building import SummaryBuilder
from tailrace.compaction.cleaner.cleanable import LastSequence
from tailrace.compaction.cleaner.errors import CorruptBatch
from tailrace.compaction.cleaner.filtering import FilterRules, SegmentFilter
from tailrace.compaction.cleaner.key_summary import SLOT_BYTES, KeySummary
from tailrace.compaction.cleaner.outcome import Stays
from tailrace.compaction.views.walk import Wanted, walk
from tailrace.protocol.compression import Codec
from tailrace.protocol.records.batch import DELETE_HORIZON, HEADER_SIZE, read_header, stamp_crc
from tailrace.protocol.records.record import iter_records
from tests import malformed
from tests.unit.compaction.cleaner.support import DAY_MS, FakeLog, keys, last_values

A, B, C = b"a", b"b", b"c"


def test_02_duplicates_go_last_values_and_untouched_batches_stay() -> None:
    log = FakeLog()
    log.append((A, b"1"), (B, b"1"), (A, b"2"))
    untouched = log.next_offset
    log.append((C, b"1"))
    log.roll()
    log.append((B, b"2"))
    log.roll()
    before = {
        header.base_offset: batch
        for header, batch in zip(log.headers(), log.batches(), strict=True)
    }
    cleaned = log.clean()
    assert log.offsets() == [2, 3, 4]
    assert last_values(log.read()) == {A: b"2", B: b"2", C: b"1"}
    assert log.batches()[1:] == [before[untouched], before[4]]
    assert cleaned.end == 5
    first = log.headers()[0]
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 2, 1)


def test_what_is_left_keeps_its_batchs_fields_and_records_their_bytes() -> None:
    log = FakeLog()
    log.append((A, b"1"), (B, b"x" * 300), (C, b"1"), producer_id=7, timestamps=[50, 40, 30])
    old = log.headers()[0]
    old_records = list(iter_records(log.batches()[0]))
    log.append((A, b"2"), (C, b"2"))
    log.roll()
    log.clean()
    new = log.headers()[0]
    changed = {"batch_length", "crc", "max_timestamp", "record_count"}
    for name in set(old._fields) - changed:
        assert getattr(new, name) == getattr(old, name), name
    assert (new.record_count, new.max_timestamp) == (1, 40)
    assert list(iter_records(log.batches()[0])) == [old_records[1]]


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_left_is_packed_by_the_batchs_codec(codec: Codec) -> None:
    log = FakeLog()
    log.append((A, b"1" * 500), (B, b"2" * 500), codec=codec)
    log.append((A, b"3"), codec=codec)
    log.roll()
    log.clean()
    assert [header.codec for header in log.headers()] == [codec, codec]
    assert last_values(log.read()) == {B: b"2" * 500, A: b"3"}


def test_05_and_23_the_last_sequence_of_each_producer_stays_in_an_empty_batch() -> None:
    log = FakeLog()
    log.append((A, b"1"), producer_id=1)
    log.append((A, b"2"), producer_id=1)
    log.append((A, b"3"), producer_id=2)
    log.append((A, b"4"))
    log.roll()
    log.clean()
    found = [(h.last_offset, h.record_count, h.producer_id, h.base_sequence) for h in log.headers()]
    assert found == [(1, 0, 1, 1), (2, 0, 2, 0), (3, 1, -1, -1)]
    emptied = log.headers()[0]
    assert (emptied.base_timestamp, emptied.max_timestamp, emptied.size_bytes) == (
        -1,
        1000,
        HEADER_SIZE,
    )


def test_a_batch_that_was_emptied_stays_as_it_is_in_the_next_pass() -> None:
    log = FakeLog()
    log.append((A, b"1"), producer_id=1)
    log.append((A, b"2"))
    log.roll()
    assert log.clean().outcomes[0].is_changed
    before = log.batches()
    assert [header.record_count for header in log.headers()] == [0, 1]
    assert not log.clean().outcomes[0].is_changed
    assert log.batches() == before


def test_06_and_15_an_aborted_transaction_goes_in_three_passes() -> None:
    log = FakeLog(delete_retention_ms=100)
    log.append((A, b"1"), producer_id=1, transactional=True)
    marker = log.end(1, commit=False)
    log.append((B, b"1"))
    log.roll()
    del log.last[1]  # the producer is forgotten: nothing is kept for its sequence
    log.clean()
    assert (keys(log), log.markers()) == ([B], [marker])
    assert not log.headers()[0].attributes & DELETE_HORIZON
    log.clean()
    assert log.headers()[0].attributes & DELETE_HORIZON
    assert (log.markers(), log.headers()[0].base_timestamp) == ([marker], 1_100)
    log.now_ms += 99
    log.clean()
    assert log.markers() == [marker]
    log.now_ms += 1
    log.clean()
    assert (keys(log), log.markers()) == ([B], [])


def test_07_committed_records_stay_aborted_go_and_open_ones_bound_the_pass() -> None:
    log = FakeLog()
    log.append((A, b"committed"), producer_id=1, transactional=True)
    log.append((B, b"aborted"), producer_id=2, transactional=True)
    log.end(1, commit=True)
    log.end(2, commit=False)
    log.roll()
    log.append((A, b"open"), producer_id=1, transactional=True)
    log.roll()
    log.append((C, b"1"))
    log.roll()
    cleaned = log.clean()
    assert cleaned.end == 4
    assert keys(log) == [A, A, C]


def test_an_aborted_value_supersedes_nothing() -> None:
    log = FakeLog()
    log.append((A, b"kept"))
    log.append((A, b"aborted"), producer_id=2, transactional=True)
    log.end(2, commit=False)
    log.roll()
    log.clean()
    assert log.table() == {A: b"kept"}


def test_a_transaction_that_was_aborted_before_the_head_is_over() -> None:
    log = FakeLog()
    log.append((A, b"aborted"), producer_id=1, transactional=True)
    log.end(1, commit=False)
    log.append((A, b"1"))
    log.roll()
    log.clean()
    log.append((A, b"2"), producer_id=1, transactional=True)
    log.end(1, commit=True)
    log.roll()
    log.clean()
    assert [each.value for each in log.read()] == [b"2"]


@pytest.mark.parametrize("commit", [True, False])
def test_08_13_and_14_transactions_over_several_segments(commit: bool) -> None:
    log = FakeLog()
    for key in (A, B, A):
        log.append((key, b"%d" % log.next_offset), producer_id=1, transactional=True)
        log.roll()
    log.end(1, commit=commit)
    log.append((C, b"1"))
    log.roll()
    log.clean(block=1)
    assert log.offsets() == ([1, 2, 4] if commit else [4])
    assert log.markers() == [3]
    log.append((B, b"later"))
    log.roll()
    log.clean()
    assert log.offsets() == ([2, 4, 5] if commit else [4, 5])


def test_09_a_commit_marker_goes_after_its_data_and_its_horizon() -> None:
    log = FakeLog(delete_retention_ms=100)
    log.append((A, b"1"), producer_id=1, transactional=True)
    marker = log.end(1, commit=True)
    log.append((A, b"2"))
    log.roll()
    del log.last[1]
    log.clean()
    assert (log.offsets(), log.markers()) == ([2], [marker])
    log.now_ms += DAY_MS
    log.clean()
    assert log.headers()[0].base_timestamp == log.now_ms + 100
    log.now_ms += 100
    log.clean()
    assert log.markers() == []


def test_09_each_transaction_of_a_producer_has_its_own_marker() -> None:
    log = FakeLog(delete_retention_ms=0)
    log.append((A, b"kept"), producer_id=1, transactional=True)
    kept = log.end(1, commit=True)
    log.append((B, b"1"), producer_id=1, transactional=True)
    log.end(1, commit=True)
    log.append((B, b"2"))
    log.roll()
    del log.last[1]
    for _ in range(3):
        log.clean()
    assert (log.offsets(), log.markers()) == ([0, 4], [kept])


@pytest.mark.parametrize(("epoch", "is_kept"), [(0, True), (1, False)])
def test_12_the_marker_that_alone_has_a_producers_epoch_stays_without_record(
    epoch: int, is_kept: bool
) -> None:
    log = FakeLog(delete_retention_ms=0)
    log.append((A, b"1"), producer_id=1, transactional=True)
    marker = log.end(1, commit=True)
    log.append((A, b"2"))
    log.roll()
    log.last[1] = LastSequence(-1, epoch)
    for _ in range(4):
        log.clean()
    left = [(h.base_offset, h.record_count) for h in log.headers() if h.is_control]
    assert left == ([(marker, 0)] if is_kept else [])
    assert not any(header.attributes & DELETE_HORIZON for header in log.headers())
    assert log.offsets() == [2]


def test_10_and_12_empty_batches_and_markers_are_read_through() -> None:
    log = FakeLog(delete_retention_ms=0)
    log.append((A, b"1"), producer_id=1, transactional=True)
    log.end(1, commit=True)
    log.append((A, b"2"), producer_id=2)
    log.append((A, b"3"))
    log.roll()
    log.clean()
    emptied = log.batches()[0]
    assert read_header(emptied).record_count == 0
    for _ in range(3):
        log.clean(block=1)
    assert log.batches()[0] == emptied
    assert log.offsets() == [3]


def test_11_16_and_17_a_marker_stays_beside_its_producers_empty_batch() -> None:
    log = FakeLog(delete_retention_ms=0)
    log.append((A, b"1"), producer_id=1, transactional=True)
    marker = log.end(1, commit=False)
    log.append((B, b"1"))
    log.roll()
    for _ in range(3):
        log.clean()
    assert [(h.base_offset, h.record_count) for h in log.headers()] == [(0, 0), (marker, 1), (2, 1)]
    log.append((C, b"1"), producer_id=1)  # a newer batch has the last sequence
    log.roll()
    log.clean()
    assert [h.base_offset for h in log.headers()] == [marker, 2, 3]
    for _ in range(2):
        log.clean()
    assert [h.base_offset for h in log.headers()] == [2, 3]


def test_18_and_19_a_batch_of_any_size_is_cleaned() -> None:
    log = FakeLog()
    log.append((A, b"1" * 2_000_000), (B, b"2"))
    log.append((A, b"3"))
    log.roll()
    log.clean(block=1)
    assert last_values(log.read()) == {B: b"2", A: b"3"}


def test_19_and_35_a_flipped_bit_is_told_with_its_offset() -> None:
    log = FakeLog()
    log.append((A, b"1"))
    log.append((B, b"1"))
    broken = bytearray(log.segments[0][1])
    broken[-1] ^= 0x40
    log.segments[0][1] = bytes(broken)
    log.roll()
    with pytest.raises(CorruptBatch, match="batch at offset 1: record batch: stored crc") as error:
        log.clean()
    assert (error.value.index, error.value.offset) == (1, 1)


@pytest.mark.parametrize("change", [-1, 1])
def test_20_a_size_field_that_is_wrong_is_told(change: int) -> None:
    log = FakeLog()
    log.append((A, b"1"))
    broken = bytearray(log.segments[0][0])
    broken[8:12] = (len(broken) - 12 + change).to_bytes(4, "big")
    log.segments[0][0] = bytes(broken)
    log.roll()
    with pytest.raises(CorruptBatch, match="batch at offset 0"):
        log.clean()


def test_21_deletes_go_in_two_passes() -> None:
    log = FakeLog(delete_retention_ms=100)
    log.append((A, b"1"), (B, b"1"), timestamps=[500, 600])
    log.append((A, None), (C, b"1"), timestamps=[700, 650])
    log.roll()
    log.clean()
    assert [(e.key, e.timestamp) for e in log.read()] == [(B, 600), (A, 700), (C, 650)]
    stamped = log.headers()[1]
    assert (stamped.attributes & DELETE_HORIZON, stamped.base_timestamp) == (DELETE_HORIZON, 1_100)
    assert stamped.max_timestamp == 700
    log.now_ms += 99
    log.clean()
    assert keys(log) == [B, A, C]
    assert log.headers()[1].base_timestamp == 1_100
    log.now_ms += 1
    log.clean()
    assert [(e.key, e.timestamp) for e in log.read()] == [(B, 600), (C, 650)]
    assert log.headers()[1].base_timestamp == 1_100


def test_a_delete_marker_that_is_kept_for_ever_has_the_last_horizon_there_is() -> None:
    log = FakeLog(delete_retention_ms=2**63 - 1)
    log.append((A, None), (B, b"1"), timestamps=[700, -1])
    log.append((A, b"1"), producer_id=1, transactional=True)
    marker = log.end(1, commit=True)
    log.append((A, None))
    log.roll()
    del log.last[1]
    log.clean()
    log.clean()
    assert [header.base_timestamp for header in log.headers()] == [700, 2**63 - 1, 2**63 - 1]
    log.now_ms = 2**62
    log.clean()
    assert (keys(log), log.markers()) == ([B, A], [marker])
    assert [each.timestamp for each in log.read()] == [-1, 1_000]


def test_a_delete_marker_behind_the_end_of_the_pass_gets_no_horizon() -> None:
    log = FakeLog(delete_retention_ms=0)
    log.append((A, b"1"))
    log.append((B, b"1"), (A, None))
    log.roll()
    cleaned = log.clean(slots=2)  # one key
    assert cleaned.end == 1
    assert not any(header.attributes & DELETE_HORIZON for header in log.headers())
    log.clean(slots=5)
    assert keys(log) == [B, A]
    assert log.headers()[-1].attributes & DELETE_HORIZON


def test_a_batch_that_ends_with_the_first_offset_not_covered_gets_no_horizon() -> None:
    log = FakeLog()
    log.append((A, b"1"))
    log.append((A, b"2"), (B, None))
    log.roll()
    assert log.clean(slots=2).end == 2
    assert log.offsets() == [1, 2]
    assert not any(header.attributes & DELETE_HORIZON for header in log.headers())


def _filtered_with_rubbish(log: FakeLog, at: int) -> list[Stays]:
    """Clean a segment whose batch at a place holds no records when it is read the second time."""
    summary = KeySummary(1009 * SLOT_BYTES)
    log.fill(summary, 1)
    batches = [bytearray(batch) for batch in log.segments[0]]
    batches[at][HEADER_SIZE:] = b"\xff" * (len(batches[at]) - HEADER_SIZE)
    stamp_crc(batches[at])
    rules = FilterRules(summary=summary, delete_retention_ms=DAY_MS)
    cleaner = SegmentFilter(rules, log.aborted)
    cleaner.begin_segment(log.now_ms)
    return cleaner.filter(batches)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_batch_of_the_head_in_which_all_is_superseded_is_not_unpacked(codec: Codec) -> None:
    log = FakeLog()
    log.append((A, b"1"), (B, None), codec=codec)
    log.append((A, b"2"), (B, b"2"), codec=codec)
    log.roll()
    assert _filtered_with_rubbish(log, 0) == [1]
    with pytest.raises(CorruptBatch):
        _filtered_with_rubbish(log, 1)


@pytest.mark.parametrize("kept", [0, 1, 16, 17, 40, 63])
@pytest.mark.parametrize("codec", list(Codec))
def test_a_record_that_was_left_alone_is_read_by_the_next_pass(codec: Codec, kept: int) -> None:
    """What is packed then begins with any offset delta."""
    log = FakeLog()
    log.append(*[(b"%012d" % at, b"") for at in range(64)], codec=codec)
    log.append(*[(b"%012d" % at, b"2") for at in range(64) if at != kept], codec=codec)
    log.roll()
    log.clean()
    log.append((A, b"1"), codec=codec)
    log.roll()
    log.clean()
    assert log.read()[0].key == b"%012d" % kept
    assert len(log.read()) == 65


def test_a_batch_is_unpacked_where_offsets_do_not_tell() -> None:
    keyless = FakeLog()
    keyless.append((A, b"1"), (None, b"1"))
    keyless.append((A, b"2"))
    keyless.roll()
    with pytest.raises(CorruptBatch):
        _filtered_with_rubbish(keyless, 0)
    summary = KeySummary(1009 * SLOT_BYTES)
    keyless.fill(summary, 1)
    assert summary.has_keyless
    summary.clear()
    assert not summary.has_keyless
    cleaned = FakeLog()
    cleaned.append((A, b"1"), (B, b"1"), (C, b"1"))
    cleaned.append((B, b"2"))
    cleaned.roll()
    cleaned.clean()  # the first batch lacks an offset since
    cleaned.first_dirty = 0
    cleaned.append((A, b"3"), (C, b"3"))
    cleaned.segments[0] += cleaned.segments.pop()
    cleaned.bases.pop()
    cleaned.roll()
    with pytest.raises(CorruptBatch):
        _filtered_with_rubbish(cleaned, 0)


def test_22_what_was_read_written_and_dropped_is_counted() -> None:
    log = FakeLog()
    log.append((A, b"1"), (None, b"1"), (B, None), timestamps=[10, 20, 15])
    log.append((A, b"2"), timestamps=[5])
    log.roll()
    before = sum(map(len, log.batches()))
    cleaned = log.clean()
    outcome = cleaned.outcomes[0]
    assert (outcome.batches_in, outcome.records_in, outcome.bytes_in) == (2, 4, before)
    assert (outcome.batches, outcome.records) == (2, 2)
    assert outcome.bytes_out == sum(map(len, log.batches()))
    assert (outcome.invalid, outcome.tombstones, outcome.keys) == (1, 1, 2)
    assert (outcome.first_timestamp, outcome.max_timestamp, outcome.last_offset) == (15, 15, 3)
    assert (cleaned.builder.records, len(cleaned.summary), outcome.is_changed) == (4, 2, True)
    again = log.clean().outcomes[0]
    assert (again.is_changed, again.keys, again.bytes_in) == (False, 2, outcome.bytes_out)


def test_24_keys_that_look_like_a_markers_have_nothing_to_do_with_it() -> None:
    log = FakeLog()
    for commit in (True, False):
        key = bytes([0, 0, 0, commit])
        log.append((key, b"1"))
        log.append((b"other%d" % commit, b"1"), producer_id=1, transactional=True)
        log.end(1, commit=commit)
    log.roll()
    log.clean()
    assert keys(log) == [bytes([0, 0, 0, 1]), b"other1", bytes(4)]
    assert log.markers() == [2, 5]


def test_25_and_32_a_full_map_ends_the_pass_inside_a_segment() -> None:
    log = FakeLog()
    log.append(*[(b"%d" % key, b"1") for key in range(6)])
    log.append(*[(b"%d" % key, b"2") for key in range(6)])
    log.roll()
    cleaned = log.clean(slots=5)
    assert cleaned.summary.is_full
    assert (cleaned.end, cleaned.summary.latest_offset, cleaned.outcomes[0].keys) == (4, 3, None)
    assert log.offsets() == list(range(12))
    ends = [log.clean(slots=5).end for _ in range(3)]
    assert ends == [8, 12, 12]
    assert log.offsets() == list(range(6, 12))


def test_26_what_cannot_be_cleaned_yet_is_left_as_it_is() -> None:
    log = FakeLog()
    for _ in range(3):
        log.append((A, b"1"), (A, b"2"))
        log.roll()
    before = log.segments[1:]
    log.clean(segments=1)
    assert log.offsets() == [1, 2, 3, 4, 5]
    assert log.segments[1:] == before


def test_28_records_without_key_are_dropped_and_counted() -> None:
    log = FakeLog()
    log.append((None, b"1"), (A, b"1"), (None, None))
    log.append((None, b"2"))
    log.append((B, b"1"))
    log.roll()
    cleaned = log.clean()
    assert (keys(log), cleaned.outcomes[0].invalid) == ([A, B], 3)
    assert [header.base_offset for header in log.headers()] == [0, 4]


def test_30_the_last_batch_of_the_range_stays_empty() -> None:
    log = FakeLog()
    log.append((A, b"1"))
    log.append((None, b"1"))
    log.roll()
    log.clean()
    assert [(h.last_offset, h.record_count) for h in log.headers()] == [(0, 1), (1, 0)]
    log.append((B, b"1"))
    log.roll()
    log.clean()
    assert [(h.last_offset, h.record_count) for h in log.headers()] == [(0, 1), (2, 1)]


def test_32_the_map_holds_the_head_from_its_first_offset_on() -> None:
    log = FakeLog()
    log.append((A, b"1"), (B, b"1"))
    log.append((C, b"1"), (A, b"2"), (None, b"1"))
    log.roll()
    log.first_dirty = 1
    summary = KeySummary(101 * SLOT_BYTES)
    builder = log.fill(summary, 1)
    assert (len(summary), summary.latest_offset, builder.records) == (3, 4, 5)
    log.first_dirty = 2
    log.fill(summary, 1)
    assert (len(summary), summary.latest_offset) == (2, 4)


def test_32_a_key_that_is_known_fits_a_full_map() -> None:
    log = FakeLog()
    log.append((A, b"1"), (B, b"1"), (A, b"2"), (B, b"2"))
    log.append((C, b"1"))
    log.append((A, b"3"))
    log.roll()
    cleaned = log.clean(slots=3)  # two keys
    assert (cleaned.end, log.offsets()) == (4, [2, 3, 4, 5])


def test_36_a_delete_with_an_older_timestamp_wins_by_its_offset() -> None:
    log = FakeLog(delete_retention_ms=0)
    log.append((A, b"1"), timestamps=[900])
    log.append((A, None), timestamps=[100])
    log.append((B, b"1"))
    log.roll()
    log.clean()
    assert [(e.key, e.value, e.timestamp) for e in log.read()] == [(A, None, 100), (B, b"1", 1_000)]
    log.clean()
    assert keys(log) == [B]


def test_37_offsets_that_are_missing_at_a_segments_end_are_passed() -> None:
    log = FakeLog()
    log.append((A, b"1"))
    log.next_offset = 10
    log.roll()
    log.append((A, b"2"))
    log.roll()
    assert log.clean(segments=1).end == 10
    assert log.clean().end == 11
    assert log.offsets() == [10]


def test_a_batch_whose_time_is_the_brokers_keeps_it() -> None:
    log = FakeLog()
    log.append((A, b"1"), (B, None), timestamps=[5, 6], attributes=0x08)
    log.append((A, b"2"))
    log.roll()
    log.clean()
    assert [(e.key, e.timestamp) for e in log.read()] == [(B, 6), (A, 1_000)]
    assert log.headers()[0].is_log_append_time


def test_a_batch_that_holds_something_else_than_its_header_says_is_told() -> None:
    log = FakeLog()
    log.append((A, b"1"), (B, b"1"))
    for count in (1, 3):
        broken = bytearray(log.segments[0][0])
        broken[57:61] = count.to_bytes(4, "big")
        stamp_crc(broken)
        other = FakeLog()
        other.add(broken)
        other.roll()
        with pytest.raises(CorruptBatch, match="record"):
            other.clean()


@pytest.mark.parametrize("deltas", [(0, 0, 0), (5, 9, 7), (2, 1, 0), (0, 1, 7)])
def test_a_log_with_offsets_that_do_not_rise_in_a_batch_is_cleaned(deltas: tuple[int, ...]) -> None:
    log = FakeLog()
    parts = zip(deltas, (b"a", b"c", b"a"), (b"1", b"2", b"3"), strict=True)
    log.add(malformed.sealed(b"".join(malformed.record(*part) for part in parts), 3))
    log.append((B, b"4"))
    log.roll()
    for _ in range(2):
        log.clean()
        left = [r for batch in log.batches() for r in iter_records(batch)]
        assert [(each.key, each.value) for each in left] == [(C, b"2"), (A, b"3"), (B, b"4")]


def test_a_negative_count_of_records_is_refused_behind_the_end_of_a_pass_too() -> None:
    """Such a batch is read by the second walk alone: it must not go as one without records."""
    log = FakeLog()
    log.append((A, b"1"))
    log.append((B, b"1"))
    log.append((C, b"1"))
    bad = bytearray(log.segments[0][1])
    bad[57:61] = (-1).to_bytes(4, "big", signed=True)
    stamp_crc(bad)
    log.segments[0][1] = bytes(bad)
    summary = KeySummary(1009 * SLOT_BYTES)
    SummaryBuilder(summary, 0, ()).add(log.segments[0][:1])
    cleaner = SegmentFilter(FilterRules(summary=summary, delete_retention_ms=DAY_MS), ())
    cleaner.begin_segment(log.now_ms)
    with pytest.raises(CorruptBatch, match="-1 records in") as raised:
        cleaner.filter(log.segments[0])
    assert (raised.value.index, raised.value.offset) == (1, 1)
    with pytest.raises(CorruptBatch, match="-1 records in"):
        walk(log.segments[0], (), Wanted(0, 0, 3))
