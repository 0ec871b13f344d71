"""Two registries over one store: what one does to topics, the other hears of."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple, cast

import pytest

from tailrace.broker.cluster.alterations import Alteration, Changes, ConfigOp
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.cluster.settings import TopicDefaults
from tailrace.broker.cluster.topics import TopicRegistry
from tailrace.broker.errors import KafkaError
from tailrace.core.errors import OwnershipAcquireFailed
from tailrace.core.log.log import CheckMay
from tailrace.core.metadata import child_watch
from tailrace.core.metadata.child_watch import ChildWatch
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.protocol.errors import ErrorCode
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
async def pair(path: Path, *created: str) -> AsyncIterator[Pair]:
    """`created`: topics that both know before there is a watch."""
    clock, streams = ManualClock(), Streams()
    store = SqliteStore(path / "metadata.db", clock)
    both = [
        TopicRegistry(store, streams, defaults=TopicDefaults({}), clock=clock, random=Random(seed))
        for seed in (1, 2)
    ]
    heard = Listener()
    both[1].listen(heard)
    await both[0].start()
    for name in created:
        await both[0].create(name, 1)
    await both[1].start()
    known = [topic.name for topic in both[1].all()]
    watch = ChildWatch(store, ClusterPaths().topics, both[1].note, known)
    watch.start()
    try:
        yield Pair(*both, heard, store)
    finally:
        await watch.close()
        await store.close()


def run(path: Path, story: Callable[[Pair], Awaitable[None]], *created: str) -> None:
    async def main() -> None:
        async with pair(path, *created) as at:
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
            altered = await at.mine.alter_configs("orders", Changes([change]))
            await at.until(lambda altered=altered: at.theirs.get("orders") == altered)  # type: ignore[misc]
            await at.mine.delete("orders")
            await at.until(lambda: at.theirs.get("orders") is None)
            assert at.theirs.by_id(made.topic_id) is None
        kinds = [kind for kind, _ in at.heard.heard]
        assert kinds.count("deleting") == 2
        assert kinds[-1] == "deleting"

    run(tmp_path, story)


def test_a_topic_that_goes_before_it_is_watched_is_heard_of(tmp_path: Path) -> None:
    async def story(at: Pair) -> None:
        assert at.theirs.get("orders") is not None
        await at.store.delete(ClusterPaths().topic("orders"))  # the watch has not begun to read yet
        await at.until(lambda: at.theirs.get("orders") is None)

    run(tmp_path, story, "orders")


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


@asynccontextmanager
async def deaf_pair(path: Path) -> AsyncIterator[Pair]:
    """Two registries that hear of each other only when they read."""
    clock, streams = ManualClock(), Streams()
    store = SqliteStore(path / "metadata.db", clock)
    defaults = TopicDefaults({})
    mine, theirs = (
        TopicRegistry(store, streams, defaults=defaults, clock=clock, random=Random(seed))
        for seed in (1, 2)
    )
    heard = Listener()
    theirs.listen(heard)
    try:
        await asyncio.gather(mine.start(), theirs.start())
        yield Pair(mine, theirs, heard, store)
    finally:
        await store.close()


def run_deaf(path: Path, story: Callable[[Pair], Awaitable[None]]) -> None:
    async def main() -> None:
        async with deaf_pair(path) as at:
            await story(at)

    asyncio.run(main(), debug=True)


def test_a_change_goes_on_from_what_another_broker_changed_just_before(tmp_path: Path) -> None:
    async def story(at: Pair) -> None:
        await at.mine.create("orders", 1)
        await at.theirs.note("orders")
        await at.mine.add_partitions("orders", 6)
        await at.mine.alter_configs(
            "orders", Changes([Alteration("retention.ms", ConfigOp.SET, "9")])
        )
        with pytest.raises(KafkaError) as refused:
            await at.theirs.add_partitions("orders", 4)
        assert refused.value.code is ErrorCode.INVALID_PARTITIONS
        change = Alteration("segment.bytes", ConfigOp.SET, "1048576")
        altered = await at.theirs.alter_configs("orders", Changes([change]))
        assert altered.configs == {"retention.ms": "9", "segment.bytes": "1048576"}
        assert altered.partition_count == 6

    run_deaf(tmp_path, story)


def test_who_finishes_a_deletion_late_leaves_the_new_topic_of_that_name(tmp_path: Path) -> None:
    async def story(at: Pair) -> None:
        await at.mine.create("orders", 1)
        blocked, go_on = asyncio.Event(), asyncio.Event()
        exists = at.store.exists

        async def slowly(*_: object) -> None:
            blocked.set()
            await go_on.wait()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tailrace.broker.cluster.topics.delete_streams", slowly)
            late = asyncio.create_task(at.mine.delete("orders"))
            await blocked.wait()
        await at.theirs.create("orders", 2)  # finishes the deletion, and begins anew
        for number in "12":  # versions of a node begin anew, too
            change = Alteration("retention.ms", ConfigOp.SET, number)
            made = await at.theirs.alter_configs("orders", Changes([change]))
        go_on.set()
        await late
        assert await exists(ClusterPaths().topic("orders")) is not None
        await at.mine.note("orders")
        assert at.mine.get("orders") == made

    run_deaf(tmp_path, story)


def test_a_topic_that_two_brokers_make_at_once_is_one(tmp_path: Path) -> None:
    async def story(at: Pair) -> None:
        outcomes = await asyncio.gather(
            *(registry.create("orders", 3) for registry in (at.mine, at.theirs)),
            return_exceptions=True,
        )
        made = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
        refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert len(made) == 1
        assert [getattr(error, "code", error) for error in refused] == [
            ErrorCode.TOPIC_ALREADY_EXISTS
        ]
        await at.mine.note("orders")
        await at.theirs.note("orders")
        assert at.mine.get("orders") == at.theirs.get("orders") == made[0]

    run_deaf(tmp_path, story)


def test_a_creation_that_another_broker_finished_was_successful(tmp_path: Path) -> None:
    async def story(at: Pair) -> None:
        blocked, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(*_: object) -> None:
            blocked.set()
            await go_on.wait()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tailrace.broker.cluster.topics.create_streams", slowly)
            making = asyncio.create_task(at.mine.create("orders", 1))
            await blocked.wait()
        with pytest.raises(KafkaError) as refused:
            await at.theirs.create("orders", 1)
        assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        go_on.set()
        assert await making == at.theirs.get("orders")

    run_deaf(tmp_path, story)


def test_a_topic_that_is_named_by_its_id_is_no_later_one_of_that_name(tmp_path: Path) -> None:
    async def story(at: Pair) -> None:
        old = await at.mine.create("orders", 1)
        await at.theirs.note("orders")
        await at.mine.delete("orders")
        new = await at.mine.create("orders", 1)
        with pytest.raises(KafkaError) as refused:
            await at.theirs.delete("orders", old.topic_id)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_ID
        assert at.theirs.get("orders") == new
        await at.theirs.delete("orders", new.topic_id)

    run_deaf(tmp_path, story)


def test_a_stream_is_deleted_once_its_owner_heard_of_it(tmp_path: Path) -> None:
    async def story(at: Pair) -> None:
        await at.mine.create("orders", 1)
        delete = at.mine._streams.delete_log
        asked = 0

        async def owned(name: str, check_may: CheckMay) -> object:
            nonlocal asked
            asked += 1
            if asked < 3:
                raise OwnershipAcquireFailed(name, current_owner="1;2;there:9092")
            return await delete(name, check_may)

        at.mine._streams.delete_log = owned  # type: ignore[method-assign]
        await at.mine.delete("orders")
        assert asked == 3
        assert await at.store.exists(ClusterPaths().topic("orders")) is None

    run_deaf(tmp_path, story)


def test_a_slow_deletion_spares_a_topic_that_was_made_again(tmp_path: Path) -> None:
    """Another broker finished it meanwhile, for who wanted the name: as auto-creation does."""

    async def story(at: Pair) -> None:
        await at.mine.create("orders", 3)
        delete = at.mine._streams.delete_log
        held, go_on = asyncio.Event(), asyncio.Event()

        async def slowly(name: str, check_may: CheckMay) -> object:
            if name == "orders-2" and not held.is_set():  # its owner has not heard yet
                held.set()
                await go_on.wait()
            return await delete(name, check_may)

        at.mine._streams.delete_log = slowly  # type: ignore[method-assign]
        deleting = asyncio.create_task(at.mine.delete("orders"))
        await held.wait()
        again = await at.theirs.create("orders", 3)
        go_on.set()
        await deleting
        assert cast("Streams", at.mine._streams).names == {f"orders-{at}" for at in range(3)}
        await at.mine.note("orders")
        assert at.mine.get("orders") == again

    run_deaf(tmp_path, story)


def test_a_deletion_that_an_owner_elsewhere_holds_up_stops_no_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tailrace.broker.cluster.topic_streams.OWNER_PAUSES_S", ())

    async def story(at: Pair) -> None:
        await at.mine.create("orders", 1)

        async def owned(name: str, _check_may: CheckMay) -> object:
            raise OwnershipAcquireFailed(name, current_owner="1;2;there:9092")

        at.mine._streams.delete_log = owned  # type: ignore[method-assign]
        with pytest.raises(OwnershipAcquireFailed):
            await at.mine.delete("orders")
        await at.theirs.start()
        assert at.theirs.get("orders") is None
        assert "topic left half done topic=orders" in caplog.text

    run_deaf(tmp_path, story)


def test_a_bug_over_one_child_keeps_no_other_from_its_turn_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_watch, "RETRY_S", 0.01)

    async def main() -> None:
        store = SqliteStore(tmp_path / "metadata.db", ManualClock())
        noted: list[str] = []
        again = asyncio.Event()

        async def note(name: str) -> None:
            noted.append(name)
            if name == "a" and noted.count("a") == 1:
                raise ZeroDivisionError("a bug")
            if name == "a":
                again.set()

        for name in "abc":
            await store.create(f"/parent/{name}", parents=True)
        watch = ChildWatch(store, "/parent", note, ())
        watch.start()
        async with asyncio.timeout(WITHIN_S):
            await again.wait()
        assert noted[:3] == ["a", "b", "c"]
        await watch.close()
        await store.close()

    asyncio.run(main(), debug=True)
