"""What ends a proxy's process, which streams are Kafka's, and where a proxy is."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.cluster.topic_codec import StoredTopic, encode_topic
from tailrace.core.errors import Unavailable
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import SessionEvent
from tailrace.core.runtime.clock import ManualClock
from tailrace.processes.proxy_address import ProxyAddressConfig
from tailrace.processes.proxy_config import WriteProxyConfig
from tailrace.processes.proxy_locks import OwnLocks
from tailrace.processes.proxy_members import follow_members
from tailrace.processes.topic_streams import KEPT_S, TopicStreams, log_of
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.routing.members import Endpoint, MemberNode, MemberRegistration
from tests.unit.proxy.owner.world import Proxy, ProxyWorld, new_stream, payloads_of, run

MEMBERS = "/distributedlog/.write_proxy"

PATHS = ClusterPaths.of_namespace("/ns")


class Session:
    """The part of a metadata store that tells of its session."""

    def __init__(self) -> None:
        self.tell: Any = None

    def on_session(self, listener: Any) -> None:
        self.tell = listener


def test_a_former_runs_lock_does_not_end_the_process_and_anothers_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        clock, session = ManualClock(), Session()
        locks = OwnLocks(session, clock, 1_000)  # type: ignore[arg-type]
        clock.advance_ms(1_999)
        locks.on_inconsistent("s")
        assert not locks.taken.done()
        clock.advance_ms(5_000)
        session.tell(SessionEvent.LOST)
        session.tell(SessionEvent.NEW_SESSION)
        clock.advance_ms(1_999)
        locks.on_inconsistent("s")
        assert not locks.taken.done()
        assert "location_in_use" not in caplog.text
        clock.advance_ms(1)
        locks.on_inconsistent("s")
        locks.on_inconsistent("t")
        assert locks.taken.done()
        assert caplog.text.count("location_in_use stream=s remedy=another process") == 1

    with caplog.at_level(logging.ERROR):
        asyncio.run(story())


def test_a_stream_is_claimed_once_its_owners_registration_is_gone(tmp_path: Path) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two, back = Proxy(world, 1), Proxy(world, 2), Proxy(world, 1)
        watches = [follow_members(each.store, MEMBERS, each.streams) for each in (two, back)]
        node = MemberNode(service_endpoint=Endpoint("host", one.location.port), shard=1)
        await MemberRegistration(one.store, MEMBERS, node).register()
        await one.streams.write("s", b"a")
        await MemberRegistration(back.store, MEMBERS, node).register()  # it was killed, and is back
        await asyncio.sleep(0.1)
        for each, code in ((two, StatusCode.FOUND), (back, StatusCode.STREAM_UNAVAILABLE)):
            assert (await each.streams.write("s", b"b")).code is code
        one.store.expire()
        await asyncio.sleep(0.1)  # of virtual time: a watch fires, and the members are read
        assert (await back.streams.write("s", b"c")).code is StatusCode.SUCCESS
        assert (await two.streams.write("s", b"d")).location == back.location.text
        for watch in watches:
            await watch.close()
        await back.streams.close()
        assert await payloads_of(world) == [b"a", b"c"]

    run(tmp_path, story)


class Logs:
    """The part of a namespace that says which logs there are."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    async def log_exists(self, name: str) -> bool:
        return name in self.names


def topic(partitions: int, ready: int, state: Any = "active") -> bytes:
    return encode_topic(
        StoredTopic(
            topic_id="aGVsbG8gdG9waWMgaWQgMQ",
            partitions=partitions,
            ready=ready,
            state=state,
            created_ms=5,
            configs={},
        )
    )


def in_topics(
    path: Path,
    story: Callable[[SqliteStore, Logs, ManualClock, TopicStreams], Coroutine[Any, Any, None]],
) -> None:
    async def main() -> None:
        clock, logs = ManualClock(), Logs()
        store = SqliteStore(path / "metadata", clock)
        streams = TopicStreams(store, PATHS, logs, clock)  # type: ignore[arg-type]
        await story(store, logs, clock, streams)
        await store.close()

    asyncio.run(main())


def test_streams_of_topics_are_kafkas(tmp_path: Path) -> None:
    async def story(
        store: SqliteStore, logs: Logs, clock: ManualClock, streams: TopicStreams
    ) -> None:
        assert await streams.reason("t-0") is None
        await store.create(PATHS.topic("t"), topic(1, 1), parents=True)
        for stream in ("t-0", "t-12", "__consumer_offsets-3"):
            assert "Kafka's clients write it" in (await streams.reason(stream) or "")
        for stream in ("t", "u-0", "t-0-x", "t-00", "a/t-0", "/t-0"):
            assert await streams.reason(stream) is None
        await store.delete(PATHS.topic("t"))
        assert await streams.reason("t-0") is not None, "it is kept for a while"
        assert await streams.reason("t-12") is None, "only for partitions"
        clock.advance_ms(round(KEPT_S * 1000))
        assert await streams.reason("t-0") is None

    in_topics(tmp_path, story)


def test_a_stream_that_is_older_than_its_topic_stays_its_writers(tmp_path: Path) -> None:
    async def story(
        store: SqliteStore, logs: Logs, clock: ManualClock, streams: TopicStreams
    ) -> None:
        logs.names = {"t-0", "t-1"}
        await store.create(PATHS.topic("t"), topic(1, 1), parents=True)
        assert await streams.reason("t-0") is not None
        assert await streams.reason("t-1") is None
        assert await streams.reason("t-2") is not None
        await store.set(PATHS.topic("t"), topic(2, 1), 0)  # it grows
        assert await streams.reason("t-1") is not None

    in_topics(tmp_path, story)


def test_a_stream_of_a_topic_is_authorized_by_the_topics_name(tmp_path: Path) -> None:
    async def story(
        store: SqliteStore, logs: Logs, clock: ManualClock, streams: TopicStreams
    ) -> None:
        assert await streams.topic_of("t-0") == "t-0"
        await store.create(PATHS.topic("t"), topic(2, 2), parents=True)
        await store.create(PATHS.topic(".h"), topic(1, 1), parents=True)
        for stream, name in {
            "t-0": "t",
            "/t-1": "t",
            "t-2": "t-2",
            "t": "t",
            "t-00": "t-00",
            "a/t-0": "a/t-0",
            ".h-0": ".h",
            "%2Eh-0": ".h",
            "__consumer_offsets-7": "__consumer_offsets",
        }.items():
            assert await streams.topic_of(stream) == name
        await store.create(PATHS.topic("u"), topic(1, 0, "claiming"), parents=True)
        with pytest.raises(Unavailable, match="being made"):
            await streams.topic_of("u-0")

    in_topics(tmp_path, story)


@pytest.mark.parametrize("ready", [0, 1])
def test_while_it_is_open_whose_a_stream_is_clients_ask_again(tmp_path: Path, ready: int) -> None:
    async def story(
        store: SqliteStore, logs: Logs, clock: ManualClock, streams: TopicStreams
    ) -> None:
        logs.names = {"t-0", "t-1", "t-2"}
        await store.create(PATHS.topic("t"), topic(2, ready, "claiming"), parents=True)
        with pytest.raises(Unavailable, match="being made"):
            await streams.reason("t-1")
        assert await streams.reason("t-2") is None
        if ready:
            assert await streams.reason("t-0") is not None
            await store.set(PATHS.topic("t"), topic(1, 1), 0)
        else:
            await store.delete(PATHS.topic("t"))
        assert await streams.reason("t-1") is None

    in_topics(tmp_path, story)


@pytest.mark.parametrize(
    ("stream", "log"),
    [
        ("t-0", "t-0"),
        (".t-0", "%2Et-0"),
        (".t", ".t"),
        ("s", "s"),
        (".write_proxy", ".write_proxy"),
    ],
)
def test_a_reader_names_a_partition_by_its_topic(stream: str, log: str) -> None:
    assert log_of(stream) == log


@pytest.mark.parametrize(
    ("listener", "advertised", "expected"),
    [
        ("127.0.0.1:0", "", "127.0.0.1:77"),
        ("[::1]:8000", "", "[::1]:77"),
        ("0.0.0.0:8000", "10.0.0.1:0", "10.0.0.1:77"),
        (":8000", "proxy.example:5", "proxy.example:5"),
    ],
)
def test_where_clients_connect_to(listener: str, advertised: str, expected: str) -> None:
    config = ProxyAddressConfig(listener=listener, advertised=advertised)
    assert str(config.advertised_at(77)) == expected


@pytest.mark.parametrize(
    ("listener", "advertised", "words"),
    [
        ("0.0.0.0:8000", "", "no client can connect"),
        (":8000", "", "no client can connect"),
        ("[::]:8000", "0.0.0.0:1", "no client can connect"),
        ("127.0.0.1", "", "is not HOST:PORT"),
        ("127.0.0.1:65536", "", "is not HOST:PORT"),
        ("::1:8000", "", "is not HOST:PORT"),
        ("h" * 256 + ":1", "", "is not HOST:PORT"),
        ("127.0.0.1:1", "x:y", "advertised.listener.*is not HOST:PORT"),
    ],
)
def test_an_address_that_none_can_use_is_refused(
    listener: str, advertised: str, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        ProxyAddressConfig(listener=listener, advertised=advertised)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"metadata_uri": "sqlite:x"}, "must name a ZooKeeper"),
        ({"namespace_uri": "sqlite:x"}, "must name a ZooKeeper"),
        ({"session_timeout_ms": 0}, "zkSessionTimeout"),
    ],
)
def test_settings_that_contradict_themselves(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        WriteProxyConfig(**given)
