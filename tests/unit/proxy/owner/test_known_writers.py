"""Which writers a stream knows, for how long, and what it reads of other owners for that."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.proxy.owner.codes import StatusCode
from tests.unit.core.log.world import Listener, RecordState, write
from tests.unit.proxy.owner.test_resends import DAY_MS, FULL, GAP, SUCCESS, w
from tests.unit.proxy.owner.world import Proxy, ProxyWorld, codes, new_stream, payloads_of
from tests.unit.proxy.owner.world import run as run_in_virtual_time

if TYPE_CHECKING:
    from tailrace.proxy.owner.operations import Answer

Run = Callable[[Callable[[ProxyWorld], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return lambda story: run_in_virtual_time(tmp_path, story)


def test_the_stream_of_another_kind_of_owner_is_refused(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await new_stream(world)
        writer = await log.open_writer(Listener(), RecordState())
        await write(writer, world.clock.now_ms())
        await writer.roll()
        await writer.close()
        streams = Proxy(world, 1).streams
        for number in (None, w(0)):
            answer = await streams.write("s", b"x", writer=number)
            assert answer.code is StatusCode.ILLEGAL_STATE
            assert "another kind of owner" in answer.error
            await asyncio.sleep(2)
        await streams.close()
        assert len(await payloads_of(world)) == 1

    run(story)


def test_a_writer_is_forgotten_after_its_time(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        await one.streams.write_bulk("s", [b"a", b"b"], writer=w(0))
        await asyncio.sleep(DAY_MS / 1000 - 1)
        assert (await one.streams.write("s", b"c", writer=w(2))).code is SUCCESS
        await asyncio.sleep(DAY_MS / 1000 + 0.002)
        await one.streams.release("s")
        assert (await two.streams.write("s", b"x", writer=w(3))).code is GAP
        assert (await two.streams.write("s", b"d", writer=w(0))).code is SUCCESS
        assert (await two.streams.write("s", b"x", writer=w(2))).code is GAP
        await two.streams.close()
        assert await payloads_of(world) == [b"a", b"b", b"c", b"d"]

    run(story)


def test_no_writer_is_forgotten_for_another(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1, writers_max=2, writer_expiration_ms=60_000)
        streams = proxy.streams

        async def ask(writer_id: bytes, sequence: int) -> StatusCode:
            return (await streams.write("s", writer_id, writer=w(sequence, writer_id))).code

        asked = [streams.write("s", b"%d" % n, writer=w(0, b"%d" % n)) for n in range(3)]
        assert codes([await each for each in asked]) == [SUCCESS, SUCCESS, FULL]
        assert await ask(b"2", 0) is FULL
        await asyncio.sleep(40)
        assert await ask(b"1", 1) is SUCCESS
        await asyncio.sleep(40)
        assert await ask(b"2", 0) is SUCCESS
        assert await ask(b"3", 0) is FULL
        assert await ask(b"1", 2) is SUCCESS
        assert proxy.metrics.too_many_writers_total == 3
        await streams.close()

    run(story)


def test_writes_of_several_writers_and_of_none_share_entries(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        writers = [None, b"a", b"a", None, b"b", b"a", b"b", None, b"b"]
        numbers = [0, 0, 1, 0, 0, 2, 1, 0, 2]

        async def ask(proxy: Proxy, *, numbered_only: bool) -> "list[Answer]":
            asked = [
                proxy.streams.write(
                    "s", b"%d" % at, writer=None if writer_id is None else w(number, writer_id)
                )
                for at, (writer_id, number) in enumerate(zip(writers, numbers, strict=True))
                if writer_id is not None or not numbered_only
            ]
            return [await each for each in asked]

        await one.streams.heartbeat("s")
        answers = await ask(one, numbered_only=False)
        places = {answer.dlsn.entry_id for answer in answers if answer.dlsn is not None}
        assert len(places) == 1
        numbered = [answers[at] for at, writer_id in enumerate(writers) if writer_id is not None]
        assert await ask(one, numbered_only=True) == numbered
        one.store.expire()
        assert await ask(two, numbered_only=True) == numbered
        await two.streams.close()
        assert await payloads_of(world) == [b"%d" % at for at in range(9)]

    run(story)


def test_segments_of_other_writers_are_passed_over(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        first = await one.streams.write("s", b"a", writer=w(0))
        await one.streams.close()
        now = world.clock.now_ms()
        for segment in range(3):
            writer = await log.open_writer(Listener())
            await write(writer, now + segment)
            await writer.close()
        assert await two.streams.write("s", b"a", writer=w(0)) == first
        assert (await two.streams.write("s", b"b", writer=w(1))).code is SUCCESS
        await two.streams.close()
        assert len(await payloads_of(world)) == 5

    run(story)
