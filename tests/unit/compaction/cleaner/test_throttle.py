"""The cleaner's budget of bytes per second, in virtual time."""

import asyncio

import pytest

from tailrace.compaction.cleaner.throttle import LOOK_AGAIN_S, WINDOW_S, Throttle
from tests.unit.broker.virtual import in_virtual_time


@in_virtual_time
async def test_all_who_spend_go_at_the_rate_together() -> None:
    throttle = Throttle(lambda: 1000.0)
    loop = asyncio.get_running_loop()
    await asyncio.sleep(10)  # what was not used long ago does not count
    began_s = loop.time()

    async def spend() -> None:
        for _ in range(50):
            await throttle.spend(100)

    await asyncio.gather(spend(), spend())
    assert loop.time() - began_s == pytest.approx(10.0 - WINDOW_S)
    assert throttle.slept_s > 0


@in_virtual_time
async def test_another_rate_holds_for_what_is_spent_next() -> None:
    rate = 10.0
    throttle = Throttle(lambda: rate)
    loop = asyncio.get_running_loop()
    await throttle.spend(10)
    rate = 1000.0
    began_s = loop.time()
    await throttle.spend(1000)
    assert loop.time() - began_s == pytest.approx(1.0, abs=WINDOW_S)


@in_virtual_time
@pytest.mark.parametrize("unlimited", [1e9, float("inf")])
async def test_who_waits_already_goes_on_when_the_rate_rises(unlimited: float) -> None:
    rate = 1.0
    throttle = Throttle(lambda: rate)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(10 * LOOK_AGAIN_S), asyncio.TaskGroup() as group:
        for _ in range(2):  # of whom the second waits for the first one's time too
            group.create_task(throttle.spend(10**6))
        await asyncio.sleep(LOOK_AGAIN_S / 2)
        rate = unlimited
    assert loop.time() == pytest.approx(LOOK_AGAIN_S, abs=0.1)


@in_virtual_time
async def test_what_was_given_up_counts_at_the_rate_of_then() -> None:
    rate = 1.0
    throttle = Throttle(lambda: rate)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await throttle.spend(10**6)
    rate = 10.0**6
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await throttle.spend(10**6)
    assert loop.time() - began_s == pytest.approx(2.0, abs=WINDOW_S)


@in_virtual_time
async def test_time_further_back_than_its_window_does_not_count() -> None:
    throttle = Throttle(lambda: 1000.0, 0.005)
    loop = asyncio.get_running_loop()
    await asyncio.sleep(10)
    began_s = loop.time()
    await throttle.spend(1000)
    assert loop.time() - began_s == pytest.approx(0.995)


@in_virtual_time
async def test_no_wait_is_shorter_than_a_timer_can_be() -> None:
    """A loop's timer for less than a millisecond ends at once: who asks again and again spins."""
    throttle = Throttle(lambda: 10.0**6, 0.005)
    loop = asyncio.get_running_loop()
    await throttle.spend(5000)  # what the window holds
    began_s = loop.time()
    await throttle.spend(100)
    assert loop.time() - began_s == pytest.approx(0.001)
    await throttle.spend(900)  # and what was waited too long counts
    assert loop.time() - began_s == pytest.approx(0.001)


@in_virtual_time
async def test_without_a_limit_nobody_waits() -> None:
    throttle = Throttle(lambda: float(2**63 - 1))
    for _ in range(100):
        await throttle.spend(2**30)
    assert throttle.slept_s < 1e-3
