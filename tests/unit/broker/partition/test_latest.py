"""What a partition holds by key, counted by reading it."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.partition import latest
from broker.partition.latest import LatestRecord, count_keys, latest_of_keys
from broker.partition.partition_log import PartitionLog
from broker.partition.trimming import raise_log_start
from protocol.records.record import Record, build_batch
from tests.unit.broker.fakes import make_world
from tests.unit.broker.loops import in_loop
from tests.unit.broker.partition.transaction_support import end, write


async def inline(work: Callable[[], Any]) -> Any:
    return work()


async def opened() -> PartitionLog:
    world = make_world()
    world.topics.add("t")
    return await world.open("t")


async def put(log: PartitionLog, *changes: tuple[bytes | None, bytes | None]) -> None:
    records = [Record(offset=n, key=k, value=v, timestamp=5) for n, (k, v) in enumerate(changes)]
    data = memoryview(bytearray(build_batch(records)))
    await log.append(data, log.check(data))


@in_loop
async def test_records_delete_markers_and_keys_are_counted() -> None:
    log = await opened()
    await put(log, (b"a", b"1"), (b"b", b"1"), (None, b"x"))
    await put(log, (b"a", None), (b"c", b"2"))
    counts = await count_keys(log, inline)
    assert counts == (5, 5, 1, 1, 3, 2)
    found, is_whole = await latest_of_keys(log, inline, 10)
    assert is_whole
    assert found == [
        LatestRecord(b"b", b"1", 1, 5), LatestRecord(b"a", None, 3, 5),
        LatestRecord(b"c", b"2", 4, 5),
    ]  # fmt: skip
    assert await latest_of_keys(log, inline, 10, b"c") == ([LatestRecord(b"c", b"2", 4, 5)], True)
    assert await latest_of_keys(log, inline, 10, b"nobody") == ([], True)


@in_loop
async def test_what_was_aborted_or_is_undecided_does_not_count() -> None:
    log = await opened()
    await put(log, (b"k", b"first"))
    await write(log, 7, 0, count=2)
    await end(log, 7, commit=False)
    await write(log, 8, 0, count=1)
    await end(log, 8)
    await write(log, 9, 0, count=3)
    await put(log, (b"later", b"x"))
    counts = await count_keys(log, inline)
    assert (counts.end_offset, counts.records, counts.keys) == (6, 2, 1)
    (found,), _ = await latest_of_keys(log, inline, 10)
    assert (found.value, found.offset) == (b"v0", 4)


@in_loop
async def test_what_lies_before_the_log_start_does_not_count() -> None:
    log = await opened()
    await put(log, (b"a", b"1"), (b"b", b"1"))
    await raise_log_start(log, 1)
    assert (await count_keys(log, inline)).records == 1


@in_loop
async def test_bounds_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    log = await opened()
    await put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    found, is_whole = await latest_of_keys(log, inline, 1)
    assert ([each.value for each in found], is_whole) == ([b"2"], False)
    monkeypatch.setattr(latest, "COUNTED_KEYS_MAX", 1)
    counts = await count_keys(log, inline)
    assert (counts.records, counts.keys, counts.live_keys) == (3, None, None)
