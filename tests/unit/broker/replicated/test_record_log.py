import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.coordinator.records import (
    CommittedOffset,
    OffsetUpdate,
    offset_record,
    read_record,
)
from tailrace.broker.replicated.effects import StateRecord
from tailrace.broker.replicated.record_log import (
    RECORD_OVERHEAD_BYTES,
    read_updates,
    size_of,
    to_batch,
)
from tailrace.core.errors import Unavailable
from tailrace.protocol.compression import Codec
from tailrace.protocol.ids import Buffer
from tailrace.protocol.records.batch import read_header, stamp
from tailrace.protocol.records.record import build_batch, key_value_records
from tests.unit.broker.fakes import make_world
from tests.unit.broker.heavy import counting
from tests.unit.broker.virtual import in_virtual_time


def offset(partition: int, value: int | None) -> OffsetUpdate:
    committed = None if value is None else CommittedOffset(value, -1, "", 0)
    return OffsetUpdate("g", "t", partition, committed)


class MemoryLog:
    """Batches in memory."""

    def __init__(self) -> None:
        self.batches: list[memoryview] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.reads = 0
        self.failure = None

    def append(self, batch: memoryview) -> "asyncio.Future[None]":
        stamp(batch, self.log_end_offset, 1)
        self.log_end_offset += read_header(batch).last_offset_delta + 1
        self.batches.append(batch)
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def unpacked(self, batch: Buffer) -> Buffer:
        raise AssertionError("nothing here is compressed")

    async def read(self, offset: int, max_bytes: int) -> Sequence[Buffer]:
        self.reads += 1
        found: list[Buffer] = []
        size = 0
        for batch in self.batches:
            if read_header(batch).last_offset < offset:
                continue
            if found and size + len(batch) > max_bytes:
                break
            found.append(batch)
            size += len(batch)
        return found


def read_all(batches: Sequence[Sequence[OffsetUpdate]], max_bytes: int = 200) -> list[OffsetUpdate]:
    async def body() -> list[OffsetUpdate]:
        log = MemoryLog()
        for updates in batches:
            await log.append(to_batch([offset_record(update) for update in updates], 5))
        return [update async for update in read_updates(log, max_bytes, read_record)]

    return asyncio.run(body())


def test_the_newest_of_each_key_is_what_counts() -> None:
    batches = [[offset(0, 1), offset(1, 1)], [offset(0, 2)], [offset(1, None)], [offset(2, 3)]]
    assert sorted(read_all(batches)) == [offset(0, 2), offset(2, 3)]
    assert read_all([]) == []


UPDATES = st.builds(offset, st.integers(0, 4), st.none() | st.integers(0, 9))


@given(st.lists(st.lists(UPDATES, min_size=1, max_size=4), max_size=12), st.integers(1, 1_000))
def test_any_history_reads_as_its_last_words(
    batches: list[list[OffsetUpdate]], max_bytes: int
) -> None:
    last = {update.partition: update for updates in batches for update in updates}
    expected = {p: u for p, u in last.items() if u.committed is not None}
    found = read_all(batches, max_bytes)
    assert {update.partition: update for update in found} == expected
    assert len(found) == len(expected)


def test_offsets_that_compaction_took_are_stepped_over() -> None:
    async def body() -> None:
        log = MemoryLog()
        for value in range(3):
            await log.append(to_batch([offset_record(offset(value, value))], 5))
        del log.batches[1]
        found = [update async for update in read_updates(log, 1_000, read_record)]
        assert found == [offset(0, 0), offset(2, 2)]

    asyncio.run(body())


def test_control_batches_say_nothing() -> None:
    async def body() -> None:
        log = MemoryLog()
        marker = build_batch(key_value_records([(b"\0\0\0\1", b"x")], 0), attributes=0x20)
        await log.append(memoryview(marker))
        await log.append(to_batch([offset_record(offset(0, 7))], 5))
        assert [update async for update in read_updates(log, 1_000, read_record)] == [offset(0, 7)]

    asyncio.run(body())


def test_a_log_that_ends_before_its_end_is_not_taken_for_whole() -> None:
    async def body() -> None:
        log = MemoryLog()
        await log.append(to_batch([offset_record(offset(0, 7))], 5))
        log.log_end_offset += 1
        with pytest.raises(Unavailable):
            await anext(
                read_updates(log, 1_000, read_record)
            )  # before anything is said of half a log

    asyncio.run(body())


@given(st.binary(max_size=300), st.none() | st.binary(max_size=300))
def test_the_size_of_a_batch_is_bounded_from_above(key: bytes, value: bytes | None) -> None:
    records = [StateRecord(key, value)] * 3
    header = 61
    assert len(to_batch(records, 5)) <= header + size_of(records)
    assert size_of(records) == 3 * (len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES)


@in_virtual_time
async def test_what_is_compressed_is_unpacked_beside_the_loop() -> None:
    """Our own batches are not, but Kafka's may be, and an admin client may write what it likes."""
    world = make_world()
    world.topics.add("t")
    log = await world.open("t")
    records = [offset_record(offset(0, value)) for value in range(3000)]
    pairs = key_value_records(records, 0)
    await log.append(memoryview(build_batch(pairs, Codec.GZIP)))
    with counting() as count:
        found = [each async for each in read_updates(log, 1 << 20, read_record)]
    assert found == [offset(0, 2999)]
    assert count.most == 0
    assert count.beside > 3000 * 20
