"""Which bookies there are, and the client to each.

`client` never fails: a bookie that cannot be found answers LOCAL_UNAVAILABLE, because ledgers of
the past name bookies that are gone.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from tailrace.core.errors import CoreError, Unavailable
from tailrace.core.ledger.bookie_client import BookieClient, UnreachableBookie
from tailrace.core.ledger.bookie_entrance import Entrance
from tailrace.core.ledger.bookie_nodes import BookieNodes
from tailrace.core.ledger.config import BookieClientConfig
from tailrace.core.ledger.metrics import BookieClientMetrics
from tailrace.core.ledger.read_order import Standing
from tailrace.core.ledger.tcp_bookie import TcpBookieClient
from tailrace.core.metadata.bookie_lists import read_bookie_lists
from tailrace.core.metadata.layout import LEDGERS_ROOT, LedgerPaths
from tailrace.core.metadata.network_location import NetworkLocation
from tailrace.core.metadata.store import MetadataStore, WatchEvent
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.bookkeeper.entry import MAX_ENTRY_BYTES
from tailrace.protocol.ids import BookieId

logger = logging.getLogger(__name__)

_REREADS_MAX: Final = 12
_REREAD_S: Final = 0.1
_REREAD_S_MAX: Final = 5.0


class BookieRegistry(Protocol):
    """Where writers and readers get their bookies from."""

    async def available(self) -> list[BookieId]:
        """Return the bookies that take new ledgers now, sorted."""

    async def registered(self) -> list[BookieId]:
        """Return all bookies that are there, also those that are read-only, sorted."""

    def client(self, bookie_id: BookieId) -> BookieClient:
        """Return the client of a bookie; always the same one, which the registry closes."""

    def standing(self, bookie_id: BookieId) -> Standing:
        """Return how a bookie is registered as far as is known; AVAILABLE if nothing is."""

    def location(self, bookie_id: BookieId) -> NetworkLocation | None:
        """Return where a bookie says that it stands; of one that is gone: its last word."""

    def entry_bytes_max(self, bookie_id: BookieId) -> int:
        """Return the largest body of an entry that a bookie takes, as far as is known."""

    @property
    def version(self) -> int:
        """Rises when a standing or a location may have changed."""

    async def close(self) -> None:
        """Close all clients. Idempotent."""


class LocalBookies:
    """Bookies of this process (standalone, tests)."""

    def __init__(
        self,
        clients: Iterable[BookieClient],
        is_writable: Callable[[BookieId], bool] = lambda _: True,
        *,
        entry_bytes_max: int = MAX_ENTRY_BYTES,
    ) -> None:
        """`is_writable`: whether one takes new ledgers now; `entry_bytes_max`: of each of them."""
        self._clients = {client.bookie_id: client for client in clients}
        self._is_writable = is_writable
        self._entry_bytes_max = entry_bytes_max
        self.version = 0

    async def available(self) -> list[BookieId]:
        """Return those that are writable."""
        return sorted(filter(self._is_writable, self._clients))

    async def registered(self) -> list[BookieId]:
        """Return all."""
        return sorted(self._clients)

    def standing(self, bookie_id: BookieId) -> Standing:
        """Return AVAILABLE or GONE."""
        return Standing.AVAILABLE if bookie_id in self._clients else Standing.GONE

    def location(self, bookie_id: BookieId) -> NetworkLocation | None:
        """Say nothing: they all stand here."""
        return None

    def entry_bytes_max(self, bookie_id: BookieId) -> int:
        """Return what they were said to take."""
        return self._entry_bytes_max

    def client(self, bookie_id: BookieId) -> BookieClient:
        """Return the bookie's client, or one that answers for a bookie that is not here."""
        return self._clients.get(bookie_id) or UnreachableBookie(bookie_id)

    async def close(self) -> None:
        """Close all clients."""
        for client in self._clients.values():
            await client.close()


class RegisteredBookies:
    """Bookies over TCP, found where they register themselves. One client per bookie.

    The lists of bookies and the nodes in them are read when they are first asked for and again when
    they change, so a call costs no round trip. After a lost session or a failed read they are read
    again, with growing pauses, `_REREADS_MAX` times; then with the next call.
    """

    def __init__(
        self,
        store: MetadataStore,
        config: BookieClientConfig | None = None,
        *,
        root: str = LEDGERS_ROOT,
    ) -> None:
        """Read keys and certificates, if connections are to be secure. Errors: InvalidKeys."""
        self._store = store
        self._paths = LedgerPaths(root)
        self._config = config or BookieClientConfig()
        self._entrance = Entrance(self._config.security)
        self._clients: dict[BookieId, TcpBookieClient] = {}
        self._tasks = Tasks("bookie_registry")
        self._writable: list[BookieId] = []
        self._standings: dict[BookieId, Standing] | None = None
        self._is_stale = True
        self._is_rereading = False
        self._waiting: list[asyncio.Future[None]] = []
        self._hurry: asyncio.Future[None] | None = None
        self._nodes = BookieNodes(store, self._paths, self._on_node_changed)
        self._leaving: dict[BookieId, asyncio.TimerHandle] = {}
        self._is_closed = False
        self._changes = 0
        self.metrics = BookieClientMetrics()

    @property
    def version(self) -> int:
        """Rises when a standing or a location may have changed."""
        return self._changes + self._nodes.version

    async def available(self) -> list[BookieId]:
        """Return the bookies that are registered as writable, sorted.

        Errors: Unavailable while the metadata cannot be read; NoNode: nobody formatted it.
        """
        if self._is_stale or self._standings is None:  # None: being read for the first time
            await self._reread_now()
        return list(self._writable)

    async def registered(self) -> list[BookieId]:
        """Return the bookies that are registered, sorted. Errors: as above."""
        await self.available()
        return sorted(self._standings or ())

    def standing(self, bookie_id: BookieId) -> Standing:
        """Return how a bookie was registered when the lists were last read."""
        if self._standings is None:
            return Standing.AVAILABLE
        return self._standings.get(bookie_id, Standing.GONE)

    def location(self, bookie_id: BookieId) -> NetworkLocation | None:
        """Return what a bookie's node said when it was last read, in this process' life."""
        return self._nodes.location(bookie_id)

    def entry_bytes_max(self, bookie_id: BookieId) -> int:
        """Return what a bookie's node said when it was last read."""
        return self._nodes.entry_bytes_max(bookie_id)

    def client(self, bookie_id: BookieId) -> BookieClient:
        """Return the bookie's client; its address is looked up whenever it connects."""
        if bookie_id not in self._clients:
            self._clients[bookie_id] = TcpBookieClient(
                bookie_id,
                lambda: self._nodes.address(bookie_id),
                self._config,
                self.metrics,
                self._entrance,
            )
        return self._clients[bookie_id]

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        for timer in self._leaving.values():
            timer.cancel()
        await self._tasks.close()
        self._answer(Unavailable("the registry of bookies is closed"))
        for client in self._clients.values():
            await client.close()
        await self._entrance.close()

    # -- the lists ---

    async def _reread_now(self) -> None:
        """Wait for the next reading of the lists. Errors: that of the reading."""
        if self._is_closed:
            raise Unavailable("the registry of bookies is closed")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._start_rereading()
        if self._hurry is not None and not self._hurry.done():
            self._hurry.set_result(None)
        await waiter

    def _start_rereading(self) -> None:
        if not self._is_rereading and not self._is_closed:
            self._is_rereading = True
            self._tasks.start(self._reread(), "reread")

    async def _reread(self) -> None:
        """Read the lists until they are as they are now, or for `_REREADS_MAX` failures."""
        failures = 0
        try:
            while self._is_stale and failures < _REREADS_MAX:
                try:
                    await self._read_lists()
                except CoreError as error:
                    failures += 1
                    logger.warning("bookies_unread failures=%d error=%s", failures, error)
                    self._answer(error)
                    await self._pause(min(_REREAD_S * 2 ** (failures - 1), _REREAD_S_MAX))
                else:
                    self._answer(None)
        except Exception as error:
            self._answer(Unavailable(f"the lists of bookies could not be read: {error!r}"))
            raise
        finally:
            self._is_rereading = False
        if self._waiting:  # they came during the last pause
            self._start_rereading()

    async def _read_lists(self) -> None:
        self._is_stale = False  # before reading: what changes meanwhile is read again
        try:
            lists = await read_bookie_lists(self._store, self._paths, self._on_lists_changed)
            await self._nodes.read([*lists.writable, *lists.read_only])
        except BaseException:
            self._is_stale = True
            raise
        self._writable = list(lists.writable)
        standings = dict.fromkeys(lists.read_only, Standing.READ_ONLY)
        standings |= dict.fromkeys(lists.writable, Standing.AVAILABLE)
        if standings != self._standings:
            self._standings = standings
            self._changes += 1
            self._watch_leavers()

    def _on_lists_changed(self, _path: str, _event: WatchEvent) -> None:
        self._is_stale = True
        self._start_rereading()

    def _on_node_changed(self) -> None:
        if self._standings is not None:  # else nobody asked for the lists yet
            self._is_stale = True
            self._start_rereading()

    async def _pause(self, pause_s: float) -> None:
        self._hurry = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._hurry], timeout=pause_s)
        self._hurry = None

    def _answer(self, error: CoreError | None) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

    # -- connections of bookies that went away ---

    def _watch_leavers(self) -> None:
        """Close the connections of bookies that are gone for a while and owe no answer."""
        for bookie in self._clients:
            if self.standing(bookie) is not Standing.GONE:
                timer = self._leaving.pop(bookie, None)
                if timer is not None:
                    timer.cancel()
            elif bookie not in self._leaving:
                self._close_later(bookie)

    def _close_later(self, bookie: BookieId) -> None:
        loop = asyncio.get_running_loop()
        delay_s = self._config.vanished_close_ms / 1000
        self._leaving[bookie] = loop.call_later(delay_s, self._close_vanished, bookie)

    def _close_vanished(self, bookie: BookieId) -> None:
        if self._clients[bookie].disconnect_if_idle():
            del self._leaving[bookie]
        else:
            self._close_later(bookie)
