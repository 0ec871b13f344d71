"""Three proxies, one stream, and whatever goes wrong: what a client was answered is true."""

import asyncio
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tailrace.proxy.owner.codes import StatusCode
from tests.unit.core.ledger.fake_bookie import no_fault
from tests.unit.core.log.world import Listener, read_all
from tests.unit.proxy.owner.test_stream import refuse_adds
from tests.unit.proxy.owner.world import Proxy, ProxyWorld, new_stream, run

if TYPE_CHECKING:
    from tailrace.proxy.owner.operations import Answer

STEPS = 400
PAUSES_S = (0.0, 0.001, 0.01, 0.2, 1.0, 4.0, 12.0)

NOT_WRITTEN = frozenset(
    {
        StatusCode.FOUND,
        StatusCode.OVER_CAPACITY,
        StatusCode.SERVICE_UNAVAILABLE,
        StatusCode.WRITE_CANCELLED_EXCEPTION,
    }
)


class Asked(NamedTuple):
    proxy: int
    payloads: list[bytes]
    answer: "asyncio.Future[Answer]"


class Story:
    """Random steps; each record has a payload of its own, and is asked for once."""

    def __init__(self, world: ProxyWorld, rng: Random) -> None:
        self.world, self.rng = world, rng
        self.proxies = [
            Proxy(world, n, service_timeout_ms=5_000, probation_ms=2_000, queued_operations_max=20)
            for n in range(3)
        ]
        self.asked: list[Asked] = []
        self.releases: list[asyncio.Task[Answer]] = []
        self.is_held = self.is_faulty = False

    async def step(self) -> None:
        at = self.rng.randrange(3)
        streams, store = self.proxies[at].streams, self.proxies[at].store
        kind = self.rng.random()
        if kind < 0.5:
            payload = b"%d" % len(self.asked)
            self.asked.append(Asked(at, [payload], streams.write("s", payload)))
        elif kind < 0.6:
            payloads = [b"%d.%d" % (len(self.asked), n) for n in range(self.rng.randrange(1, 4))]
            self.asked.append(Asked(at, payloads, streams.write_bulk("s", payloads)))
        elif kind < 0.65:
            store.expire()
        elif kind < 0.72:
            store.tick()
        elif kind < 0.75:
            self.releases.append(asyncio.create_task(streams.release("s")))
        elif kind < 0.77:
            self.is_faulty = not self.is_faulty
            self.world.bookie.fault = refuse_adds if self.is_faulty else no_fault
        elif kind < 0.79:
            self.hold(is_held=not self.is_held)
        else:
            await asyncio.sleep(self.rng.choice(PAUSES_S))

    def hold(self, *, is_held: bool) -> None:
        if is_held != self.is_held:
            self.is_held = is_held
            self.world.bookie.hold() if is_held else self.world.bookie.release()

    async def heal(self) -> None:
        self.world.bookie.fault = no_fault
        self.hold(is_held=False)
        for proxy in self.proxies:
            proxy.store.tick()
        for asked in self.asked:
            await asked.answer
        for release in self.releases:
            await release
        for proxy in self.proxies:
            await proxy.streams.close()

    async def check(self) -> int:
        """Compare what is in the log with the answers; return how many were SUCCESS."""
        log = await self.world.log("s")
        await (await log.open_writer(Listener())).close()
        found = [(dlsn, bytes(record.payload)) for dlsn, record in await read_all(log)]
        written = [payload for _, payload in found]
        assert len(set(written)) == len(written), "written twice"
        successes = 0
        for _, payloads, answered in self.asked:
            answer = answered.result()
            each = answer.each or (answer,) * len(payloads)
            for payload, one in zip(payloads, each, strict=True):
                if one.code is StatusCode.SUCCESS:
                    successes += 1
                    assert (one.dlsn, payload) in found, "acknowledged, and lost"
                elif one.code in NOT_WRITTEN:
                    assert payload not in written, f"written, and answered {one.code.name}"
        for at in range(3):
            mine = [asked for asked in self.asked if asked.proxy == at]
            order = [payload for asked in mine for payload in asked.payloads]
            kept = [payload for payload in written if payload in order]
            assert kept == [payload for payload in order if payload in kept], "out of order"
        return successes


@pytest.mark.parametrize("seed", range(12))
def test_answers_are_true_whatever_happens(tmp_path: Path, seed: int) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        steps = Story(world, Random(seed))
        for _ in range(STEPS):
            await steps.step()
        await steps.heal()
        assert await steps.check() > 0

    run(tmp_path, story)
