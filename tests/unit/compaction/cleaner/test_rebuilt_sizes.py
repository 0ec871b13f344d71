"""Batches that would become larger than a segment takes."""

import pytest

from tailrace.compaction.cleaner.building import SummaryBuilder
from tailrace.compaction.cleaner.errors import CorruptBatch
from tailrace.compaction.cleaner.filtering import FilterRules, SegmentFilter
from tailrace.compaction.cleaner.key_summary import SLOT_BYTES, KeySummary
from tailrace.protocol.compression import Codec
from tailrace.protocol.records.batch import DELETE_HORIZON, read_header
from tailrace.protocol.records.recompress import StoredAs, recompress
from tailrace.protocol.records.record import Record, build_batch, iter_records
from tests.unit.compaction.cleaner.support import DAY_MS, left_of


def filtered(batches: list[bytes], bytes_max: int) -> list[bytes]:
    """Return what a pass leaves of a log whose batches may not be larger than that."""
    summary = KeySummary(1009 * SLOT_BYTES)
    SummaryBuilder(summary, 0, ()).add(batches)
    rules = FilterRules(summary=summary, delete_retention_ms=DAY_MS, batch_bytes_max=bytes_max)
    cleaner = SegmentFilter(rules, ())
    cleaner.begin_segment(10 * DAY_MS)
    return left_of(batches, cleaner.filter(batches))


def test_a_batch_without_room_for_a_horizon_gets_none() -> None:
    """A horizon makes every timestamp some bytes longer: a million delete markers, 3 MB more."""
    markers = [Record(at, 1_000 + at, key=b"k%d" % at) for at in range(50)]
    batch = bytes(build_batch(markers))
    assert filtered([batch], len(batch) + 100) == [batch]
    (kept,) = filtered([batch], len(batch) + 300)
    assert read_header(kept).base_timestamp == 11 * DAY_MS
    later = bytes(build_batch([Record(50, 2_000, key=b"k7", value=b"")], base_offset=50))
    kept, _ = filtered([batch, later], len(batch))
    assert list(iter_records(kept)) == [each for each in markers if each.key != b"k7"]
    assert not read_header(kept).attributes & DELETE_HORIZON


@pytest.mark.parametrize(("codec", "level"), [(Codec.GZIP, 9), (Codec.LZ4, 12), (Codec.ZSTD, 22)])
def test_a_batch_that_packs_worse_than_it_came_is_packed_tighter(codec: Codec, level: int) -> None:
    lines = b"".join(b"line %d of a text that repeats itself\n" % (n * n) for n in range(3000))
    records = [Record(0, 1, key=b"a", value=lines), Record(1, 1, key=b"b", value=b"")]
    plain = bytes(build_batch(records))
    batch = bytes(recompress(plain, read_header(plain), StoredAs(codec, level)))
    later = bytes(build_batch([Record(2, 1, key=b"b", value=b"")], base_offset=2))
    loose, _ = filtered([batch, later], 2**31 - 1)
    assert len(loose) > len(batch)
    tight, _ = filtered([batch, later], len(batch))
    assert len(tight) <= len(batch)
    assert list(iter_records(tight)) == records[:1]


def test_a_batch_that_packs_worse_than_it_came_and_has_no_room_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No codec that producers use packs tighter than the tightest here; without one it shows."""
    lines = b"".join(b"line %d of a text that repeats itself\n" % (n * n) for n in range(3000))
    records = [Record(0, 1, key=b"a", value=lines), Record(1, 1, key=b"b", value=b"")]
    plain = bytes(build_batch(records))
    batch = bytes(recompress(plain, read_header(plain), StoredAs(Codec.GZIP, 9)))
    later = bytes(build_batch([Record(2, 1, key=b"b", value=b"")], base_offset=2))
    monkeypatch.setattr("tailrace.compaction.cleaner.filtering.TIGHTEST", {})
    with pytest.raises(CorruptBatch, match=rf"take \d+ bytes, {len(batch)} fit"):
        filtered([batch, later], len(batch) - 1)


def test_a_batch_that_was_stored_has_room_when_it_lost_records() -> None:
    """It was written when larger ones were allowed, to a ledger that takes it; so will the next."""
    records = [Record(at, 1, key=b"k%d" % at, value=bytes(100)) for at in range(10)]
    batch = bytes(build_batch(records))
    later = bytes(build_batch([Record(10, 1, key=b"k0", value=b"")], base_offset=10))
    cut, _ = filtered([batch, later], len(batch) - 1)
    assert list(iter_records(cut)) == records[1:]
    assert filtered([batch, later], 1)[0] == cut
