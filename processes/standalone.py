"""One process that is everything: metadata, one bookie, one broker. `tailrace start`.

Order of the start: lock of the data directory -> metadata -> bookie -> the broker (`running`) ->
the ready line. The end goes the other way, and every step survives kill -9: what the next start
finds is what was acknowledged.
"""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.bookie.app import CANNOT_WRITE, OpenBookie, open_bookie
from tailrace.bookie.errors import BookieError
from tailrace.bookie.local import LocalBookieClient
from tailrace.broker.broker import Broker
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.running import Storage, running_broker
from tailrace.core.errors import CoreError
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.log.cold.opening import open_cold_store
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.metadata.layout import LEDGERS_ROOT
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.clock import Clock, SystemClock
from tailrace.core.runtime.files import Files, LockHeld, SystemFiles, lock_file
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.tasks import Tasks
from tailrace.processes.doors import check_doors, standalone_doors
from tailrace.processes.lifecycle import Remedies, Serving, run_process
from tailrace.processes.standalone_config import StandaloneConfig

if TYPE_CHECKING:
    from tailrace.faults.control import FaultControl

LOCK_FILE = "tailrace.lock"
_SESSION_TIMEOUT_MS = 10_000
"""Of no effect: nobody else can have the store open, and what another session left is gone."""


def run(config: StandaloneConfig, faults: "FaultControl | None" = None) -> int:
    """Run until SIGTERM or SIGINT and return the process' exit code.

    Prints how to connect and the ready line on stdout; errors of the start, with cause, place and
    remedy, on stderr. `faults`: what a test breaks. A bookie that cannot write any more ends the
    process with code 1: nothing may be acknowledged after a failed sync, and the next start finds
    out what is on disk.
    """
    clock = SystemClock() if faults is None else faults.clock
    process = standalone(config, clock, faults)
    return run_process(
        process, lambda running: _serving(running, config.data), _remedies(config), config.log_level
    )


@asynccontextmanager
async def standalone(
    config: StandaloneConfig, clock: Clock, faults: "FaultControl | None" = None
) -> AsyncIterator["Standalone"]:
    """Open everything over a data directory; close it in reverse order at the end of the block.

    `faults` set: what tests break is broken, and their port is open.

    Errors: OpenDoors, LockHeld (names the process), OSError, CoreError, BookieError.
    """
    check_doors(standalone_doors(config), config.exposure)
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        files = SystemFiles() if faults is None else faults.files
        store, bookie = await _open_storage(config, clock, files, metrics, stack)
        told = await _secure(config, store, clock, stack)
        client = LocalBookieClient(bookie, bookie.bookie_id)
        entry_bytes_max = config.bookie.entry_bytes_max
        writable = LocalBookies(
            [client], lambda _: not bookie.health.is_read_only, entry_bytes_max=entry_bytes_max
        )
        namespace = await _open_namespace(config, clock, store, writable, metrics, stack)
        # A topic may be made while the disk is full.
        bookies = LocalBookies([client], entry_bytes_max=entry_bytes_max)
        storage = Storage(
            store,
            namespace,
            bookies,
            ClusterPaths(),
            str(config.data.resolve()),
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            is_shared=False,
        )
        serving = running_broker(config.broker, storage, clock, metrics)
        broker = await stack.enter_async_context(serving)
        if config.proxy.enabled:
            from tailrace.processes.standalone_proxies import serve_proxies  # gRPC loads slowly

            ledgers = LedgerClient(store, writable)
            proxies = serve_proxies(config, broker, storage, ledgers, metrics)
            await stack.enter_async_context(proxies)
        if faults is not None:
            faults.open(broker, bookie.look_at_disks)
            stack.push_async_callback(faults.close)
        yield Standalone(broker, bookie, store, metrics, told)


async def _open_storage(
    config: StandaloneConfig,
    clock: Clock,
    files: Files,
    metrics: Metrics,
    stack: AsyncExitStack,
) -> tuple[SqliteStore, OpenBookie]:
    """Open metadata and bookie; the lock comes first, since a second store ends the first one's."""
    try:
        config.data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"cannot keep anything in {config.data}: {error.strerror}"
        raise OSError(error.errno, reason) from error
    stack.callback(os.close, lock_file(config.data / LOCK_FILE, "tailrace"))
    store = SqliteStore(config.metadata_path, clock)
    stack.push_async_callback(store.close)
    metrics.register("metadata", store.metrics)
    await initialize_layout(store)
    bookie = await open_bookie(config.bookie_config(), store, clock, files, metrics)
    stack.push_async_callback(bookie.close)
    return store, bookie


async def _secure(
    config: StandaloneConfig, store: SqliteStore, clock: Clock, stack: AsyncExitStack
) -> str:
    """Secure the process, if it is to be; return what people are told of it."""
    if not config.secure.enabled:
        return ""
    from tailrace.processes.secure_start import Secured

    secured = Secured(config, clock)
    told = await secured.prepare(store)
    tasks = Tasks("secure")
    stack.push_async_callback(tasks.close)
    tasks.start(secured.renew_for_ever(), "renewal")
    return told


async def _open_namespace(
    config: StandaloneConfig,
    clock: Clock,
    store: SqliteStore,
    bookies: LocalBookies,
    metrics: Metrics,
    stack: AsyncExitStack,
) -> LogNamespace:
    """Open the log streams over the one bookie that there is."""
    ledgers = LedgerClient(store, bookies)
    metrics.register("ledger", ledgers.metrics)
    namespace = LogNamespace(store, ledgers, config.log, clock)
    cold = await stack.enter_async_context(open_cold_store(config.cold, store, LEDGERS_ROOT))
    if cold is not None:
        namespace.use_cold_storage(cold)
        metrics.register("cold", cold.metrics)
    metrics.register("log", namespace.metrics)
    await namespace.bind()
    stack.push_async_callback(namespace.close)
    return namespace


class Standalone:
    """What runs: for the process that waits for its end, and for tests in one process."""

    def __init__(
        self,
        broker: Broker,
        bookie: OpenBookie,
        store: MetadataStore,
        metrics: Metrics,
        told: str = "",
    ) -> None:
        """`told`: what people are told before the process is ready."""
        self.broker = broker
        self.bookie = bookie
        self.store = store
        self.metrics = metrics
        self.told = told

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return str(self.broker.advertised.first)


def _serving(running: Standalone, data: Path) -> Serving:
    ready = (
        f"{running.told}Tailrace keeps its data in {data.resolve()}\n"
        f"connect with bootstrap.servers={running.bootstrap}; end with Ctrl-C\n"
        f"ready: bootstrap={running.bootstrap}\n"
    )
    return Serving(ready, {running.bookie.failed: CANNOT_WRITE})


def _remedies(config: StandaloneConfig) -> Remedies:
    places = " ".join(config.broker.network.listeners)
    return Remedies(
        {
            LockHeld: "stop that process, or give another --data",
            OSError: f"check that {config.data} can be written and {places} is free",
            CoreError: "",
            BookieError: "",
        },
        otherwise=f"the files in {config.data} were left as they are",
    )
