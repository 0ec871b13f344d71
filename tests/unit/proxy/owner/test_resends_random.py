"""Three proxies, one stream, writers that resend whatever was not answered with SUCCESS, to any
proxy: each number is in the log once, in order, where the answers say."""

import asyncio
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tailrace.core.log import state_deltas
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.operations import UNKNOWN_DLSN, WriteChain, WriterSequence
from tests.unit.core.ledger.fake_bookie import no_fault
from tests.unit.core.log.world import Listener, read_all
from tests.unit.proxy.owner.test_stream import refuse_adds
from tests.unit.proxy.owner.world import Proxy, ProxyWorld, new_stream, run

if TYPE_CHECKING:
    from tailrace.proxy.owner.operations import Answer

STEPS = 500
PAUSES_S = (0.0, 0.001, 0.01, 0.2, 1.0, 4.0, 12.0)
TRIES = 60
KINDS = ("write", "bulk", "chain")


class Asked(NamedTuple):
    first: int
    count: int
    answer: "asyncio.Future[Answer]"
    is_chain: bool = False


class Writer:
    """Asks for numbers from the first one that is not acknowledged, or before it, on."""

    def __init__(self, writer_id: bytes) -> None:
        self.writer_id = writer_id
        self.asked: list[Asked] = []
        self.next = 0

    def payload(self, number: int) -> bytes:
        return b"%s/%d" % (self.writer_id, number)

    def ask(self, proxy: Proxy, first: int, count: int, kind: str) -> None:
        self.next = max(self.next, first + count)
        if kind != "write":
            payloads = [self.payload(number) for number in range(first, first + count)]
            writer = WriterSequence(self.writer_id, first)
            chain = WriteChain() if kind == "chain" else None
            bulk = proxy.streams.write_bulk("s", payloads, writer=writer, chain=chain)
            self.asked.append(Asked(first, count, bulk, chain is not None))
            return
        for number in range(first, first + count):
            writer = WriterSequence(self.writer_id, number)
            one = proxy.streams.write("s", self.payload(number), writer=writer)
            self.asked.append(Asked(number, 1, one))

    def acknowledged(self) -> dict[int, DLSN | None]:
        """Return the numbers with SUCCESS, and where they are as far as an answer says it."""
        places: dict[int, DLSN | None] = {}
        for asked in self.asked:
            if not asked.answer.done():
                continue
            for number, dlsn in enumerate(told(asked), asked.first):
                if dlsn is not None:
                    dlsn = None if dlsn == UNKNOWN_DLSN else dlsn  # noqa: PLW2901
                    known = places.get(number)
                    assert None in (known, dlsn) or known == dlsn, "another answer"
                    places[number] = dlsn or known
        return places

    @property
    def first_missing(self) -> int:
        done = self.acknowledged()
        return next(number for number in range(self.next + 1) if number not in done)


def told(asked: Asked) -> list[DLSN | None]:
    """Return the position of each record that an answer says is written, None for the others."""
    answer = asked.answer.result()
    if asked.is_chain:
        found = [
            dlsn._replace(slot=dlsn.slot + at) for dlsn, count in answer.runs for at in range(count)
        ]
        assert answer.code is not StatusCode.SUCCESS or len(found) == asked.count
        return [*found]
    each = answer.each or (answer,) * asked.count
    assert len(each) == asked.count
    return [one.dlsn or UNKNOWN_DLSN if one.code is StatusCode.SUCCESS else None for one in each]


class Story:
    def __init__(self, world: ProxyWorld, rng: Random) -> None:
        self.world, self.rng = world, rng
        self.proxies = [
            Proxy(
                world,
                n,
                log={"segment_bytes": 600, "waiting_bytes_max": 60, "record_bytes_max": 60},
                service_timeout_ms=5_000,
                probation_ms=2_000,
                queued_operations_max=20,
            )
            for n in range(3)
        ]
        self.writers = [Writer(b"w%d" % n) for n in range(4)]
        self.plain: list[asyncio.Future[Answer]] = []
        self.releases: list[asyncio.Task[Answer]] = []
        self.is_held = self.is_faulty = False

    async def step(self) -> None:
        rng = self.rng
        proxy = self.proxies[rng.randrange(3)]
        kind = rng.random()
        if kind < 0.5:
            writer = rng.choice(self.writers)
            first = max(0, writer.first_missing - rng.choice((0, 0, 0, 1, 5, 20)))
            writer.ask(proxy, first, rng.randrange(1, 6), rng.choice(KINDS))
        elif kind < 0.55:
            self.plain.append(proxy.streams.write("s", b"plain"))
        elif kind < 0.6:
            proxy.store.expire()
        elif kind < 0.68:
            proxy.store.tick()
        elif kind < 0.72:
            self.releases.append(asyncio.create_task(proxy.streams.release("s")))
        elif kind < 0.74:
            self.is_faulty = not self.is_faulty
            self.world.bookie.fault = refuse_adds if self.is_faulty else no_fault
        elif kind < 0.76:
            self.hold(is_held=not self.is_held)
        else:
            await asyncio.sleep(rng.choice(PAUSES_S))

    def hold(self, *, is_held: bool) -> None:
        if is_held != self.is_held:
            self.is_held = is_held
            self.world.bookie.hold() if is_held else self.world.bookie.release()

    async def heal(self) -> None:
        """End the faults; each writer gets through, whichever proxy it asks."""
        self.world.bookie.fault = no_fault
        self.hold(is_held=False)
        for proxy in self.proxies:
            proxy.store.tick()
        for writer in self.writers:
            for _ in range(TRIES):
                first = writer.first_missing
                if first == writer.next:
                    break
                proxy = self.rng.choice(self.proxies)
                writer.ask(proxy, first, min(5, writer.next - first), "bulk")
                await writer.asked[-1].answer
                await asyncio.sleep(0.5)
            else:
                raise AssertionError(f"{writer.writer_id!r} does not get through")
        for answer in self.plain:
            await answer
        for release in self.releases:
            await release
        for proxy in self.proxies:
            await proxy.streams.close()

    async def check(self) -> None:
        log = await self.world.log("s")
        await (await log.open_writer(Listener())).close()
        found = {dlsn: bytes(record.payload) for dlsn, record in await read_all(log)}
        for writer in self.writers:
            mine = [p for p in found.values() if p.startswith(writer.writer_id + b"/")]
            assert mine == [writer.payload(number) for number in range(writer.next)]
            for number, dlsn in writer.acknowledged().items():
                if dlsn is not None:
                    assert found[dlsn] == writer.payload(number)


@pytest.mark.parametrize("seed", range(8))
def test_each_number_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(state_deltas, "PACE_BYTES", 3 * state_deltas.ENTRY_COST_BYTES)

    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        steps = Story(world, Random(seed))
        for _ in range(STEPS):
            await steps.step()
        await steps.heal()
        await steps.check()

    run(tmp_path, story)
