"""A change of one topic waits for no other's, and at most for a few of its own size."""

import asyncio
from pathlib import Path

import pytest

from tailrace.broker.cluster import topic_locks
from tailrace.broker.cluster.topic_locks import LARGE, LARGE_AT_ONCE, SMALL_AT_ONCE, TopicLocks
from tailrace.broker.cluster.topics import TopicRegistry
from tailrace.broker.errors import KafkaError
from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.cluster.support import Streams, registry
from tests.unit.broker.loops import in_loop, turns, until

WIDE = "wide"


class SlowStreams(Streams):
    """Streams of one topic that are not made or deleted until they may be."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = asyncio.Event()
        self.waiting = 0

    async def _create(self, name: str) -> None:
        await self._wait(name)
        await super()._create(name)

    async def _delete(self, name: str) -> None:
        await self._wait(name)
        await super()._delete(name)

    async def _wait(self, name: str) -> None:
        if name.startswith(WIDE):
            self.waiting += 1
            await self.may_go_on.wait()


async def _begun(
    topics: TopicRegistry, streams: SlowStreams, change: str
) -> "asyncio.Task[object]":
    """Begin a change of the slow topic, and return it when its streams are waited for."""
    if change != "create":
        streams.may_go_on.set()
        await topics.create(WIDE, 2)
        streams.may_go_on.clear()
        streams.waiting = 0
    work = {
        "create": lambda: topics.create(WIDE, LARGE + 1),
        "grow": lambda: topics.add_partitions(WIDE, LARGE + 10),
        "delete": lambda: topics.delete(WIDE),
    }
    task: asyncio.Task[object] = asyncio.create_task(work[change]())
    await until(lambda: streams.waiting > 0)
    return task


@pytest.mark.parametrize("change", ["create", "grow", "delete"])
def test_nobody_waits_behind_a_large_change_of_another_topic(tmp_path: Path, change: str) -> None:
    @in_loop
    async def story() -> None:
        streams = SlowStreams()
        async with registry(tmp_path, streams) as topics:
            task = await _begun(topics, streams, change)
            assert (await topics.create("__consumer_offsets", 3)).partition_count == 3
            await topics.create("orders", 1)
            await topics.add_partitions("orders", 2)
            await topics.delete("orders")
            await topics.catch_up()
            await topics.note("orders")
            assert not task.done()
            assert (topics.get(WIDE) is not None) is (change == "grow")
            streams.may_go_on.set()
            await task
            assert (topics.get(WIDE) is None) is (change == "delete")
            await topics.catch_up()
            assert [topic.name for topic in topics.all() if topic.name != WIDE] == [
                "__consumer_offsets"
            ]

    story()


def test_names_that_collide_wait_for_each_other(tmp_path: Path) -> None:
    @in_loop
    async def story() -> None:
        streams = SlowStreams()
        async with registry(tmp_path, streams) as topics:
            first = asyncio.create_task(topics.create("wide.a", 1))
            await until(lambda: streams.waiting > 0)
            second = asyncio.create_task(topics.create("wide_a", 1))
            again = asyncio.create_task(topics.create("wide.a", 1))
            await turns(20)
            assert not second.done()
            assert not again.done()
            streams.may_go_on.set()
            assert (await first).name == "wide.a"
            for task, code in (
                (second, ErrorCode.INVALID_TOPIC_EXCEPTION),
                (again, ErrorCode.TOPIC_ALREADY_EXISTS),
            ):
                with pytest.raises(KafkaError) as refused:
                    await task
                assert refused.value.code is code

    story()


def test_what_others_make_is_known_after_a_catch_up(tmp_path: Path) -> None:
    @in_loop
    async def story() -> None:
        streams = SlowStreams()
        async with registry(tmp_path, streams) as topics:
            task = await _begun(topics, streams, "create")
            other = TopicRegistry(
                topics._nodes._store,
                Streams(),
                defaults=topics.defaults,
                clock=topics._clock,
                random=topics._random,
            )
            await other.create("theirs", 1)
            await topics.catch_up()
            assert topics.get("theirs") is not None
            assert topics.get(WIDE) is None
            streams.may_go_on.set()
            await task

    story()


@in_loop
async def test_few_changes_of_a_size_happen_at_once() -> None:
    locks = TopicLocks()
    running: dict[str, int] = {"small": 0, "large": 0, "internal": 0}
    most = dict(running)
    go = asyncio.Event()

    async def change(kind: str, name: str, partitions: int) -> None:
        async with locks.changing(name, partitions):
            running[kind] += 1
            most[kind] = max(most[kind], running[kind])
            await go.wait()
            running[kind] -= 1

    async with asyncio.TaskGroup() as group:
        for number in range(3 * SMALL_AT_ONCE):
            group.create_task(change("small", f"s{number}", LARGE))
            group.create_task(change("large", f"l{number}", LARGE + 1))
        for name in topic_locks.INTERNAL_TOPICS:
            group.create_task(change("internal", name, 10_000))
        await turns()
        assert running["internal"] == len(topic_locks.INTERNAL_TOPICS)
        go.set()
    assert (most["small"], most["large"]) == (SMALL_AT_ONCE, LARGE_AT_ONCE)
    assert not locks.is_held("s0")
    assert not locks._locks, "what nobody uses is forgotten"
