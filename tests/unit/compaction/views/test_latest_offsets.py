"""The latest offset of each key: as a dict has it, whatever the memory does."""

from random import Random

import numpy as np
import pytest

from tailrace.compaction.cleaner.digests import digest_keys
from tailrace.compaction.views.latest_offsets import SMALLEST_BYTES, LatestOffset, LatestOffsets


def put(latest: LatestOffsets, rows: list[tuple[bytes, int, bool]], first: int = 0) -> int:
    keys, offsets, deletes = zip(*rows, strict=True)
    return latest.put(digest_keys(keys), np.array(offsets), np.array(deletes), first)


@pytest.mark.parametrize("seed", range(3))
def test_it_has_what_a_dict_has_while_it_grows(seed: int) -> None:
    random, asked = Random(seed), []
    latest = LatestOffsets(lambda size: not asked.append(size))
    known: dict[bytes, LatestOffset] = {}
    offset = 0
    for _ in range(8):
        rows = []
        for _ in range(3000):
            offset += random.randint(1, 3)
            rows.append((b"%d" % random.randrange(20_000), offset, random.random() < 0.3))
        assert put(latest, rows) == len(rows)
        known |= {key: LatestOffset(at, is_deleted) for key, at, is_deleted in rows}
    assert asked  # it did grow
    assert asked[-1] < 2 * latest.size_bytes
    middle = offset // 2
    assert latest.live(0) == sum(not each.is_deleted for each in known.values())
    assert latest.live(middle) == sum(
        not each.is_deleted and each.offset >= middle for each in known.values()
    )
    assert latest.offsets(middle).tolist() == sorted(
        each.offset for each in known.values() if each.offset >= middle
    )
    for key in (b"%d" % n for n in range(0, 20_000, 500)):
        assert latest.find(key) == known.get(key)


def test_without_room_it_says_how_far_it_came() -> None:
    latest = LatestOffsets(lambda size: size <= SMALLEST_BYTES)
    rows = [(b"%d" % n, n, False) for n in range(5000)]
    taken = put(latest, rows)
    assert taken == latest.capacity < 5000
    assert put(latest, [(b"0", 5001, True), (b"new", 5002, False)]) == 1  # a known one fits
    assert latest.find(b"0") == LatestOffset(5001, is_deleted=True)
    assert latest.find(b"new") is None
    assert put(latest, [(b"new", 5003, False)], first=4000) == 1  # of keys before the log start
    assert latest.live(0) == 1
