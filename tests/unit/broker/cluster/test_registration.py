"""A broker's node: made, kept, taken over from a former life, refused to a stranger."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, cast

import pytest

from tailrace.broker.cluster.registration import (
    BrokerNode,
    BrokerRegistration,
    broker_node,
    decode_broker,
    encode_broker,
)
from tailrace.broker.listeners import Advertised, Listener, SecurityProtocol, parse_listeners
from tailrace.core.errors import CorruptData, NodeExists
from tailrace.core.metadata.store import MetadataStore, WatchEvent
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tests.unit.broker.loops import turns
from tests.unit.core.metadata.fickle_store import Fickle
from tests.unit.core.metadata.test_zookeeper_session import expire
from tests.zookeeper import ZooKeeperServer

PATH = "/messaging/n/.tailrace/brokers/ids/1"


def node_at(port: int) -> BrokerNode:
    advertised = Advertised((Listener("PLAINTEXT", "h", port),))
    return broker_node(advertised, {"PLAINTEXT": SecurityProtocol.PLAINTEXT}, "", 5)


HERE, ELSEWHERE = node_at(9092), node_at(9093)


class Two(NamedTuple):
    store: ZookeeperStore
    other: ZookeeperStore
    refused: asyncio.Event

    def registration(
        self, store: ZookeeperStore, node: BrokerNode = HERE, stale_wait_ms: int = 10_000
    ) -> BrokerRegistration:
        return BrokerRegistration(store, PATH, node, stale_wait_ms, self.refused.set)

    async def owner(self) -> int:
        return (await self.other.get(PATH)).ephemeral_owner

    async def changed(self) -> asyncio.Event:
        """Return what is set when the node comes, changes or goes."""
        changed = asyncio.Event()

        def fired(_path: str, _event: WatchEvent) -> None:
            changed.set()

        await self.other.exists(PATH, fired)
        return changed


@asynccontextmanager
async def two_stores(zookeeper: ZooKeeperServer) -> AsyncIterator[Two]:
    root = await asyncio.to_thread(zookeeper.make_root)
    store = await ZookeeperStore.connect(zookeeper.hosts, chroot=root)
    other = await ZookeeperStore.connect(zookeeper.hosts, chroot=root)
    try:
        yield Two(store, other, asyncio.Event())
    finally:
        await store.close()
        await other.close()


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story(), debug=True)


def test_the_node_is_kafkas() -> None:
    listeners = parse_listeners(["HOST://h:9092", "IN://b1:9093"], "listeners")
    advertised = Advertised(listeners, inter_broker="IN")
    protocols = {"HOST": SecurityProtocol.SSL, "IN": SecurityProtocol.PLAINTEXT}
    node = broker_node(advertised, protocols, "r1", 1_700_000_000_000)
    assert encode_broker(node) == (
        b'{"host":"b1","port":9093,"endpoints":["HOST://h:9092","IN://b1:9093"],'
        b'"listener_security_protocol_map":{"HOST":"SSL","IN":"PLAINTEXT"},'
        b'"timestamp":"1700000000000","rack":"r1","jmx_port":-1,"features":{},"version":5}'
    )
    assert decode_broker(encode_broker(node)) == node
    with pytest.raises(CorruptData):
        decode_broker(b"{")


@pytest.mark.java
def test_it_is_there_until_it_signs_off(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with two_stores(zookeeper) as at:
            registration = at.registration(at.store)
            await registration.register()
            assert await at.owner() == at.store.session_id
            assert decode_broker((await at.other.get(PATH)).data) == HERE
            assert registration.metrics.registered == 1
            await registration.close()
            assert await at.other.exists(PATH) is None
            assert registration.metrics.registered == 0

    run(story)


@pytest.mark.java
def test_a_former_life_at_the_same_address_is_not_waited_for(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with two_stores(zookeeper) as at:
            await at.registration(at.other).register()
            now = at.registration(at.store, stale_wait_ms=60_000)
            async with asyncio.timeout(30):
                await now.register()
            assert await at.owner() == at.store.session_id
            await now.close()

    run(story)


@pytest.mark.java
def test_nobody_sees_a_broker_gone_that_starts_again(zookeeper: ZooKeeperServer) -> None:
    """Else the others would begin to take over what is its own."""

    async def story() -> None:
        async with two_stores(zookeeper) as at:
            await at.registration(at.other).register()
            seen = []
            multi, delete = at.store.multi, at.store.delete

            async def watched(change: Any, *arguments: Any) -> Any:
                done = await change(*arguments)
                seen.append(await at.other.exists(PATH))
                return done

            at.store.multi = partial(watched, multi)  # type: ignore[method-assign]
            at.store.delete = partial(watched, delete)  # type: ignore[method-assign]
            now = at.registration(at.store)
            await now.register()
            assert seen
            assert None not in seen
            await now.close()

    run(story)


@pytest.mark.java
def test_an_id_that_is_in_use_elsewhere_is_refused(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with two_stores(zookeeper) as at:
            await at.registration(at.other, ELSEWHERE).register()
            second = at.registration(at.store, stale_wait_ms=300)
            with pytest.raises(NodeExists, match="another process runs as 1"):
                await second.register()
            await second.close()
            assert await at.owner() == at.other.session_id

    run(story)


@pytest.mark.java
def test_it_is_made_again_in_a_new_session(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with two_stores(zookeeper) as at:
            registration = at.registration(at.store)
            await registration.register()
            former = at.store.session_id
            changed = await at.changed()
            await expire(zookeeper, at.store)
            async with asyncio.timeout(30):
                while True:
                    await changed.wait()
                    changed = await at.changed()
                    node = await at.other.exists(PATH)
                    if node is not None and node.ephemeral_owner != former:
                        break
            assert node.ephemeral_owner == at.store.session_id
            await registration.close()

    run(story)


@pytest.mark.java
def test_who_finds_its_id_taken_after_a_lost_session_is_told(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with two_stores(zookeeper) as at:
            registration = at.registration(at.store, stale_wait_ms=2_000)
            await registration.register()
            await at.other.delete(PATH)
            await at.registration(at.other, ELSEWHERE).register()
            await expire(zookeeper, at.store)
            async with asyncio.timeout(30):
                await at.refused.wait()
            assert await at.owner() == at.other.session_id
            await registration.close()

    run(story)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_session_that_ends_while_the_node_is_made_costs_it_nothing(is_first: bool) -> None:
    async def story() -> None:
        store = Fickle(0 if not is_first else 2)
        at = cast("MetadataStore", store)
        registration = BrokerRegistration(at, PATH, HERE, 1_000, lambda: None)
        await registration.register()
        if not is_first:
            store._ends = 2
            store.end_session()
            await turns()
        assert store.owner == store.session_id
        assert registration.metrics.registered == 1
        await registration._tasks.close()

    run(story)
