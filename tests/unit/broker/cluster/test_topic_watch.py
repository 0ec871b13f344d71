"""Two registries over one store: what one does to topics, the other hears of."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from broker.cluster.paths import ClusterPaths
from broker.cluster.settings import Alteration, ConfigOp, TopicDefaults
from broker.cluster.topic_watch import TopicWatch
from broker.cluster.topics import TopicRegistry
from core.metadata.sqlite import SqliteStore
from core.runtime.clock import ManualClock
from tests.unit.broker.cluster.support import Listener, Streams

WITHIN_S = 10


class Pair(NamedTuple):
    mine: TopicRegistry
    theirs: TopicRegistry
    heard: Listener
    store: SqliteStore

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once the other registry is so; a topic's own changes come in the loop's turns."""
        async with asyncio.timeout(WITHIN_S):
            while not condition():
                await self.store.exists("/")


@asynccontextmanager
async def pair(path: Path) -> AsyncIterator[Pair]:
    clock, streams = ManualClock(), Streams()
    store = SqliteStore(path / "metadata.db", clock)
    both = [
        TopicRegistry(store, streams, defaults=TopicDefaults({}), clock=clock, random=Random(seed))
        for seed in (1, 2)
    ]
    heard = Listener()
    both[1].listen(heard)
    for registry in both:
        await registry.start()
    watch = TopicWatch(store, ClusterPaths(), both[1].note)
    watch.start()
    try:
        yield Pair(*both, heard, store)
    finally:
        await watch.close()
        await store.close()


def run(path: Path, story: Callable[[Pair], Awaitable[None]]) -> None:
    async def main() -> None:
        async with pair(path) as at:
            await story(at)

    asyncio.run(main(), debug=True)


def test_a_topics_life(tmp_path: Path) -> None:
    async def story(at: Pair) -> None:
        for _ in range(2):  # made again, it is another one
            made = await at.mine.create("orders", 2, {"retention.ms": "5"}, 3)
            await at.until(lambda made=made: at.theirs.get("orders") == made)  # type: ignore[misc]
            assert at.theirs.by_id(made.topic_id) == made
            grown = await at.mine.add_partitions("orders", 4)
            await at.until(lambda grown=grown: at.theirs.get("orders") == grown)  # type: ignore[misc]
            change = Alteration("retention.ms", ConfigOp.SET, "9")
            altered = await at.mine.alter_configs("orders", [change])
            await at.until(lambda altered=altered: at.theirs.get("orders") == altered)  # type: ignore[misc]
            await at.mine.delete("orders")
            await at.until(lambda: at.theirs.get("orders") is None)
            assert at.theirs.by_id(made.topic_id) is None
        kinds = [kind for kind, _ in at.heard.heard]
        assert kinds.count("deleting") == 2
        assert kinds[-1] == "deleting"

    run(tmp_path, story)


def test_what_was_heard_of_can_be_changed_from_the_other_side(tmp_path: Path) -> None:
    async def story(at: Pair) -> None:
        await at.mine.create("orders", 1)
        await at.until(lambda: at.theirs.get("orders") is not None)
        grown = await at.theirs.add_partitions("orders", 3)
        assert grown.partition_count == 3
        assert (await at.mine.add_partitions("orders", 5)).partition_count == 5

    run(tmp_path, story)


def test_a_topic_that_is_being_made_is_left_to_its_maker(tmp_path: Path) -> None:
    async def story(at: Pair) -> None:
        blocked, go_on = asyncio.Event(), asyncio.Event()
        create = at.mine._streams.create_log

        async def slowly(name: str, settings: dict[str, str]) -> None:
            blocked.set()
            await go_on.wait()
            await create(name, settings)

        at.mine._streams.create_log = slowly  # type: ignore[method-assign, assignment]
        making = asyncio.create_task(at.mine.create("orders", 1))
        await blocked.wait()
        await at.theirs.note("orders")
        assert at.theirs.get("orders") is None
        go_on.set()
        made = await making
        await at.until(lambda: at.theirs.get("orders") == made)

    run(tmp_path, story)


def test_a_node_that_cannot_be_read_holds_up_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(at: Pair) -> None:
        await at.store.create(ClusterPaths().topic("a-broken"), b"{")
        await at.mine.create("orders", 1)
        await at.until(lambda: at.theirs.get("orders") is not None)
        assert "a-broken" in caplog.text

    run(tmp_path, story)
