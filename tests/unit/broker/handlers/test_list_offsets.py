"""ListOffsets: the special timestamps, times, and refusals."""

import asyncio

import pytest

from tailrace.core.log.trimmer import SegmentTier
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import LedgerId
from tailrace.protocol.kafka.apis import LIST_OFFSETS
from tailrace.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tailrace.protocol.records.batch import TRANSACTIONAL
from tailrace.protocol.records.record import Producer, Record, build_batch
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop

E = ErrorCode


async def filled() -> World:
    """Return a world with records 0-9 of time 100 to 104, 0 and 1 given up."""
    world = make_world()
    world.topics.add("t", 2)
    log = await world.open("t")
    for number in range(5):
        await log.append(batch(2, timestamp=100 + number))
    log.move_start(2)
    return world


async def offsets(
    world: World,
    version: int,
    *asked: tuple[int, int],
    epoch: int = -1,
    isolation: int = 0,
    timeout_ms: int = 0,
) -> list[ListOffsetsPartitionResponse]:
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        timeout_ms=timeout_ms,
        topics=[
            ListOffsetsTopic(
                name="t",
                partitions=[
                    ListOffsetsPartition(
                        partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch
                    )
                    for partition, timestamp in asked
                ],
            )
        ],
    )
    response = await ask(world, LIST_OFFSETS, version, request)
    return list(response.topics[0].partitions)


@in_loop
async def test_the_newest_of_records_without_a_time_is_the_first_that_is_kept() -> None:
    world = make_world()
    world.topics.add("t", 1)
    log = await world.open("t")
    assert [(each.error_code, each.offset) for each in await offsets(world, 7, (0, -3))] == [
        (0, -1)
    ]
    for _ in range(3):
        await log.append(batch(2, timestamp=-1))
    for start in (0, 3):
        log.move_start(start)
        (found,) = await offsets(world, 7, (0, -3))
        assert (found.error_code, found.offset, found.timestamp) == (0, start, -1)
    await log.append(batch(1, timestamp=5))
    (found,) = await offsets(world, 7, (0, -3))
    assert (found.error_code, found.offset, found.timestamp) == (0, 6, 5)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (10, -1)),
        (-2, (2, -1)),
        (-3, (8, 104)),
        (-4, (2, -1)),
        (-5, (-1, -1)),
        (-6, (-1, -1)),
        (0, (2, 101)),
        (103, (6, 103)),
        (105, (-1, -1)),
    ],
)
@in_loop
async def test_the_table(timestamp: int, expected: tuple[int, int]) -> None:
    answer = (await offsets(await filled(), 11, (0, timestamp)))[0]
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, *expected)
    assert answer.leader_epoch == (1 if expected[0] >= 0 else -1)


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 99)])
@in_loop
async def test_what_a_version_does_not_know_is_unsupported(timestamp: int, since: int) -> None:
    world = await filled()
    for version in LIST_OFFSETS.versions:
        answer = (await offsets(world, version, (0, timestamp)))[0]
        assert (answer.error_code == E.UNSUPPORTED_VERSION) is (version < since)


@in_loop
async def test_an_empty_log() -> None:
    world = await filled()
    for timestamp, offset in [(-1, 0), (-2, 0), (-3, -1), (0, -1)]:
        assert (await offsets(world, 7, (1, timestamp)))[0].offset == offset


@in_loop
async def test_refusals_are_per_partition() -> None:
    world = await filled()
    answers = await offsets(world, 5, (0, -1), (1, -1), (1, -2), (9, -1))
    codes = [E(each.error_code) for each in answers]
    assert codes == [E.NONE, E.INVALID_REQUEST, E.INVALID_REQUEST, E.UNKNOWN_TOPIC_OR_PARTITION]
    fenced = await offsets(world, 5, (0, -1), epoch=0)
    assert fenced[0].error_code == E.FENCED_LEADER_EPOCH
    ahead = await offsets(world, 5, (0, -1), epoch=5)
    assert ahead[0].error_code == E.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("timestamp", [-1, -3, 103, 100])
@in_loop
async def test_readers_of_committed_records_are_told_of_nothing_above_the_last_stable_offset(
    timestamp: int,
) -> None:
    world = await filled()
    log = await world.open("t")
    producer = Producer(producer_id=7, epoch=0, base_sequence=0)
    open_one = build_batch(
        [Record(offset=0, timestamp=200, value=b"v")], producer=producer, attributes=TRANSACTIONAL
    )
    batch_ = memoryview(open_one)
    await log.append(batch_, log.check(batch_), verified=True)
    await log.append(batch(1, timestamp=300))
    plain, committed = [
        (await offsets(world, 11, (0, timestamp), isolation=isolation))[0] for isolation in (0, 1)
    ]
    assert (plain.offset, committed.offset) == {
        -1: (12, 10), -3: (11, -1), 103: (6, 6), 100: (2, 2),
    }[timestamp]  # fmt: skip


def segment(lssn: int, last_offset: int) -> SegmentMetadata:
    return SegmentMetadata(
        ledger_id=LedgerId(lssn),
        lssn=lssn,
        first_txid=0,
        in_progress=False,
        last_txid=last_offset,
        record_count=1,
    )


@pytest.mark.parametrize(
    ("where", "local", "tiered", "pending"),
    [
        ([], 2, -1, 2),
        ([("bookies", 3), ("bookies", 5)], 2, -1, 2),
        ([("both", 3), ("bookies", 5)], 2, 3, 4),
        ([("cold", 3), ("both", 5), ("bookies", 7)], 4, 5, 6),
        ([("cold", 1), ("bookies", 5)], 2, 1, 2),
        ([("cold", 9)], 10, 9, 10),
    ],
)
@in_loop
async def test_where_the_tiers_of_a_topic_meet(
    where: list[tuple[str, int]], local: int, tiered: int, pending: int
) -> None:
    world = await filled()
    world.topics.add("t", 2, {"remote.storage.enable": "true"})
    world.log("t").upkeep.trimmer.told = [
        SegmentTier(segment(lssn, last), place != "cold", place != "bookies")
        for lssn, (place, last) in enumerate(where, 1)
    ]
    answers = [(await offsets(world, 11, (0, asked)))[0] for asked in (-4, -5, -6)]
    assert [each.offset for each in answers] == [local, tiered, pending]
    assert [each.timestamp for each in answers] == [-1, -1, -1]


@pytest.mark.parametrize(
    ("where", "local", "tiered"),
    [
        ([], 2, -1),
        ([("bookies", 3), ("bookies", 5)], 2, -1),
        ([("cold", 3), ("both", 5), ("bookies", 7)], 4, 5),
        ([("cold", 9)], 10, 9),
    ],
)
@in_loop
async def test_what_is_in_cold_storage_counts_after_tiering_was_switched_off(
    where: list[tuple[str, int]], local: int, tiered: int
) -> None:
    world = await filled()
    world.log("t").upkeep.trimmer.told = [
        SegmentTier(segment(lssn, last), place != "cold", place != "bookies")
        for lssn, (place, last) in enumerate(where, 1)
    ]
    answers = [(await offsets(world, 11, (0, asked)))[0] for asked in (-4, -5, -6)]
    assert [each.offset for each in answers] == [local, tiered, -1]


@in_loop
async def test_a_look_up_that_takes_too_long_is_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await filled()
    never = asyncio.Event()

    async def refresh() -> None:
        await never.wait()

    monkeypatch.setattr(world.log("t"), "refresh", refresh)
    (late,) = await offsets(world, 11, (0, 103), timeout_ms=5)
    assert (late.error_code, late.offset) == (E.REQUEST_TIMED_OUT, -1)
    (edge,) = await offsets(world, 11, (0, -1), timeout_ms=5)
    assert edge.offset == 10
