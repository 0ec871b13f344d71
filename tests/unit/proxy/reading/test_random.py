"""Many readers of one stream, at random: each gets exactly what a direct reader gets."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.proxy.owner.codes import StatusCode
from tests.unit.core.log.world import put
from tests.unit.proxy.owner.world import ProxyWorld, run
from tests.unit.proxy.reading.world import (
    LATEST,
    OLDEST,
    Got,
    Reader,
    direct,
    request,
    service,
    writing,
)

STEPS = 220
PAUSES_S = (0.0, 0.0, 0.001, 0.03, 0.5, 3.0)


class Story:
    """One writer, a proxy that keeps little, and readers that come, pause and go."""

    def __init__(self, world: ProxyWorld, rng: Random) -> None:
        self.world, self.rng = world, rng
        self.proxy = service(
            world,
            cache_bytes=rng.choice((0, 4_000, 40_000, 10**7)),
            stream_cache_bytes=rng.choice((0, 3_000, 10**7)),
            feed_linger_ms=rng.choice((1, 300, 5_000)),
            stream_feeds_max=20,
        )
        self.txid = 0
        self.running: list[tuple[Reader, Any, asyncio.Task[None]]] = []
        self.expected: list[tuple[Reader, Any, DLSN, int]] = []

    async def begin(self) -> None:
        self.log, self.writer = await writing(self.world, control_flush_ms=5)
        self.oracle = await self.world.log("s", ignores_truncation=True)

    async def step(self) -> None:
        kind = self.rng.random()
        if kind < 0.45:
            for _ in range(self.rng.randrange(1, 6)):
                self.txid += self.rng.choice((0, 1, 1, 5))
                size = self.rng.choice((1, 30, 700, 700, 50_000))
                put(self.writer, self.txid, b"%d:" % self.rng.randrange(10**9) + b"x" * size)
            if self.rng.random() < 0.5:
                await self.writer.flush()
        elif kind < 0.5:
            await self.writer.roll()
        elif kind < 0.53:
            await self.writer.flush()
            known = await direct(self.oracle)
            if known:
                await self.log.truncate(self.rng.choice(known).dlsn)
        elif kind < 0.7 and len(self.running) < 15:
            await self.read()
        else:
            await asyncio.sleep(self.rng.choice(PAUSES_S))

    async def read(self) -> None:
        await self.writer.flush()
        known = await direct(self.oracle)
        start: Any = self.rng.choice((OLDEST, LATEST, "dlsn", "txid"))
        if start == "dlsn":
            at = self.rng.choice(known).dlsn if known else DLSN(1, 0, 0)
            more = self.rng.choice((0, 0, 0, 3))
            start = DLSN(at.lssn + more, at.entry_id, at.slot + self.rng.randrange(2))
        elif start == "txid":
            start = [self.rng.randrange(self.txid + 5)]
        tail = self.rng.random() < 0.8
        most = self.rng.choice((0, 0, 3, 50))
        floor = self.log.first_readable(DLSN(0, 0, 0))
        reader = Reader(self.proxy, request(start, tail=tail, most=most))
        if start == LATEST:
            await asyncio.wait_for(reader.step(), 60)
        self.expected.append((reader, start, floor, most if tail else -1))
        pace = self.rng.choice(PAUSES_S)
        task = asyncio.create_task(self.consume(reader, pace))
        if start != LATEST:
            await asyncio.sleep(0.2)  # it begins before something is truncated
        self.running.append((reader, start, task))

    async def consume(self, reader: Reader, pace: float) -> None:
        is_on = True
        while is_on:
            is_on = await reader.step()
            await asyncio.sleep(self.rng.choice((0, pace)))

    async def finish(self) -> int:
        await self.writer.mark_end_of_stream()
        await self.writer.close()
        for _, _, task in self.running:
            await asyncio.wait_for(task, 600)
        everything = await direct(self.oracle)
        for reader, start, floor, most in self.expected:
            self.check(everything, reader, start, floor, most)
        await self.proxy.close()
        return sum(len(reader.got) for reader, *_ in self.expected)

    def check(
        self, everything: list[Got], reader: Reader, start: Any, floor: DLSN, most: int
    ) -> None:
        if start == LATEST:
            wanted = everything[len(everything) - len(reader.got) :]
            if most:
                wanted = reader.got  # where it began is not known
        elif isinstance(start, DLSN):
            wanted = [each for each in everything if each.dlsn >= max(start, floor)]
        elif isinstance(start, list):
            wanted = [each for each in everything if each.dlsn >= floor and each.txid >= start[0]]
        else:
            wanted = [each for each in everything if each.dlsn >= floor]
        if most < 0:  # ended at the tail, as it was, or with what it wanted
            assert reader.got == wanted[: len(reader.got)]
            return
        if most:
            wanted = wanted[:most]
        assert reader.got == wanted, start
        if not most or len(wanted) < most:
            assert reader.ended is not None
            assert reader.ended.code is StatusCode.END_OF_STREAM
        assert reader.tails == sorted(set(reader.tails)), "told twice"


@pytest.mark.parametrize("seed", [2, 6, 20, 24])
def test_each_reader_gets_what_a_direct_reader_gets(tmp_path: Path, seed: int) -> None:
    async def story(world: ProxyWorld) -> None:
        steps = Story(world, Random(seed))
        await steps.begin()
        for _ in range(STEPS):
            await steps.step()
        assert await steps.finish() > 0
        assert steps.proxy.metrics.readers == steps.proxy.metrics.feeds == 0
        assert steps.proxy._context.budget.used_bytes == 0

    run(tmp_path, story)
