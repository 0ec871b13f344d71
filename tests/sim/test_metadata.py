from random import Random

from typing_extensions import override

from core.metadata.store import MetadataStore
from tests.sim.metadata import MetadataServer
from tests.unit.core.metadata.store_contract import MetadataStoreContract


class TestSimStore(MetadataStoreContract):
    server: MetadataServer

    @override
    async def open_store(self) -> MetadataStore:
        self.server = MetadataServer(Random(1))
        return self.server.open()

    @override
    async def reopen(self) -> MetadataStore:
        return self.server.open()
