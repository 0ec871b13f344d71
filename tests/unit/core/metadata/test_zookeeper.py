import asyncio

import pytest

from tailrace.core.metadata.kazoo_reads import MultiRead
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tests.unit.core.metadata.store_contract import MetadataStoreContract, check_order
from tests.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.java


class TestZookeeperStore(MetadataStoreContract):
    @pytest.fixture(autouse=True)
    def _root(self, zookeeper: ZooKeeperServer) -> None:
        self.hosts = zookeeper.hosts
        self.root = zookeeper.make_root()

    async def open_store(self) -> MetadataStore:
        return await ZookeeperStore.connect(self.hosts, chroot=self.root)

    async def reopen(self) -> MetadataStore:
        return await ZookeeperStore.connect(self.hosts, chroot=self.root)

    def test_arguments_that_nobody_can_send_disturb_nobody(self) -> None:
        async def story(store: MetadataStore) -> None:
            await store.create("/a")
            async with asyncio.TaskGroup() as group:
                bad = group.create_task(_type_error(store))
                good = group.create_task(store.set("/a", b"1"))
            assert bad.result()
            assert good.result() == 1
            assert (await store.get("/a")).data == b"1"

        self.run(story)

    def test_a_server_without_a_request_for_several_nodes_is_asked_for_each(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = 99  # no server knows it, as ZooKeeper 3.5 does not know 22
        monkeypatch.setattr(MultiRead, "type", property(lambda _: asked))

        async def story(store: MetadataStore) -> None:
            await store.create("/a", b"one")
            for _ in range(2):
                first, second = await store.get_all(["/a", "/b"])
                assert first == await store.get("/a")
                assert second is None

        self.run(story)

    def test_such_a_server_keeps_the_order_of_calls_too(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(MultiRead, "type", property(lambda _: 99))

        async def story(store: MetadataStore) -> None:
            await store.create("/a")
            await store.get_all(["/a"])  # now it is known
            await check_order(store)

        self.run(story)

    def test_such_a_server_is_met_behind_other_requests(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It answers at once what it does not know, before what was asked earlier."""
        monkeypatch.setattr(MultiRead, "type", property(lambda _: 99))

        async def story(store: MetadataStore) -> None:
            session_id = store.session_id
            await store.create("/a")
            for _ in range(2):
                asked = store.sync(), store.get_all(["/a"]), store.children("/")
                _, nodes, children = await asyncio.gather(*asked)
                assert nodes[0] is not None
                assert children == ["a"]
            assert store.session_id == session_id

        self.run(story)


async def _type_error(store: MetadataStore) -> bool:
    try:
        await store.set("/a", "text")  # type: ignore[arg-type]
    except TypeError:
        return True
    return False
