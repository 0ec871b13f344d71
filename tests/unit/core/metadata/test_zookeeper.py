import asyncio

import pytest

from core.metadata.kazoo_reads import MultiRead
from core.metadata.store import MetadataStore
from core.metadata.zookeeper import ZookeeperStore
from tests.unit.core.metadata.store_contract import MetadataStoreContract
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


async def _type_error(store: MetadataStore) -> bool:
    try:
        await store.set("/a", "text")  # type: ignore[arg-type]
    except TypeError:
        return True
    return False
