import asyncio
from random import Random

import pytest
from typing_extensions import override

from tailrace.core.errors import Unavailable
from tailrace.core.metadata.store import MetadataStore
from tailrace.simulation.metadata import MetadataServer
from tailrace.simulation.sessions import SimStore
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

    def test_nothing_is_done_for_a_session_that_is_over(self) -> None:
        async def main() -> None:
            store = SimStore(MetadataServer(Random(1)))
            coming = asyncio.get_running_loop().create_task(store.create("/a", ephemeral=True))
            await asyncio.sleep(0)  # it is on its way
            store.expire()
            with pytest.raises(Unavailable):
                await coming
            assert await store._server.open().exists("/a") is None

        asyncio.run(main(), debug=True)
