import asyncio
from typing import Any

from tailrace.core.ledger.write_timers import Ticker
from tests.unit.core.ledger.fast_world import InstantLoop


def test_a_tick_that_raises_is_not_the_last() -> None:
    raised: list[Any] = []
    ticks: list[float] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, what: raised.append(what))

        def tick() -> bool:
            ticks.append(round(loop.time(), 3))
            if len(ticks) == 1:
                raise ZeroDivisionError("a bug")
            return len(ticks) < 3

        Ticker(100, tick)
        await asyncio.sleep(10)

    with asyncio.Runner(loop_factory=InstantLoop, debug=True) as runner:
        runner.run(story())
    assert ticks == [0.1, 0.2, 0.3]
    assert len(raised) == 1
