import pytest

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
