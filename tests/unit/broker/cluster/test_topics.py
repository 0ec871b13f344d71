"""The registry: what is seen, what is refused, and that no crash leaves anything in between."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from typing_extensions import override

from tailrace.broker.cluster.alterations import Alteration, Changes, ConfigOp
from tailrace.broker.cluster.names import stream_name
from tailrace.broker.cluster.settings import TopicDefaults
from tailrace.broker.cluster.topics import TopicRegistry
from tailrace.broker.errors import KafkaError
from tailrace.core.errors import BadVersion, CorruptData, InvalidQuorums
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.cluster.support import Crash, Fuse, Listener, Streams, registry


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await story()

    asyncio.run(main(), debug=True)


def streams_of(topics: TopicRegistry) -> set[str]:
    return {stream_name(t.name, p) for t in topics.all() for p in range(t.partition_count)}


class Late(Streams):
    """Lets something happen before it is asked which streams there are."""

    before_next: Callable[[], Awaitable[None]] | None = None

    @override
    async def first_log(self, names: Sequence[str]) -> str | None:
        act, self.before_next = self.before_next, None
        if act is not None:
            await act()
        return await super().first_log(names)


async def refused(call: Awaitable[object]) -> KafkaError:
    with pytest.raises(KafkaError) as error:
        await call
    return error.value


def test_a_created_topic_is_there_with_its_streams_and_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        streams = Streams()
        async with registry(tmp_path, streams) as topics:
            made = await topics.create("orders", 3, {"segment.bytes": " 1048576 "})
            assert topics.get("orders") is made
            assert topics.by_id(made.topic_id) is made
            assert streams.names == {"orders-0", "orders-1", "orders-2"}
            assert made.configs == {"segment.bytes": "1048576"}
            assert made.settings.segment_bytes == 1_048_576
        async with registry(tmp_path, streams) as topics:
            assert topics.all() == [made]

    run(story)


def test_topic_ids_are_uuids_that_no_tool_takes_for_an_option(tmp_path: Path) -> None:
    async def story() -> None:
        async with registry(tmp_path) as topics:
            made = [await topics.create(f"t{i}", 1) for i in range(50)]
        ids = {topic.topic_id for topic in made}
        assert len(ids) == 50
        for topic_id in ids:
            assert len(topic_id) == 16
            assert topic_id[0] >> 2 != 0b111110  # '-' in URL-safe base64
            assert topic_id[6] >> 4 == 4

    run(story)


@pytest.mark.parametrize(
    ("name", "partitions", "code"),
    [
        ("orders", 1, ErrorCode.TOPIC_ALREADY_EXISTS),
        ("my_topic", 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", 1, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("new", 0, ErrorCode.INVALID_PARTITIONS),
        ("new", 10_001, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_creation_refused(tmp_path: Path, name: str, partitions: int, code: ErrorCode) -> None:
    async def story() -> None:
        streams = Streams()
        async with registry(tmp_path, streams) as topics:
            await topics.create("orders", 1)
            await topics.create("my.topic", 1)
            before = set(streams.names)
            assert (await refused(topics.create(name, partitions))).code is code
            assert streams.names == before

    run(story)


def test_a_name_is_free_again_when_what_it_collides_with_is_gone(tmp_path: Path) -> None:
    async def story() -> None:
        streams = Streams()
        async with registry(tmp_path, streams) as topics:
            await topics.create("my.topic", 1)
            await topics.add_partitions("my.topic", 2)
        async with registry(tmp_path, streams) as topics:
            assert (await refused(topics.create("my_topic", 1))).code is (
                ErrorCode.INVALID_TOPIC_EXCEPTION
            )
            await topics.delete("my.topic")
            await topics.create("my_topic", 1)
            assert (await refused(topics.create("my.topic", 1))).code is (
                ErrorCode.INVALID_TOPIC_EXCEPTION
            )

    run(story)


def test_copies_that_placement_refuses_leave_nothing(tmp_path: Path) -> None:
    """As three copies are refused where two regions are promised: before the topic's node."""

    async def story() -> None:
        streams = Streams()
        streams.unplaceable = "3"
        async with registry(tmp_path, streams) as topics:
            with pytest.raises(InvalidQuorums):
                await topics.create("orders", 2, replication_factor=3)
            assert topics.all() == []
            await topics.create("orders", 2, replication_factor=4)
            assert streams.names == {"orders-0", "orders-1"}
        async with registry(tmp_path, streams) as topics:
            assert [topic.name for topic in topics.all()] == ["orders"]

    run(story)


def test_internal_topics_are_marked(tmp_path: Path) -> None:
    async def story() -> None:
        async with registry(tmp_path) as topics:
            assert (await topics.create("__consumer_offsets", 2)).internal
            assert not (await topics.create("other", 1)).internal

    run(story)


def test_deletion_forgets_the_topic_and_its_streams(tmp_path: Path) -> None:
    async def story() -> None:
        streams = Streams()
        async with registry(tmp_path, streams) as topics:
            made = await topics.create("orders", 2)
            await topics.delete("orders")
            assert topics.get("orders") is None
            assert topics.by_id(made.topic_id) is None
            assert streams.names == set()
            again = await topics.create("orders", 1)
            assert again.topic_id != made.topic_id
            for unknown in ("nobody", "a/b", ""):
                error = await refused(topics.delete(unknown))
                assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(story)


def test_growing(tmp_path: Path) -> None:
    async def story() -> None:
        streams = Streams()
        async with registry(tmp_path, streams) as topics:
            made = await topics.create("orders", 2)
            grown = await topics.add_partitions("orders", 4)
            assert (grown.partition_count, grown.topic_id) == (4, made.topic_id)
            assert streams.names == streams_of(topics)
            for count in (4, 3, 0, -1):
                error = await refused(topics.add_partitions("orders", count))
                assert error.code is ErrorCode.INVALID_PARTITIONS
            error = await refused(topics.add_partitions("orders", 20_000))
            assert error.code is ErrorCode.POLICY_VIOLATION
            error = await refused(topics.add_partitions("nobody", 4))
            assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(story)


def test_altering_is_all_or_nothing_and_survives(tmp_path: Path) -> None:
    async def story() -> None:
        def put(name: str, value: str) -> Alteration:
            return Alteration(name, ConfigOp.SET, value)

        async with registry(tmp_path) as topics:
            await topics.create("orders", 1)
            await topics.alter_configs("orders", Changes([put("retention.ms", "5")]))
            bad = Changes([put("retention.ms", "6"), put("nonsense", "1")])
            assert (await refused(topics.alter_configs("orders", bad))).code is (
                ErrorCode.INVALID_CONFIG
            )
        async with registry(tmp_path) as topics:
            topic = topics.get("orders")
            assert topic is not None
            assert topic.settings.retention_ms == 5
            error = await refused(topics.alter_configs("nobody", Changes(())))
            assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(story)


def test_listeners_hear_changes_and_close_before_streams_go(tmp_path: Path) -> None:
    async def story() -> None:
        listener = Listener()
        async with registry(tmp_path) as topics:
            topics.listen(listener)
            await topics.create("orders", 1)
            await topics.add_partitions("orders", 2)
            await topics.alter_configs("orders", Changes(()))
            await topics.delete("orders")
        assert listener.heard == [("changed", "orders")] * 3 + [("deleting", "orders")]

    run(story)


async def _create(topics: TopicRegistry) -> None:
    await topics.create("new", 3)


async def _delete(topics: TopicRegistry) -> None:
    await topics.delete("old")


async def _grow(topics: TopicRegistry) -> None:
    await topics.add_partitions("old", 4)


async def _alter(topics: TopicRegistry) -> None:
    await topics.alter_configs("old", Changes([Alteration("retention.ms", ConfigOp.SET, "5")]))


@pytest.mark.parametrize("change", [_create, _delete, _grow, _alter])
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_step_heals_at_the_next_start(
    tmp_path: Path, change: Callable[[TopicRegistry], Awaitable[None]], after: bool
) -> None:
    async def steps_of(path: Path) -> int:
        fuse = Fuse()
        async with registry(path) as topics:
            await topics.create("old", 2)
        async with registry(path, fuse=fuse) as topics:
            await change(topics)
        return fuse.passed

    async def crash_at(path: Path, step: int) -> None:
        streams = Streams()
        async with registry(path, streams) as topics:
            await topics.create("old", 2)
        with pytest.raises(Crash):
            async with registry(path, streams, Fuse(step, after=after)) as topics:
                await change(topics)
        async with registry(path, streams) as topics:
            assert streams.names == streams_of(topics)

    async def story() -> None:
        steps = await steps_of(tmp_path)
        assert steps
        for step in range(steps):
            path = tmp_path / str(step)
            path.mkdir()
            await crash_at(path, step)

    run(story)


def test_a_stream_that_was_there_before_its_topic_is_no_partition(tmp_path: Path) -> None:
    async def story() -> None:
        streams = Streams()
        streams.names = {"t-1", "u-1", "v-0"}
        async with registry(tmp_path, streams) as topics:
            with pytest.raises(KafkaError, match="'t-1'") as caught:
                await topics.create("t", 2)
            assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
            assert topics.get("t") is None
            await topics.create("u", 1)
            with pytest.raises(KafkaError, match="'u-1'") as caught:
                await topics.add_partitions("u", 2)
            assert caught.value.code is ErrorCode.INVALID_REQUEST
            assert streams_of(topics) == {"u-0"}
            assert streams.names == {"t-1", "u-0", "u-1", "v-0"}
        async with registry(tmp_path, streams) as topics:
            assert streams_of(topics) == {"u-0"}
            streams.names -= {"t-1", "u-1"}
            await topics.create("t", 2)
            await topics.add_partitions("u", 2)
            await topics.delete("t")
        assert streams.names == {"u-0", "u-1", "v-0"}

    run(story)


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_before_a_topic_is_given_up_leaves_neither_it_nor_another_stream(
    tmp_path: Path, after: bool
) -> None:
    async def story() -> None:
        for step in range(2):
            path = tmp_path / str(step)
            path.mkdir()
            streams = Streams()
            streams.names = {"new-1"}
            with pytest.raises(Crash):
                async with registry(path, streams, Fuse(step, after=after)) as topics:
                    await topics.create("new", 3)
            async with registry(path, streams) as topics:
                assert streams_of(topics) == set()
                assert streams.names == {"new-1"}
                with pytest.raises(KafkaError, match="'new-1'"):
                    await topics.create("new", 3)
                await topics.create("other", 1)

    run(story)


def test_two_brokers_that_claim_one_name_do_not_take_each_other_for_others(tmp_path: Path) -> None:
    """One finishes what the other has begun, while that looks for its streams."""

    async def story() -> None:
        streams = Late()
        async with registry(tmp_path, streams) as one:
            clock, store = ManualClock(), one._nodes._store
            two = TopicRegistry(
                store, streams, defaults=TopicDefaults({}), clock=clock, random=Random(8)
            )
            streams.before_next = two.start
            made = await one.create("new", 2)
            assert streams.before_next is None
            assert streams_of(one) == streams_of(two) == streams.names == {"new-0", "new-1"}
            assert two.by_id(made.topic_id) is not None

            streams.before_next = two.start
            assert (await one.add_partitions("new", 4)).partition_count == 4
            assert streams.names == streams_of(one) == streams_of(two)

            streams.names.add("new-5")
            streams.before_next = two.start
            with pytest.raises(BadVersion):  # the client asks again
                await one.add_partitions("new", 6, {4: [1], 5: [1]})
            with pytest.raises(KafkaError, match="'new-5'"):
                await one.add_partitions("new", 6, {4: [1], 5: [1]})
            topic = one.get("new")
            assert topic is not None
            assert (topic.partition_count, topic.assignments) == (4, {})
            assert streams.names == streams_of(one) | {"new-5"}

    run(story)


@pytest.mark.parametrize("after", [False, True])
def test_a_change_that_failed_half_way_is_finished_by_the_next_request(
    tmp_path: Path, after: bool
) -> None:
    async def story() -> None:
        for step in range(5):
            path = tmp_path / str(step)
            path.mkdir()
            streams, fuse = Streams(), Fuse(step, after=after)
            async with registry(path, streams, fuse) as topics:
                with pytest.raises(Crash):
                    await topics.create("new", 3)
                assert topics.get("new") is None
                fuse.left = None
                try:
                    await topics.create("new", 3)
                except KafkaError as error:
                    assert error.code is ErrorCode.TOPIC_ALREADY_EXISTS  # noqa: PT017
                assert streams.names == streams_of(topics) == {"new-0", "new-1", "new-2"}
                fuse.left = 1
                with pytest.raises(Crash):
                    await topics.delete("new")
                assert topics.get("new") is None
                fuse.left = None
                await topics.create("new", 1)
                assert streams.names == {"new-0"}

    run(story)


def test_a_node_that_does_not_decode_stops_the_start_and_is_named(tmp_path: Path) -> None:
    async def story() -> None:
        async with registry(tmp_path):
            pass
        store = SqliteStore(tmp_path / "metadata.db", ManualClock())
        await store.create("/tailrace/topics/bad", b"{")
        await store.close()
        with pytest.raises(CorruptData, match="bad"):
            async with registry(tmp_path):
                pass

    run(story)


def test_an_override_of_another_release_is_kept_and_not_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with registry(tmp_path) as topics:
            await topics.create("orders", 1, {"retention.ms": "5"})
        store = SqliteStore(tmp_path / "metadata.db", ManualClock())
        node = await store.get("/tailrace/topics/orders")
        data = node.data.replace(b'"retention.ms"', b'"future.ms":"1","retention.ms"')
        await store.set("/tailrace/topics/orders", data)
        await store.close()
        async with registry(tmp_path) as topics:
            topic = topics.get("orders")
            assert topic is not None
            assert topic.configs["future.ms"] == "1"
            assert topic.settings.retention_ms == 5
        assert "future.ms" in caplog.text

    run(story)


def test_changes_happen_one_after_the_other(tmp_path: Path) -> None:
    async def story() -> None:
        async with registry(tmp_path) as topics:

            async def create() -> bool:
                try:
                    await topics.create("same", 2)
                except KafkaError:
                    return False
                return True

            results = await asyncio.gather(*(create() for _ in range(5)))
            assert sorted(results) == [False] * 4 + [True]

    run(story)
