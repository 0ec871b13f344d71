"""The node of the stopped regions: changed, followed, and not believed when it is damaged."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tailrace.core.errors import CorruptData, Unavailable
from tailrace.core.log.names import is_reserved
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.tasks import together
from tailrace.proxy.routing.regions import REGIONS_MAX
from tailrace.proxy.routing.stopped_regions import (
    STOPPED_REGIONS,
    StopWatch,
    decode_stopped,
    encode_stopped,
    read_stopped,
    set_stopped,
    stopped_path,
)
from tailrace.simulation.sessions import SimStore
from tests.unit.core.metadata.conftest import run as run
from tests.unit.proxy.routing.test_members import simulated

NS = "/messaging/ns"
PATH = stopped_path(NS)
Run = Callable[[Callable[[MetadataStore], Coroutine[Any, Any, None]]], None]


class Heard:
    def __init__(self) -> None:
        self.sets: list[frozenset[str]] = []
        self._moved = asyncio.Event()

    def __call__(self, stopped: frozenset[str]) -> None:
        self.sets.append(stopped)
        self._moved.set()

    async def until(self, *regions: str) -> None:
        async with asyncio.timeout(20):
            while self.sets[-1] != frozenset(regions):
                self._moved.clear()
                await self._moved.wait()


def test_a_name_that_no_log_can_have() -> None:
    assert is_reserved(STOPPED_REGIONS)


def test_what_the_node_says() -> None:
    data = encode_stopped(frozenset({"us", "eu"}))
    assert data == b'{"region_stop_accept_new_stream":["eu","us"]}'
    assert decode_stopped(data) == {"eu", "us"}
    assert decode_stopped(b" ") == decode_stopped(b"{}") == frozenset()


@pytest.mark.parametrize(
    "data",
    [b"eu", b"[]", b'{"stop":["eu"]}', b'{"region_stop_accept_new_stream":[""]}', b"\xff"],
)
def test_what_does_not_decode(data: bytes) -> None:
    with pytest.raises(CorruptData, match="the stopped regions do not decode"):
        decode_stopped(data)


def test_regions_are_stopped_started_and_followed(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        heard = Heard()
        watch = StopWatch(store, NS, heard)
        await watch.start()
        assert heard.sets == [frozenset()]
        assert await set_stopped(store, NS, "eu", stopped=True)
        await heard.until("eu")
        assert not await set_stopped(store, NS, "eu", stopped=True)
        assert await set_stopped(store, NS, "us", stopped=True)
        await heard.until("eu", "us")
        assert await read_stopped(store, NS) == {"eu", "us"}
        assert await set_stopped(store, NS, "eu", stopped=False)
        await heard.until("us")
        await store.delete(PATH)
        await heard.until()
        await watch.close()
        assert await set_stopped(store, NS, "eu", stopped=True)
        assert heard.sets[-1] == frozenset()

    run(story)


def test_several_that_change_it_at_once_lose_nothing(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        await together([set_stopped(store, NS, name, stopped=True) for name in "abcd"])
        assert await read_stopped(store, NS) == set("abcd")

    run(story)


def test_a_damaged_node_leaves_what_was_stopped(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def story(store: MetadataStore) -> None:
        await set_stopped(store, NS, "eu", stopped=True)
        heard = Heard()
        watch = StopWatch(store, NS, heard)
        await watch.start()
        with caplog.at_level(logging.WARNING):
            await store.set(PATH, b"?", 0)
            async with asyncio.timeout(20):
                while "stopped_regions_unreadable" not in caplog.text:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        with pytest.raises(CorruptData):
            await set_stopped(store, NS, "us", stopped=True)
        await store.set(PATH, encode_stopped(frozenset({"us"})), 1)
        await heard.until("us")
        assert heard.sets == [{"eu"}, {"us"}]
        await watch.close()

    run(story)


def test_more_regions_than_there_may_be_are_refused(run: Run) -> None:
    async def story(store: MetadataStore) -> None:
        full = frozenset(f"r{n}" for n in range(REGIONS_MAX))
        await store.create(PATH, encode_stopped(full), parents=True)
        with pytest.raises(ValueError, match="101 stopped regions"):
            await set_stopped(store, NS, "one more", stopped=True)

    run(story)


def test_a_lost_session_hides_no_change() -> None:
    async def story(store: SimStore, other: SimStore) -> None:
        heard = Heard()
        watch = StopWatch(other, NS, heard)
        await watch.start()
        for region in ("eu", "us"):
            other.expire()
            await set_stopped(store, NS, region, stopped=True)
            other.tick()
            await heard.until(*sorted({"eu", region}))
        await watch.close()
        await other.close()
        closed = StopWatch(other, NS, heard)
        with pytest.raises(Unavailable):
            await closed.start()
        await closed.close()

    simulated(story)
