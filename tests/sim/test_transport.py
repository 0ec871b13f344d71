import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from typing_extensions import override

from tailrace.simulation.loop import SimLoop
from tailrace.simulation.network import SimNetwork
from tailrace.simulation.trace import Trace
from tests.sim.transport_contract import TransportContract


class TestSockets(TransportContract):
    @override
    def run(self, story: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(story)


class TestSimulated(TransportContract):
    @override
    def run(self, story: Coroutine[Any, Any, None]) -> None:
        loop = SimLoop(Random(1))
        SimNetwork(loop, Random(1), Trace(now_s=loop.time))
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(story)
