"""Waiting fetches: woken by bytes, by trouble, and by nothing else."""

import asyncio

from tailrace.broker.fetching.sessions import FetchSession, SessionKind
from tailrace.broker.partition.waiters import FetchWaiter, Waiters
from tailrace.protocol.kafka.messages.fetch import FetchPartition
from tests.unit.broker.loops import in_loop


@in_loop
async def test_enough_bytes_wake_from_any_partition() -> None:
    loop = asyncio.get_running_loop()
    waiter = FetchWaiter(100, loop.create_future())
    a, b = Waiters(), Waiters()
    a.join(waiter)
    b.join(waiter)
    a.on_bytes(60, 0)
    b.on_bytes(39, 0)
    assert not waiter.future.done()
    a.on_bytes(1, 0)
    assert waiter.future.done()
    b.on_bytes(500, 0)  # a second wake is no error


@in_loop
async def test_who_left_is_not_told() -> None:
    waiter = FetchWaiter(1, asyncio.get_running_loop().create_future())
    waiters = Waiters()
    waiters.join(waiter)
    waiters.leave(waiter)
    waiters.leave(waiter)
    waiters.on_bytes(9, 0)
    waiters.wake_all()
    assert not waiter.future.done()
    assert len(waiters) == 0


@in_loop
async def test_trouble_wakes_everybody() -> None:
    loop = asyncio.get_running_loop()
    all_of_them = [FetchWaiter(10, loop.create_future()) for _ in range(3)]
    waiters = Waiters()
    for waiter in all_of_them:
        waiters.join(waiter)
    waiters.wake_all()
    assert all(waiter.future.done() for waiter in all_of_them)


@in_loop
async def test_a_partition_is_awaited_while_a_fetch_or_a_poll_waits_for_it() -> None:
    waiters = Waiters()
    waiter = FetchWaiter(1, asyncio.get_running_loop().create_future())
    for committed in (False, True):
        assert not waiters.is_awaited
        waiters.join(waiter, committed=committed)
        assert waiters.is_awaited
        waiters.leave(waiter)
    kind = SessionKind(privileged=False, uses_topic_ids=False, reads_committed=False)
    session = FetchSession(1, 0, kind)
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    session.add(("t", 0), asked).stand(waiters)
    assert not waiters.is_awaited
    session.parked = waiter
    assert waiters.is_awaited
