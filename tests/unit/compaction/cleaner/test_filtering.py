"""What stays of records and batches: Kafka's LogCleanerTest by behaviour (reference Kafka 9.8)."""

from tests.unit.compaction.cleaner.support import FakeLog, keys, last_values


def test_basic_duplicates_go_and_the_last_values_stay() -> None:
    log = FakeLog()
    log.append((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    log.append((b"c", b"1"))
    log.roll()
    log.append((b"b", b"2"))
    log.roll()
    untouched = log.segments[0][1]
    cleaned = log.clean()
    assert log.offsets() == [2, 3, 4]
    assert last_values(log.read()) == {b"a": b"2", b"b": b"2", b"c": b"1"}
    assert log.segments[0][1] is untouched or log.segments[0][1] == untouched
    assert cleaned.end == 5
    first = log.headers()[0]
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 2, 1)


def test_keys_of_the_active_segment_decide_nothing() -> None:
    log = FakeLog()
    log.append((b"a", b"1"))
    log.roll()
    log.append((b"a", b"2"))
    log.clean()
    assert keys(log) == [b"a", b"a"]
