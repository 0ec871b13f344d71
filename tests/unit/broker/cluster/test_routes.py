"""Live brokers and owners, kept true by what lies in the metadata store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from typing_extensions import override

from tailrace.broker.cluster import routes
from tailrace.broker.cluster.live_brokers import LiveBroker, LiveBrokers, live_broker
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.cluster.registration import broker_node, decode_broker, encode_broker
from tailrace.broker.cluster.routes import Routes
from tailrace.broker.listeners import Advertised, Endpoint, Listener, SecurityProtocol
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import SessionEvent, SessionListener
from tailrace.core.runtime.clock import ManualClock
from tests.unit.broker.fakes import FakeNamespace, FakeTopics
from tests.unit.broker.loops import in_loop, until

PATHS = ClusterPaths()


def node(node_id: int, *listeners: str) -> bytes:
    names = listeners or ("PLAINTEXT",)
    told = [Listener(name, f"b{node_id}", 9000 + at) for at, name in enumerate(names)]
    protocols = dict.fromkeys(names, SecurityProtocol.PLAINTEXT)
    return encode_broker(broker_node(Advertised(told), protocols, f"rack-{node_id}", 0))


def me() -> LiveBroker:
    return LiveBroker(1, {"PLAINTEXT": Endpoint("b1", 9000)}, Endpoint("b1", 9000), None)


class Store(SqliteStore):
    """A store whose session can end; what is in it stays."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, ManualClock())
        self._hear: list[SessionListener] = []

    @override
    def on_session(self, listener: SessionListener) -> None:
        self._hear.append(listener)

    def say(self, event: SessionEvent) -> None:
        for hear in self._hear:
            hear(event)


class Cluster:
    """One broker's routes, and a store in which others come and go."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.topics = FakeTopics(FakeNamespace())
        self.routes = Routes(self.topics, 1)
        self.told = 0
        self.routes.listen(self._count)

    def _count(self) -> None:
        self.told += 1

    async def come(self, node_id: int, data: bytes | None = None) -> None:
        await self.store.create(PATHS.broker(node_id), data or node(node_id), parents=True)

    async def go(self, node_id: int) -> None:
        await self.store.delete(PATHS.broker(node_id))

    async def until(self, *ids: int) -> None:
        await until(lambda: self.routes.live.ids == ids)


@asynccontextmanager
async def cluster(path: Path, *there: int, is_shared: bool = True) -> AsyncIterator[Cluster]:
    store = Store(path / "metadata.db")
    made = Cluster(store)
    for node_id in (1, *there):
        await made.come(node_id)
    await made.routes.start(me(), store, PATHS, is_shared=is_shared)
    try:
        yield made
    finally:
        await made.routes.close()
        await store.close()


@in_loop
async def test_who_is_there_is_known_when_it_has_started(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2, 7) as made:
        assert made.routes.live.ids == (1, 2, 7)
        assert made.routes.live.controller_id == 1
        assert made.routes.endpoint(7) == Endpoint("b7", 9000)
        assert made.routes.endpoint(7, "PLAINTEXT") == Endpoint("b7", 9000)
        assert made.routes.endpoint(7, "OTHER") is None
        assert made.routes.endpoint(3) is None
        found = made.routes.live.get(2)
        assert found is not None
        assert found.rack == "rack-2"


@in_loop
async def test_brokers_come_go_and_come_back_elsewhere(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await made.come(2)
        await made.until(1, 2)
        await made.go(2)
        await made.until(1)
        await made.come(2, node(2, "INSIDE", "OUTSIDE"))
        await made.until(1, 2)
        assert made.routes.endpoint(2, "OUTSIDE") == Endpoint("b2", 9001)
        assert made.told == 3


@in_loop
async def test_this_broker_is_there_whatever_the_store_says(tmp_path: Path) -> None:
    """Its session may be over: it goes on with what it owns."""
    async with cluster(tmp_path, 2) as made:
        await made.go(1)
        await made.come(3)
        await made.until(1, 2, 3)
        await made.routes.refresh()
        assert made.routes.live.ids == (1, 2, 3)


@in_loop
async def test_what_is_no_registration_is_left_out(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2) as made:
        await made.come(3, b"{")
        await made.come(4, node(4).replace(b"PLAINTEXT://", b"PLAINTEXT:/"))
        await made.store.create(f"{PATHS.brokers}/nobody")
        await made.come(5)
        await made.until(1, 2, 5)
        await made.store.set(PATHS.broker(2), b"{}")
        await made.until(1, 5)


@in_loop
async def test_a_look_sees_who_went_without_a_word(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2) as made:
        await made.routes.close()  # from here on no watch tells
        await made.go(2)
        await made.come(3)
        await made.routes.refresh()
        assert made.routes.live.ids == (1, 3)


@in_loop
async def test_who_is_missing_after_an_end_of_the_session_is_waited_for(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2, 3) as made:
        made.store.say(SessionEvent.LOST)
        made.store.say(SessionEvent.NEW_SESSION)
        await made.go(2)
        await made.go(3)
        await made.come(4)
        await made.until(1, 2, 3, 4)
        await made.routes.refresh()
        assert made.routes.live.ids == (1, 2, 3, 4)
        await made.come(3, node(3, "ELSEWHERE"))
        await until(lambda: made.routes.endpoint(3, "ELSEWHERE") is not None)
        assert made.routes.live.ids == (1, 2, 3, 4)


@in_loop
async def test_who_does_not_come_back_is_gone_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "ABSENCE_S", 0.02)
    monkeypatch.setattr(routes, "PAUSE_S", 0.02)
    async with cluster(tmp_path, 2, 3) as made:
        made.store.say(SessionEvent.NEW_SESSION)
        made.store.say(SessionEvent.NEW_SESSION)
        await made.go(2)
        await made.until(1, 3)
    made.store.say(SessionEvent.NEW_SESSION)  # when all is closed nobody is waited for


@in_loop
async def test_who_goes_while_this_session_lives_is_gone_at_once(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2, 3) as made:
        made.store.say(SessionEvent.LOST)
        made.store.say(SessionEvent.RESTORED)
        await made.go(2)
        await made.until(1, 3)


@in_loop
async def test_a_broker_that_is_alone_owns_everything(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2, is_shared=False) as made:
        made.topics.add("t", 5)
        await made.routes.refresh()
        assert made.routes.live.ids == (1,)
        assert all(made.routes.is_mine("t", index) for index in range(5))


@in_loop
async def test_owners_follow_brokers_and_topics(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2) as made:
        routes = made.routes
        assert routes.owner("t", 0) is None
        topic = made.topics.add("t", 4)
        assert sorted(routes.owners(topic)) == [1, 1, 2, 2]
        assert routes.owner("t", 4) is routes.owner("t", -1) is None
        made.told = 0
        made.topics.add("t", 6)
        assert made.told == 1
        assert sorted(filter(None, (routes.owner("t", at) for at in range(6)))) == [1] * 3 + [2] * 3
        made.topics.add("t", 6, {"retention.ms": "1"})
        assert made.told == 1  # nobody has another owner
        await made.topics.delete("t")
        assert routes.owner("t", 0) is None


@in_loop
async def test_a_move_is_told_although_somebody_asks_of_the_topic_as_it_was(tmp_path: Path) -> None:
    """As a Metadata request does that waited: it is described as it was found."""
    async with cluster(tmp_path, 2) as made:
        made.topics.add("t", 1)
        made.topics.assign("t", {0: (1,)})
        before = made.topics.get("t")
        assert before is not None
        assert made.routes.is_mine("t", 0)
        made.topics.assign("t", {0: (2,)})
        assert not made.routes.is_mine("t", 0)
        assert made.routes.owners(before) == (1,)
        made.told = 0
        made.topics.assign("t", {0: (1,)})
        assert made.told == 1
        assert made.routes.is_mine("t", 0)


def test_live_brokers_are_read_from_registrations_of_kafka_too() -> None:
    text = (
        b'{"features":{},"listener_security_protocol_map":{"A":"PLAINTEXT"},"endpoints":'
        b'["A://[::1]:9092"],"jmx_port":-1,"port":9092,"host":"::1","version":5,"timestamp":"1"}'
    )
    assert live_broker(9, decode_broker(text)) == LiveBroker(
        9, {"A": Endpoint("::1", 9092)}, Endpoint("::1", 9092), None
    )


@in_loop
async def test_readers_follow_the_brokers_of_their_racks() -> None:
    topics = FakeTopics(FakeNamespace())
    made = Routes(topics, 1, serves_racks=True)
    at = Endpoint("b", 9000)

    def live(**racks: str | None) -> LiveBrokers:
        ids = {f"b{each}": each for each in range(1, 5)}
        return LiveBrokers(LiveBroker(ids[b], {}, at, rack) for b, rack in racks.items())

    topics.add("t", 1)
    topics.assign("t", {0: (1, 3)})
    topic = topics.get("t")
    assert topic is not None
    assert made.readers(topic, 0) == {}
    made.use(live(b1="a", b2="b", b3="b", b4=None))
    assert made.readers(topic, 0) == {"a": 1, "b": 3}  # 3 is preferred to 2
    assert made.shown_replicas(topic, 0) == ((1, 3), (1, 3))
    made.use(live(b1="a", b2="b", b4=None))
    assert made.readers(topic, 0) == {"a": 1, "b": 2}
    assert made.shown_replicas(topic, 0) == ((1, 3, 2), (1, 2))
    assert made.replicas(topic, 0) == ((1, 3), (1,))
    made.use(live(b2="b", b4=None))
    assert made.owner("t", 0) in (2, 4)
    topics.assign("t", {0: (4,)})
    moved = topics.get("t")
    assert moved is not None
    assert made.readers(moved, 0) == {"b": 2}  # the owner has no rack
    plain = Routes(topics, 1)
    plain.use(live(b1="a", b2="b"))
    assert plain.readers(moved, 0) == {}
    assert plain.shown_replicas(moved, 0) == plain.replicas(moved, 0)
