"""A partition with transactions over a log in memory: what is stable, woken for, kept."""

import asyncio

import pytest

from tailrace.broker.partition.appends import AppendResult
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.waiters import FetchWaiter
from tailrace.core.errors import LedgerFenced, OverCapacity
from tailrace.core.runtime.clock import ManualClock
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.records.batch import read_header, verify_crc
from tailrace.protocol.records.control import read_marker
from tailrace.protocol.records.record import Producer
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.loops import in_loop
from tests.unit.broker.partition.transaction_support import end, transactional, write

E = ErrorCode


async def opened(world: World, configs: dict[str, str] | None = None) -> PartitionLog:
    world.topics.add("t", configs=configs)
    return await world.open("t")


async def reopened(world: World) -> PartitionLog:
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    return await world.open("t")


class TickingClock(ManualClock):
    """A clock that no two looks find at the same time."""

    def now_ms(self) -> int:
        self.advance_ms(1)
        return super().now_ms()


def confirm(world: World, offset: int | None = None) -> None:
    writer = world.log("t").writer
    assert writer is not None
    writer.confirm(offset)


@in_loop
async def test_the_last_stable_offset_waits_for_markers_and_for_their_confirmation() -> None:
    world = make_world(auto=False)
    log = await opened(world)
    log.append(batch(2))
    write(log, 7, 0, count=3)
    log.append(batch(1))
    assert log.last_stable_offset == 0
    confirm(world)
    assert (log.high_watermark, log.last_stable_offset) == (6, 2)
    write(log, 8, 0)
    outcome = end(log, 7)
    assert log.last_stable_offset == 2, "the marker is not confirmed"
    confirm(world, 6)
    assert log.last_stable_offset == 2
    confirm(world)
    assert outcome.result() == AppendResult(7, -1, 0)
    assert (log.high_watermark, log.last_stable_offset) == (8, 6)
    end(log, 8, commit=False)
    confirm(world)
    assert log.high_watermark == log.last_stable_offset == 9


@in_loop
async def test_a_marker_is_a_batch_of_its_own_with_kafkas_header() -> None:
    world = make_world()
    log = await opened(world, {"message.timestamp.type": "LogAppendTime"})
    await write(log, 7, 0, epoch=3)
    assert await end(log, 7, epoch=4, coordinator=5) == AppendResult(1, world.clock.now_ms(), 0)
    marker = (await log.read(1, 1000))[0]
    verify_crc(marker)
    header = read_header(marker)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 4, -1)
    assert (header.base_offset, header.partition_leader_epoch) == (1, log.leader_epoch)
    assert read_marker(marker) == (True, 5)


@in_loop
async def test_the_next_life_knows_when_a_producers_transaction_ended() -> None:
    """The log keeps one time for a marker, whatever the clock says while it is appended."""
    world = make_world(clock=TickingClock())
    log = await opened(world)
    await write(log, 7, 0)
    await end(log, 7)
    before = list(log.producers())
    assert list((await reopened(world)).producers()) == before


@in_loop
async def test_a_batch_that_nobody_verified_begins_no_transaction() -> None:
    world = make_world()
    log = await opened(world)
    data = transactional(7, 0)
    assert log.append(data, log.check(data)).result() is E.INVALID_TXN_STATE
    assert not log.has_open_transaction(7, 0)
    await write(log, 7, 0)
    assert log.has_open_transaction(7, 0)
    assert not log.has_open_transaction(7, 1)
    data = transactional(7, 1)
    assert await log.append(data, log.check(data)) == AppendResult(1, -1, 0)


@in_loop
async def test_a_yes_to_a_transaction_that_was_aborted_meanwhile_counts_for_nothing() -> None:
    world = make_world()
    log = await opened(world)
    data = transactional(7, 0)
    header = log.check(data)
    guard = log.begin_verification(header, bumps_epoch=False)
    assert isinstance(guard, int)
    await end(log, 7, commit=False)
    assert log.append_verified(data, header, guard).result() is E.INVALID_TXN_STATE
    guard = log.begin_verification(header, bumps_epoch=False)
    assert isinstance(guard, int)
    assert await log.append_verified(data, header, guard) == AppendResult(1, -1, 0)
    fenced = log.begin_verification(log.check(transactional(7, 0, epoch=-1)), bumps_epoch=False)
    assert fenced is E.INVALID_PRODUCER_EPOCH


@in_loop
async def test_a_batch_does_not_overtake_one_whose_verification_failed() -> None:
    world = make_world()
    log = await opened(world)
    first, second = transactional(7, 0), transactional(7, 1)
    log.begin_verification(log.check(first), bumps_epoch=False)
    guard = log.begin_verification(log.check(second), bumps_epoch=False)
    assert isinstance(guard, int)
    early = log.append_verified(second, log.check(second), guard)
    assert early.result() is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await log.append_verified(first, log.check(first), guard) == AppendResult(0, -1, 0)
    assert await log.append(second, log.check(second)) == AppendResult(1, -1, 0)


@in_loop
async def test_markers_of_zombies_are_refused_and_leave_no_trace() -> None:
    world = make_world()
    log = await opened(world)
    await write(log, 7, 0, epoch=2)
    assert end(log, 7, epoch=1).result() is E.INVALID_PRODUCER_EPOCH
    await end(log, 7, epoch=2, coordinator=4)
    await write(log, 7, 1, epoch=2)
    assert end(log, 7, epoch=2, coordinator=3).result() is E.TRANSACTION_COORDINATOR_FENCED
    late = log.append_marker(7, 2, 4, committed=True, transaction_version=2)
    assert late.result() is E.INVALID_PRODUCER_EPOCH
    assert (log.log_end_offset, log.last_stable_offset) == (3, 2)
    assert await end(log, 7, epoch=2, coordinator=5) == AppendResult(3, -1, 0)
    assert await end(log, 7, epoch=2, coordinator=5) == AppendResult(4, -1, 0), "a repeat"
    assert await log.aborted_between(0, 4) == []


@in_loop
async def test_what_the_log_refuses_changes_no_transaction() -> None:
    world = make_world()
    log = await opened(world)
    await write(log, 7, 0)
    writer = world.log("t").writer
    assert writer is not None
    writer.error = OverCapacity("full")
    assert end(log, 7).result() is E.KAFKA_STORAGE_ERROR
    assert write(log, 8, 0).result() is E.KAFKA_STORAGE_ERROR
    assert log.has_open_transaction(7, 0)
    assert not log.has_open_transaction(8, 0)
    writer.error = None
    assert await end(log, 7) == AppendResult(1, -1, 0)
    assert log.last_stable_offset == 2


@in_loop
async def test_a_reader_of_committed_records_is_woken_when_bytes_become_stable() -> None:
    world = make_world()
    log = await opened(world)
    loop = asyncio.get_running_loop()
    plain, committed = (FetchWaiter(1, loop.create_future()) for _ in range(2))
    log.waiters.join(plain)
    log.waiters.join(committed, committed=True)
    await write(log, 7, 0)
    assert plain.future.done()
    assert not committed.future.done()
    await end(log, 7)
    assert committed.future.done()


@in_loop
async def test_a_reader_of_committed_records_gets_all_the_bytes_that_were_held_back() -> None:
    world = make_world()
    log = await opened(world)
    future = asyncio.get_running_loop().create_future()
    first, second = transactional(7, 0), transactional(7, 1)
    waiter = FetchWaiter(len(first) + len(second) + 1, future)
    log.waiters.join(waiter, committed=True)
    await log.append(first, log.check(first), verified=True)
    await log.append(second, log.check(second))
    assert waiter.missing == len(first) + len(second) + 1
    await end(log, 7)
    assert future.done()


@in_loop
async def test_aborted_transactions_are_listed_by_overlap() -> None:
    world = make_world()
    log = await opened(world)
    await write(log, 7, 0)  # 0
    await write(log, 8, 0)  # 1
    await end(log, 7, commit=False)  # 2
    await write(log, 7, 1)  # 3
    await end(log, 8)  # 4
    await end(log, 7, commit=False)  # 5
    found = await log.aborted_between(0, 5)
    assert [(each.producer_id, each.first_offset) for each in found] == [(7, 0), (7, 3)]
    assert log.aborted_in_memory(0, 5) == found
    assert [each.first_offset for each in await log.aborted_between(3, 3)] == [3]
    assert [each.first_offset for each in await log.aborted_between(1, 2)] == [0]


@in_loop
async def test_open_transactions_survive_a_clean_restart() -> None:
    world = make_world()
    log = await opened(world)
    await log.append(batch(1))
    await write(log, 7, 0, count=2)
    await log.append(batch(1))
    again = await reopened(world)
    assert (again.high_watermark, again.last_stable_offset) == (4, 1)
    assert again.has_open_transaction(7, 0)
    future = asyncio.get_running_loop().create_future()
    again.waiters.join(FetchWaiter(1, future), committed=True)
    assert await end(again, 7, commit=False) == AppendResult(4, -1, 0)
    assert again.last_stable_offset == 5
    assert future.done()
    assert await again.aborted_between(0, 4) == [(7, 1, 4, 5)]
    once_more = await reopened(world)
    assert once_more.last_stable_offset == 5
    assert once_more.aborted_in_memory(0, 4) is None
    assert await once_more.aborted_between(0, 4) == [(7, 1, 4, 5)]
    assert list(once_more.producers()) == list(again.producers())


@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("step", ["begun", "marked"])
@in_loop
async def test_kill_9_leaves_what_is_in_the_log(step: str, landed: bool) -> None:
    """Killed with a first batch, or a marker, that is appended and not confirmed."""
    world = make_world(auto=False)
    log = await opened(world)
    log.append(batch(1))
    if step == "marked":
        write(log, 7, 0)
    confirm(world)
    (end(log, 7, commit=False) if step == "marked" else write(log, 7, 0))
    world.log("t").keep_unconfirmed = landed
    writer = world.log("t").writer
    assert writer is not None
    writer.fail(LedgerFenced("kill -9"))
    again = await world.open("t")
    is_open = again.has_open_transaction(7, 0)
    assert is_open is (landed if step == "begun" else not landed)
    assert again.last_stable_offset == (1 if is_open else again.high_watermark)
    if is_open:
        end(again, 7, commit=False)
        confirm(world)
        assert again.last_stable_offset == again.high_watermark
    expected = [] if step == "begun" and not landed else [1]
    found = await again.aborted_between(0, again.high_watermark)
    assert [each.first_offset for each in found] == expected


@in_loop
async def test_the_log_start_may_pass_an_open_transaction() -> None:
    world = make_world()
    log = await opened(world)
    await write(log, 7, 0)
    await log.append(batch(3))
    log.move_start(3)
    assert log.last_stable_offset == 3
    assert log.has_open_transaction(7, 0)
    assert await end(log, 7, commit=False) == AppendResult(4, -1, 3)
    assert log.last_stable_offset == 5
    found = await log.aborted_between(3, 4)
    assert [(each.producer_id, each.first_offset) for each in found] == [(7, 0)]


@in_loop
async def test_expiry_takes_no_open_transaction_from_either_table() -> None:
    world = make_world()
    log = await opened(world)
    await write(log, 7, 0)
    data = batch(1, producer=Producer(8, 0, 0))
    await log.append(data, log.check(data))
    assert log.expire_producers(world.clock.now_ms() + 1) == 1
    assert len(log.state.producers) == 1
    await end(log, 7)
    assert log.expire_producers(world.clock.now_ms() + 1) == 1
    assert len(log.state.producers) == 0


@in_loop
async def test_producers_are_described() -> None:
    world = make_world()
    log = await opened(world)
    await write(log, 7, 0, epoch=3)
    await write(log, 8, 4)
    await end(log, 8, coordinator=9)
    now_ms = world.clock.now_ms()
    assert list(log.producers()) == [(7, 3, 0, now_ms, -1, 0), (8, 0, 4, now_ms, 9, -1)]


@in_loop
async def test_the_brokers_own_batches_open_transactions_without_sequences() -> None:
    world = make_world()
    log = await opened(world)
    assert await log.append(transactional(7, 0)) == AppendResult(0, -1, 0)
    assert await log.append(transactional(7, 0)) == AppendResult(1, -1, 0)
    assert log.last_stable_offset == 0
    assert log.append(transactional(7, 0, epoch=-1)).result() is E.INVALID_PRODUCER_EPOCH
    assert log.append(batch(1, producer=Producer(7, 0, 0))).result() is E.INVALID_TXN_STATE
    await end(log, 7)
    assert log.last_stable_offset == 3
