"""The owner of streams is killed: how soon, in virtual time, other proxies take their records.

What is left of the two seconds of real time that a fail-over may take is the session's timeout
before this, and the CPU of two dozen requests a stream.
"""

import asyncio
from random import Random

from tailrace.core.log.config import LogConfig
from tailrace.proxy.client.config import ClientConfig
from tailrace.proxy.owner.config import OwnerConfig
from tailrace.proxy.reading.config import ReadConfig
from tailrace.proxy.service.config import WriteServiceConfig
from tailrace.simulation.schedule import run_story
from tailrace.simulation.world import World
from tests.sim.proxies.client import Writer
from tests.sim.proxies.server import ProxySettings, Shard
from tests.sim.proxies.world import ProxyWorld
from tests.sim.script import SETTINGS

STREAMS = 3
SESSION_ENDS_S = (0.4, 0.95, 1.4)
"""When the killed owner's session is over, after its death: before and behind each retry."""
WITHIN_S = 0.5


class Failovers:
    """Writers of all streams, and when each had a record acknowledged last."""

    def __init__(self, proxies: ProxyWorld) -> None:
        self.proxies = proxies
        self.written_s: dict[str, float] = {}
        client = proxies.new_thin_client(finds_all=True, config=ClientConfig())
        for model in proxies.models:
            writer = Writer(client, model, f"writer of {model.name}", Random(model.name))
            client.process.spawn(self._write(model.name, writer), "write")

    async def _write(self, stream: str, writer: Writer) -> None:
        while True:
            if await writer.write_one():
                self.written_s[stream] = self.proxies.world.loop.time()
            await asyncio.sleep(0.2)

    async def until_written(self, streams: list[str], since_s: float) -> None:
        """Return once each has been written since then."""
        while any(self.written_s.get(each, 0.0) <= since_s for each in streams):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def kill(self, owner: Shard, ends_s: float, *, is_back_at_once: bool) -> float:
        """Kill an owner; return the time from its session's end to the last stream's record."""
        life, loop = owner.writer, self.proxies.world.loop
        assert life is not None
        streams, owner.stopped = life.streams.owned, not is_back_at_once
        assert streams, "it owns something"
        killed_s = loop.time()
        life.kill("the owner", power=False)
        await asyncio.sleep(ends_s)
        life.store.expire()
        ended_s = loop.time()
        await self.until_written(streams, killed_s)
        took_s = loop.time() - ended_s
        owner.stopped = False
        await asyncio.sleep(2)
        return took_s


async def _story(world: World) -> None:
    world.metadata.session_timeout_s = 3.0  # it ends when the story says so
    world.metadata.usual_delay_s = 0.001
    await world.start(3, SETTINGS)
    proxies = ProxyWorld(world, LogConfig(ensemble_size=3, write_quorum=3, ack_quorum=2))
    await proxies.create_streams(STREAMS)
    settings = ProxySettings(OwnerConfig(), WriteServiceConfig(), ReadConfig())
    for _ in range(3):
        proxies.add_shard(settings, writes=True)
    failovers = Failovers(proxies)
    await failovers.until_written([each.name for each in proxies.models], 0.0)
    for number, ends_s in enumerate(SESSION_ENDS_S):
        owner = max(proxies.writing, key=lambda shard: len(shard.writer.streams.owned))
        took_s = await failovers.kill(owner, ends_s, is_back_at_once=bool(number % 2))
        assert took_s < WITHIN_S, f"{took_s:.2f} s after the end of a session {ends_s} s long"


def test_streams_are_taken_over_once_the_session_of_their_owner_ends() -> None:
    assert run_story(3, _story).violations == ()
