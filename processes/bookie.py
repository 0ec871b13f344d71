"""One process that is a bookie of a cluster. `tailrace bookie`.

Order of the start: session with ZooKeeper -> the cluster is there -> locks, cookies, recovery ->
listening -> registration -> the ready line. The end goes the other way; kill -9 is safe at any
point. A lost session never stops a bookie: it serves on and registers again by itself. What stops
it is a disk that it cannot write to, or another process under its id.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tailrace.bookie.app import CANNOT_WRITE, BookieProcess, start_bookie
from tailrace.bookie.errors import BookieError
from tailrace.bookie.scrub import Replica
from tailrace.core.errors import (
    AuthFailed,
    CoreError,
    NoAuth,
    NodeExists,
    NoNode,
    Unavailable,
)
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig
from tailrace.core.ledger.replica_reader import ReplicaReader
from tailrace.core.metadata.cluster import check_cluster
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.uri import parse_uri
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.metadata.zookeeper_acls import ZookeeperAccess
from tailrace.core.runtime.clock import Clock, SystemClock
from tailrace.core.runtime.config import ConfigError
from tailrace.core.runtime.files import LockHeld, SystemFiles
from tailrace.core.runtime.metrics import Metrics
from tailrace.processes.bookie_config import BookieProcessConfig
from tailrace.processes.doors import bookie_doors, check_doors
from tailrace.processes.lifecycle import CREDENTIALS, Remedies, Serving, run_process
from tailrace.protocol.ids import EntryId, LedgerId


def run(config: BookieProcessConfig) -> int:
    """Run until SIGTERM or SIGINT and return the process' exit code.

    Prints `ready: bookie=ID` on stdout once it would answer and is registered; errors of the start,
    with cause, place and remedy, on stderr.
    """
    process = bookie_process(config, SystemClock(), Metrics())
    return run_process(process, _serving, _remedies(config), config.log_level)


@asynccontextmanager
async def bookie_process(
    config: BookieProcessConfig, clock: Clock, metrics: Metrics
) -> AsyncIterator[BookieProcess]:
    """Run a bookie that is registered; sign off and close it at the end of the block.

    Errors: Unavailable (no ZooKeeper), NoNode (no cluster), NodeExists (id in use), LockHeld,
    InvalidCookie, CorruptData, OSError, ConfigError (keys or passwords that cannot be used),
    OpenDoors.
    """
    check_doors(bookie_doors(config.bookie), config.exposure)
    async with AsyncExitStack() as stack:
        timeout_ms = config.session_timeout_ms
        hosts = parse_uri(config.metadata_uri).hosts
        access = ZookeeperAccess(config.zookeeper)
        store = await ZookeeperStore.connect(hosts, session_timeout_ms=timeout_ms, access=access)
        stack.push_async_callback(store.close)
        metrics.register("metadata", store.metrics)
        bookie = config.bookie_config()
        await check_cluster(store, bookie.ledgers_root)
        running = await start_bookie(
            bookie, store, clock, SystemFiles(), metrics, stale_wait_ms=2 * timeout_ms
        )
        stack.push_async_callback(running.close)
        others = RegisteredBookies(store, config.client_config(), root=bookie.ledgers_root)
        stack.push_async_callback(others.close)
        _let_mend(running, store, others, bookie.ledgers_root)
        yield running


def _let_mend(
    running: BookieProcess, store: MetadataStore, others: RegisteredBookies, root: str
) -> None:
    """Let the scrub replace what is damaged by what other bookies of the cluster have."""
    replicas = ReplicaReader(LedgerClient(store, others, LedgerClientConfig(root=root)))

    async def fetch(ledger_id: LedgerId, entry_id: EntryId) -> Replica | None:
        found = await replicas.read(ledger_id, entry_id)
        return None if found is None else Replica(*found)

    if running.bookie.scrub is not None:
        running.bookie.scrub.fetch = fetch


def _serving(running: BookieProcess) -> Serving:
    ready = f"ready: bookie={running.bookie.bookie_id}\n"
    return Serving(ready, {running.bookie.failed: CANNOT_WRITE, running.refused: ""})


def _remedies(config: BookieProcessConfig) -> Remedies:
    uri, data = config.metadata_uri, config.data
    return Remedies(
        {
            AuthFailed: CREDENTIALS,
            NoAuth: CREDENTIALS,
            Unavailable: f"is ZooKeeper running at {uri}?",
            NoNode: f"tailrace cluster init --metadata {uri}",
            NodeExists: "stop that process, or give another --listen or bookieId",
            LockHeld: "stop that process, or give another --data",
            ConfigError: "the settings are listed by --show-config",
            OSError: f"check {data} and that {config.bookie.host}:{config.bookie.port} is free",
            CoreError: "",
            BookieError: "",
        },
        otherwise=f"the files in {data} were left as they are",
    )
