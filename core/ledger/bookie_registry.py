"""Which bookies there are, and the client to each.

`client` never fails: a bookie that cannot be found answers LOCAL_UNAVAILABLE, because ledgers of
the past name bookies that are gone.
"""

from collections.abc import Iterable
from typing import Protocol

from core.errors import BookieUnavailable
from core.ledger.bookie_client import BookieClient, TcpBookieClient, UnreachableBookie
from core.ledger.config import BookieClientConfig
from core.ledger.metrics import BookieClientMetrics
from core.metadata.bookie_service_info import decode_service_info
from core.metadata.layout import LEDGERS_ROOT, LedgerPaths
from core.metadata.store import MetadataStore, Node
from protocol.ids import BookieId

READ_ONLY_NODE = "readonly"


class BookieRegistry(Protocol):
    """Where writers and readers get their bookies from."""

    async def available(self) -> list[BookieId]:
        """Return the bookies that take new ledgers now, sorted."""

    def client(self, bookie_id: BookieId) -> BookieClient:
        """Return the client of a bookie; always the same one, which the registry closes."""

    async def close(self) -> None:
        """Close all clients. Idempotent."""


class LocalBookies:
    """Bookies of this process (standalone, tests); they are all writable."""

    def __init__(self, clients: Iterable[BookieClient]) -> None:
        self._clients = {client.bookie_id: client for client in clients}

    async def available(self) -> list[BookieId]:
        """Return all of them."""
        return sorted(self._clients)

    def client(self, bookie_id: BookieId) -> BookieClient:
        """Return the bookie's client, or one that answers for a bookie that is not here."""
        return self._clients.get(bookie_id) or UnreachableBookie(bookie_id)

    async def close(self) -> None:
        """Close all clients."""
        for client in self._clients.values():
            await client.close()


class RegisteredBookies:
    """Bookies over TCP, found where they register themselves. One connection per bookie."""

    def __init__(
        self,
        store: MetadataStore,
        config: BookieClientConfig | None = None,
        *,
        root: str = LEDGERS_ROOT,
    ) -> None:
        self._store = store
        self._paths = LedgerPaths(root)
        self._config = config or BookieClientConfig()
        self._clients: dict[BookieId, TcpBookieClient] = {}
        self.metrics = BookieClientMetrics()

    async def available(self) -> list[BookieId]:
        """Return the bookies that are registered as writable."""
        names = await self._store.children(self._paths.available)
        return [BookieId(name) for name in names if name != READ_ONLY_NODE]

    def client(self, bookie_id: BookieId) -> BookieClient:
        """Return the bookie's client; its address is looked up whenever it connects."""
        if bookie_id not in self._clients:
            self._clients[bookie_id] = TcpBookieClient(
                bookie_id, lambda: self._address(bookie_id), self._config, self.metrics
            )
        return self._clients[bookie_id]

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.close()

    async def _address(self, bookie_id: BookieId) -> tuple[str, int]:
        node = await self._registration(bookie_id)
        door = decode_service_info(node.data, bookie_id).rpc()
        if door is None:
            raise BookieUnavailable(f"bookie {bookie_id} does not speak bookie-rpc")
        return door.host, door.port

    async def _registration(self, bookie_id: BookieId) -> Node:
        for path in (self._paths.bookie(bookie_id), self._paths.read_only_bookie(bookie_id)):
            node = await self._store.exists(path)
            if node is not None:
                return node
        raise BookieUnavailable(f"bookie {bookie_id} is not registered")
