"""Building a bookie: lock, cookie, storage; and as a process of its own: server, registration.

Order at start: lock -> cookie -> recovery -> listening -> registration (so nobody is sent here
before there is an answer). Order at end: the other way round. kill -9 is safe at any point.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from typing_extensions import override

from tailrace.bookie.admin import routes
from tailrace.bookie.config import BookieConfig
from tailrace.bookie.disk_check import DiskCheck
from tailrace.bookie.disk_watch import DiskWatch, in_all
from tailrace.bookie.door import Door
from tailrace.bookie.entry_judge import EntryJudge
from tailrace.bookie.errors import NoRoom
from tailrace.bookie.gc import GarbageCollector, Removed
from tailrace.bookie.health import Health
from tailrace.bookie.identity import check_cookies, lock_directories, unlock_directories
from tailrace.bookie.over_replicated import OverReplicated
from tailrace.bookie.requests import Bookie
from tailrace.bookie.scrub import Scrub
from tailrace.bookie.server import BookieServer
from tailrace.bookie.storage import Storage
from tailrace.core.errors import CoreError, NodeExists
from tailrace.core.metadata.bookie_service_info import (
    BOOKIE_RPC,
    FRAME_BYTES_MAX,
    NETWORK_LOCATION,
    BookieServiceInfo,
    Endpoint,
)
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.ledger_digests import find_digest
from tailrace.core.metadata.ledger_tree import all_ledgers
from tailrace.core.metadata.registration import STALE_WAIT_MS, BookieRegistration
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.files import Files, Space
from tailrace.core.runtime.http import HttpServer
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.task_health import task_health
from tailrace.core.runtime.tasks import Tasks
from tailrace.core.security.http_port import http_server
from tailrace.protocol.ids import BookieId, LedgerId

logger = logging.getLogger(__name__)

CANNOT_WRITE = "the bookie cannot write any more; start again when its disk is well"
"""What its process logs when `failed` of a bookie ends it."""
LEDGERS_AT_ONCE = 256
"""Index files that are looked at in one job of the reading thread: a few milliseconds."""


async def open_bookie(
    config: BookieConfig,
    store: MetadataStore | None,
    clock: Clock,
    files: Files,
    metrics: Metrics | None = None,
) -> "OpenBookie":
    """Open a bookie for requests in this process; `store` None: no cluster to belong to.

    Errors: LockHeld (names the process), InvalidCookie, CorruptData, OSError.
    """
    locks = lock_directories(config, files)
    try:
        instance_id = await check_cookies(config, store, files)
        storage = Storage(config, clock, files)
        await storage.open()
    except BaseException:
        unlock_directories(locks, files)
        raise
    health = Health(
        DiskWatch(config.disks.rules(config.log_size_limit)), forced=config.disks.forced
    )
    bookie = OpenBookie(config, storage, health, files, locks)
    if store is not None:
        bookie.belong_to(store, instance_id, clock)
    try:
        await bookie.start()
    except BaseException:
        await bookie.close()
        raise
    if metrics is not None:
        metrics.register("bookie", bookie.metrics, bookie=config.identity)
        metrics.register("bookie_disk", health.metrics, bookie=config.identity)
        if bookie.scrub is not None:
            metrics.register("bookie_scrub", bookie.scrub.metrics, bookie=config.identity)
    return bookie


class OpenBookie(Bookie):
    """A Bookie with all that belongs to it; `close` leaves nothing behind."""

    def __init__(
        self,
        config: BookieConfig,
        storage: Storage,
        health: Health,
        files: Files,
        locks: list[int],
    ) -> None:
        super().__init__(config, storage, health)
        self.bookie_id = BookieId(config.identity)
        self._config = config
        self._locks = locks
        self._files = files
        self._collector: GarbageCollector | None = None
        self._judge: EntryJudge | None = None
        self.scrub: Scrub | None = None
        """None without a metadata store."""
        self._upkeep = storage.upkeep
        self._dirs = storage.dirs
        storage.on_no_room = self._on_no_room
        health.on_change(self._choose_directories)
        self._disk_check = DiskCheck(storage, health, config.disks.check_interval_ms)
        self._tasks = Tasks("bookie")

    def belong_to(self, store: MetadataStore, instance_id: str, clock: Clock) -> None:
        """Do what needs the metadata of a cluster: garbage collection, verification. Once."""
        config, root = self._config, self._config.ledgers_root
        list_ledgers = partial(all_ledgers, store, root, instance_id)
        self._collector = GarbageCollector(
            self._storage, self._files, list_ledgers, clock, config.gc, self.has_no_room
        )
        self._judge = EntryJudge(partial(find_digest, store, root=root), self.metrics)
        self.scrub = Scrub(self, self._judge, config.scrub)

    def verify_reads(self) -> None:
        """Verify every entry before it is given out, as a bookie must whose readers are far."""
        self._reads.judge = self._judge

    def give_up_over_replicated(self, store: MetadataStore, clock: Clock) -> None:
        """Remove ledgers that other bookies keep by now, as one of several bookies may."""
        if self._collector is not None:
            self._collector.over_replicated = OverReplicated(
                store, self._config.ledgers_root, self.bookie_id, clock, self._config.gc
            )

    async def start(self) -> None:
        """Look at the disks before the first request, and from then on."""
        await self.look_at_disks()
        self._tasks.start(self._disk_check.run(), "disk check")
        if self._collector is not None:
            self._tasks.start(self._collector.run(), "garbage collection")
        if self.scrub is not None:
            self._tasks.start(self.scrub.run(), "scrub")

    async def look_at_disks(self) -> None:
        """Find out now what room there is, and what follows."""
        await self._disk_check.look()

    @override
    async def close(self) -> None:
        """Finish what was submitted, checkpoint, give the directories back. Idempotent."""
        if not self._locks:
            return
        locks, self._locks = self._locks, []
        try:
            await self._tasks.close()
            if self._judge is not None:
                await self._judge.close()
            await super().close()
        finally:
            unlock_directories(locks, self._files)

    def has_no_room(self) -> bool:
        """Whether adds are refused because of what the disks say."""
        return bool(self.health.verdict.reason)

    def _choose_directories(self) -> None:
        """Put new files only where there is room."""
        writable = self.health.verdict.writable
        for directory in self._dirs.directories:
            if directory in writable:
                self._dirs.mark_writable(directory)
            else:
                self._dirs.mark_full(directory)

    def _on_no_room(self, error: NoRoom) -> None:
        self.health.on_no_room(error.directory)

    @property
    def has_failed(self) -> bool:
        """Whether it cannot write any more."""
        return self.failed.done()

    async def ledger_ids(self) -> set[LedgerId]:
        """Return all ledgers that are stored. Errors: OSError."""
        storage = self._storage
        on_disk = await storage.upkeep.thread.call(storage.indexes.ledger_ids)
        return {*storage.ledgers, *on_disk}

    async def entries_max(self, ledger_ids: Sequence[LedgerId]) -> list[int]:
        """Return how many entries each ledger has at most, by its index. Errors: OSError."""
        storage, found = self._storage, list[int]()

        def look(some: Sequence[LedgerId]) -> list[int]:
            return [storage.indexes.entries_max(ledger_id) for ledger_id in some]

        for first in range(0, len(ledger_ids), LEDGERS_AT_ONCE):
            some = ledger_ids[first : first + LEDGERS_AT_ONCE]
            found += await storage.call_reader(lambda _: look(some))  # noqa: B023 - awaited at once
        return found

    @property
    def pending_reads(self) -> int:
        """How many reads wait now."""
        return self.metrics.pending_reads

    async def room(self) -> Space:
        """Return the room of all ledger directories. Errors: OSError."""
        return in_all(await self._storage.rooms())

    async def checkpoint(self) -> None:
        """Bring everything that is durable into the index files."""
        await self._upkeep.checkpoint()

    async def collect_garbage(self, *, force: bool = False) -> Removed:
        """Remove the ledgers that the metadata does not have, and the entry logs left empty.

        Without a metadata store, or with another cluster's, nothing is ever removed.
        """
        if self._collector is None:
            return Removed([], [])
        return await self._collector.collect(force=force)


class BookieProcess:
    """A bookie of its own: open, listening and, with a store, registered."""

    def __init__(
        self, bookie: OpenBookie, server: BookieServer, http: HttpServer | None = None
    ) -> None:
        self.bookie = bookie
        self.server = server
        self.http = http
        """Health, metrics and administration; None unless httpServerEnabled."""
        self._tasks = Tasks("bookie process")
        self._is_closing = False
        self.registration: BookieRegistration | None = None
        """None without a store."""
        self.refused: asyncio.Future[NodeExists] = asyncio.get_running_loop().create_future()
        """Done when another process has taken this bookie's id: this one must end."""

    async def register(
        self, store: MetadataStore, config: BookieConfig, stale_wait_ms: int
    ) -> BookieRegistration:
        """Tell clients where this bookie is, and go on telling them. Errors: NodeExists."""
        host = config.advertised_host or config.host
        doors = [Endpoint("bookie", host, self.server.port, BOOKIE_RPC)]
        if self.http is not None:
            doors.append(Endpoint("httpserver", config.http.host, self.http.port, "http"))
        place = config.location()
        properties = {NETWORK_LOCATION: place.rack} if place else {}
        properties[FRAME_BYTES_MAX] = str(config.frame_bytes_max)
        self.registration = BookieRegistration(
            store,
            LedgerPaths(config.ledgers_root),
            self.bookie.bookie_id,
            BookieServiceInfo(tuple(doors), properties),
            stale_wait_ms=stale_wait_ms,
            on_refused=self._refuse,
        )
        health = self.bookie.health
        health.on_change(self._on_mode)  # first: it may change while a stale node is waited out
        await self.registration.register(read_only=health.is_read_only)
        return self.registration

    async def close(self) -> None:
        """Sign off, stop listening, close the bookie."""
        self._is_closing = True
        await self._tasks.close()
        if self.registration is not None:
            await self.registration.close()
        if self.http is not None:
            await self.http.close()
        await self.server.close()
        await self.bookie.close()

    def _on_mode(self) -> None:
        if not self._is_closing:
            self._tasks.start(self._tell_mode(), "mode")

    async def _tell_mode(self) -> None:
        """Tell clients; without the store the registration does it when the session is back."""
        assert self.registration is not None, "modes are told after the registration"
        try:
            await self.registration.set_read_only(self.bookie.health.is_read_only)
        except CoreError as error:
            logger.warning("mode_not_told bookie=%s error=%s", self.bookie.bookie_id, error)

    def _refuse(self, error: NodeExists) -> None:
        if not self.refused.done():
            self.refused.set_result(error)


async def start_bookie(
    config: BookieConfig,
    store: MetadataStore | None,
    clock: Clock,
    files: Files,
    metrics: Metrics | None = None,
    *,
    stale_wait_ms: int = STALE_WAIT_MS,
) -> BookieProcess:
    """Open a bookie, listen and register.

    `stale_wait_ms`: how long the node of a killed process may stay, which is its session timeout.
    Errors: as open_bookie; NodeExists (another process runs under this id), Unavailable;
    ConfigError (keys or users that cannot be read).
    """
    door = Door(config.security) if config.security.is_needed else None
    bookie = await open_bookie(config, store, clock, files, metrics)
    bookie.verify_reads()
    if store is not None:
        bookie.give_up_over_replicated(store, clock)
    if metrics is not None:
        task_health().register(metrics)
        if door is not None:
            metrics.register("bookie_door", door.metrics, bookie=config.identity)
    process = BookieProcess(
        bookie, BookieServer(bookie, config, door), _http(config, bookie, metrics)
    )
    try:
        await process.server.start()
        if process.http is not None:
            await process.http.start()
        if store is not None:
            registration = await process.register(store, config, stale_wait_ms)
            if metrics is not None:
                metrics.register("bookie_registration", registration.metrics)
    except BaseException:
        await process.close()
        raise
    return process


def _http(config: BookieConfig, bookie: OpenBookie, metrics: Metrics | None) -> HttpServer | None:
    if not config.http.enabled:
        return None
    handlers = routes(bookie, bookie.health, metrics or Metrics())
    return http_server(config.http.host, config.http.port, handlers, config.http.tls)
