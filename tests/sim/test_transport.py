import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from typing_extensions import override

from tests.sim.loop import SimLoop
from tests.sim.network import SimNetwork
from tests.sim.trace import Trace
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
