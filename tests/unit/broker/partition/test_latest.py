"""Records are picked by the offsets that views have of them."""

import pytest

from tailrace.broker.partition.latest import pick_records
from tailrace.protocol.records.record import Record, build_batch
from tests import malformed


def test_records_are_picked_by_their_offsets() -> None:
    records = [Record(5, 9, key=b"a"), Record(8, 9, key=b"b"), Record(9, 9)]
    batch = build_batch(records, base_offset=5)
    found = pick_records([batch], [5, 7, 8, 9])
    assert [(each.key, each.offset) for each in found] == [(b"a", 5), (b"b", 8)]


@pytest.mark.parametrize("deltas", [(0, 0), (5, 9), (0, 7), (1, 0)])
def test_where_offsets_do_not_rise_in_a_batch_its_places_count(deltas: tuple[int, int]) -> None:
    rows = zip(deltas, (b"a", b"b"), strict=True)
    batch = malformed.sealed(b"".join(malformed.record(delta, key) for delta, key in rows), 2)
    found = pick_records([batch], [1])
    assert [(each.key, each.offset) for each in found] == [(b"b", 1)]
