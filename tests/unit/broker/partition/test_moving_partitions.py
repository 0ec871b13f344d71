"""Partitions of other brokers are left alone, and let go when they become another's."""

import asyncio
from collections.abc import Awaitable, Callable

from tailrace.broker.partition.appends import Append, AppendResult
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.core.errors import BookieUnavailable, LedgerFenced
from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.fakes import FakeWriter, World, batch, make_world
from tests.unit.broker.loops import in_loop, turns, until

COUNT = 8
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def world_of_two() -> World:
    world = make_world()
    world.topics.add("t", COUNT)
    world.let_live(1, 2)
    return world


def mine(world: World) -> list[int]:
    return [index for index in range(COUNT) if world.broker.routes.is_mine("t", index)]


@in_loop
async def test_a_partition_of_another_broker_is_not_opened() -> None:
    world = world_of_two()
    assert len(mine(world)) == COUNT // 2
    for index in range(COUNT):
        outcome = await world.broker.partitions.opening("t", index)
        assert (outcome is NOT_LEADER) is (index not in mine(world))
        assert isinstance(outcome, PartitionLog) is (index in mine(world))
    assert len(world.broker.partitions.all()) == COUNT // 2


@in_loop
async def test_a_partition_is_let_go_once_what_is_in_flight_is_done() -> None:
    world, stays, goes = await world_with_all_open()
    append, gate = in_flight(world, goes)
    log = world.broker.partitions.get(("t", goes))
    world.let_live(1, 2)
    await turns()
    assert log is not None
    assert log.append(batch()).result() is NOT_LEADER
    assert await world.broker.partitions.opening("t", goes) is NOT_LEADER
    assert not append.done()
    gate.set()
    assert isinstance(await append, AppendResult)
    await until(lambda: writer_of(world, goes).is_closed)
    assert world.broker.partitions.get(("t", stays)) is not None
    assert not writer_of(world, stays).is_closed


@in_loop
async def test_one_that_could_not_be_opened_and_comes_back_is_tried_at_once() -> None:
    world = world_of_two()
    goes = next(index for index in range(COUNT) if index not in mine(world))
    world.let_live(1)
    world.log("t", goes).open_error = BookieUnavailable("away")
    partitions = world.broker.partitions
    assert await partitions.opening("t", goes) is ErrorCode.KAFKA_STORAGE_ERROR
    world.log("t", goes).open_error = None
    assert await partitions.opening("t", goes) is ErrorCode.KAFKA_STORAGE_ERROR
    world.let_live(1, 2)
    assert await partitions.opening("t", goes) is NOT_LEADER
    world.let_live(1)
    assert isinstance(await partitions.opening("t", goes), PartitionLog)


@in_loop
async def test_a_partition_whose_log_failed_is_let_go_too() -> None:
    """Nobody asks for it any more, and it has its place in the lock until it is closed."""
    world, _, goes = await world_with_all_open()
    writer = writer_of(world, goes)
    writer.fail(LedgerFenced("a bookie said so"))
    await turns()
    assert not writer.is_closed
    world.let_live(1, 2)
    await until(lambda: writer.is_closed)


@in_loop
async def test_one_that_comes_back_while_it_is_let_go_is_opened_after_that() -> None:
    world, _, goes = await world_with_all_open()
    append, gate = in_flight(world, goes)
    before = writer_of(world, goes)
    world.let_live(1, 2)
    await turns()
    world.let_live(1)
    opening = world.broker.partitions.opening("t", goes)
    await turns()
    assert not opening.done()
    gate.set()
    log = await opening
    assert isinstance(log, PartitionLog)
    assert before.is_closed
    assert append.done()
    assert log.log_end_offset == 1
    world.log("t", goes).auto = True
    assert await log.append(batch()) == AppendResult(1, -1, 0)


@in_loop
async def test_one_that_goes_while_it_is_opened_is_let_go_after_that() -> None:
    world, _, goes = await world_with_all_open(but_one=True)
    gate = world.log("t", goes).opening = asyncio.Event()
    opening = world.broker.partitions.opening("t", goes)
    await turns()
    world.let_live(1, 2)
    gate.set()
    await opening
    await until(lambda: writer_of(world, goes).is_closed)
    assert world.broker.partitions.get(("t", goes)) is None


@in_loop
async def test_so_many_go_at_a_time_and_the_others_are_served_until_then() -> None:
    world, _, goes = await world_with_all_open()
    world.let_live(1, 2)
    waits = next(at for at in range(COUNT) if at not in (*mine(world), goes))
    world.let_live(1)
    world.broker.partitions._leaving_turns = asyncio.Semaphore(1)
    gates = [in_flight(world, at)[1] for at in range(COUNT)]
    log = world.broker.partitions.get(("t", max(goes, waits)))
    world.let_live(1, 2)
    await turns()
    assert log is not None
    assert log.failure is None
    world.let_live(1)  # they come back before their turn
    for gate in gates:
        gate.set()
    await until(lambda: not world.broker.partitions._leaving)
    assert [writer_of(world, at).is_closed for at in range(COUNT)].count(True) == 1
    assert world.broker.partitions.get(("t", max(goes, waits))) is log


@in_loop
async def test_the_end_of_the_broker_waits_for_what_is_let_go() -> None:
    world, _, goes = await world_with_all_open()
    _, gate = in_flight(world, goes)
    world.let_live(1, 2)
    await turns()
    closing = asyncio.ensure_future(world.broker.partitions.close())
    await turns()
    assert not closing.done()
    gate.set()
    await closing
    assert writer_of(world, goes).is_closed
    world.let_live(1, 2, 3)  # nothing is let go any more


@in_loop
async def test_a_topic_that_is_deleted_waits_for_what_is_let_go() -> None:
    world, _, goes = await world_with_all_open()
    _, gate = in_flight(world, goes)
    world.let_live(1, 2)
    await turns()
    deleting = asyncio.ensure_future(world.topics.delete("t"))
    await turns()
    assert not deleting.done()
    gate.set()
    await deleting


@in_loop
async def test_who_lost_a_log_looks_who_is_there_before_it_claims_it_again() -> None:
    world, _, goes = await world_with_all_open()
    looked = []

    async def look() -> None:
        looked.append(goes)
        world.let_live(1, 2)

    world.broker.partitions._ownership = Looking(world, look)  # type: ignore[assignment]
    writer_of(world, goes).fail(LedgerFenced("another broker has it"))
    assert await world.broker.partitions.opening("t", goes) is NOT_LEADER
    assert looked == [goes]


class Looking:
    """The routes of a world, with something that happens when it looks."""

    def __init__(self, world: World, look: Callable[[], Awaitable[None]]) -> None:
        self.is_mine = world.broker.routes.is_mine
        self.refresh = look


async def world_with_all_open(*, but_one: bool = False) -> tuple[World, int, int]:
    """Return a broker that is alone, and two partitions: with a second one the latter goes."""
    world = world_of_two()
    stays, goes = mine(world)[0], next(each for each in range(COUNT) if each not in mine(world))
    world.let_live(1)
    for index in range(COUNT):
        if index != goes or not but_one:
            await world.open("t", index)
    return world, stays, goes


def in_flight(world: World, index: int) -> tuple[Append, asyncio.Event]:
    """Append to a partition whose log confirms only when it is let go, after the gate opens."""
    log = world.broker.partitions.get(("t", index))
    assert log is not None
    world.log("t", index).auto = False
    gate = world.log("t", index).closing = asyncio.Event()
    return log.append(batch()), gate


def writer_of(world: World, index: int) -> FakeWriter:
    writer = world.log("t", index).writer
    assert writer is not None
    return writer
