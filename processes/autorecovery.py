"""One process of auto-recovery: an auditor that stands for election, and a worker that copies.

Order of the start: session with ZooKeeper -> the cluster is there -> the nodes of auto-recovery ->
the HTTP port -> auditor and worker -> the ready line. kill -9 is safe at any point: votes and locks
go with the session. A lost session ends nothing, other than Java's process: the auditor votes anew,
and the worker takes ledgers again. What ends it is a part that fails by a bug again
and again, so that a supervisor starts it again and sees the exit code 1.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

from tailrace.core.autorecovery.auditor import Auditor
from tailrace.core.autorecovery.ledger_check import LedgerCheck
from tailrace.core.autorecovery.replication_metrics import ReplicationMetrics
from tailrace.core.autorecovery.underreplicated import UnderreplicatedLedgers
from tailrace.core.autorecovery.worker import ReplicationWorker
from tailrace.core.errors import AuthFailed, CoreError, NoAuth, NoNode, Unavailable
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.context import LedgerContext
from tailrace.core.ledger.ensembles import Ensembles
from tailrace.core.ledger.metadata_update import LedgerNodes
from tailrace.core.ledger.metrics import LedgerMetrics
from tailrace.core.metadata.cluster import check_cluster
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.uri import parse_uri
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.metadata.zookeeper_acls import ZookeeperAccess
from tailrace.core.runtime.clock import Clock, SystemClock
from tailrace.core.runtime.config import ConfigError
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.task_health import task_health
from tailrace.core.runtime.tasks import Tasks
from tailrace.processes.autorecovery_config import AutoRecoveryProcessConfig
from tailrace.processes.doors import check_doors, health_doors
from tailrace.processes.health_http import serve_health
from tailrace.processes.lifecycle import CREDENTIALS, Remedies, Serving, run_process


class AutoRecovery:
    """What runs: the parts of one process, and whether one of them has failed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        """Has a result once a part has ended by a bug: the process should end."""
        self.tasks = Tasks("autorecovery", self._fail)

    def _fail(self, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_result(error)


def run(config: AutoRecoveryProcessConfig) -> int:
    """Run until SIGTERM or SIGINT and return the process' exit code.

    Prints `ready: autorecovery=ID` on stdout once it votes and takes work; errors of the start,
    with cause, place and remedy, on stderr.
    """
    process = autorecovery_process(config, SystemClock(), Metrics(), Random())
    return run_process(process, serving, _remedies(config), config.log_level)


@asynccontextmanager
async def autorecovery_process(
    config: AutoRecoveryProcessConfig, clock: Clock, metrics: Metrics, rng: Random
) -> AsyncIterator[AutoRecovery]:
    """Run auditor and worker in the block; at its end votes and locks are given back.

    Errors: Unavailable (no ZooKeeper), NoNode (no cluster), CorruptData (marks are kept in another
    way), OSError (the HTTP port is taken), OpenDoors.
    """
    check_doors(health_doors(config.http), config.exposure)
    async with AsyncExitStack() as stack:
        hosts = parse_uri(config.metadata_uri).hosts
        store = await ZookeeperStore.connect(
            hosts,
            session_timeout_ms=config.session_timeout_ms,
            access=ZookeeperAccess(config.zookeeper),
        )
        stack.push_async_callback(store.close)
        metrics.register("metadata", store.metrics)
        task_health().register(metrics)
        await check_cluster(store, config.root)
        marks = UnderreplicatedLedgers(store, config.root, config.identity, clock, rng)
        await marks.prepare()
        bookies = RegisteredBookies(store, config.bookies, root=config.root)
        stack.push_async_callback(bookies.close)
        metrics.register("bookie_client", bookies.metrics)
        await serve_health(config.http, metrics, stack)
        running = AutoRecovery(config.identity)
        stack.push_async_callback(running.tasks.close)
        context = _context(config, store, bookies, metrics, rng)
        recovery = config.recovery_config()
        check = LedgerCheck(context.nodes, bookies, recovery, rng)
        auditor = Auditor(store, marks, check, recovery, clock, name=config.identity)
        metrics.register("replication_auditor", auditor.metrics)
        numbers = ReplicationMetrics()
        metrics.register("replication_worker", numbers)
        worker = ReplicationWorker(context, marks, recovery, clock, numbers, rng)
        running.tasks.start(auditor.run(), "auditor")
        running.tasks.start(worker.run(), "worker")
        yield running


def _context(
    config: AutoRecoveryProcessConfig,
    store: MetadataStore,
    bookies: RegisteredBookies,
    metrics: Metrics,
    rng: Random,
) -> LedgerContext:
    """Return the way to ledgers: new replicas are placed by the same rules as the first ones."""
    ledgers = config.ledger_config()
    numbers = LedgerMetrics()
    metrics.register("ledger", numbers)
    ensembles = Ensembles(
        bookies, rng, placement=ledgers.placement, quarantine=ledgers.quarantine, store=store
    )
    paths = LedgerPaths(config.root)
    nodes = LedgerNodes(store, paths, ledgers.metadata_update_attempts, numbers)
    return LedgerContext(nodes, bookies, ensembles)


def serving(running: AutoRecovery) -> Serving:
    """Return what the process prints when it is ready, and what ends it."""
    ready = f"ready: autorecovery={running.name}\n"
    return Serving(ready, {running.failed: "autorecovery_failed"})


def _remedies(config: AutoRecoveryProcessConfig) -> Remedies:
    http = f"{config.http.host}:{config.http.port}"
    return Remedies(
        {
            AuthFailed: CREDENTIALS,
            NoAuth: CREDENTIALS,
            Unavailable: f"is ZooKeeper running at {config.metadata_uri}?",
            NoNode: f"tailrace cluster init --metadata {config.metadata_uri}",
            ConfigError: "the settings are listed by --show-config",
            OSError: f"check that {http} is free (httpServerPort)",
            CoreError: "",
        },
        otherwise="nothing was changed; see the log lines above",
    )
