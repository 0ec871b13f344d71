"""One process that is a broker of a cluster. `tailrace broker`.

Order of the start: session with ZooKeeper -> the cluster is there -> the namespace is bound to it
-> the broker (`running`) -> registered -> the ready line. The end goes the other way; kill -9 is
safe at any point: what it wrote is recovered by whoever opens a log next. A lost session stops
nothing: the broker serves the logs that it has and registers again by itself.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

from tailrace.broker.broker import Broker
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.running import Storage, running_broker
from tailrace.core.errors import (
    AuthFailed,
    CoreError,
    NoAuth,
    NodeExists,
    NoNode,
    Unavailable,
)
from tailrace.core.runtime.clock import Clock, SystemClock
from tailrace.core.runtime.config import ConfigError
from tailrace.core.runtime.metrics import Metrics
from tailrace.processes.broker_config import BrokerProcessConfig
from tailrace.processes.cluster_namespace import granted_ms, open_bound
from tailrace.processes.doors import broker_doors, check_doors
from tailrace.processes.lifecycle import CREDENTIALS, Remedies, Serving, run_process

if TYPE_CHECKING:
    from tailrace.faults.control import FaultControl

logger = logging.getLogger(__name__)

OPEN_USERS: Final = "`zookeeper.set.acl=true`, then `tailrace cluster secure`"


def run(config: BrokerProcessConfig, faults: "FaultControl | None" = None) -> int:
    """Run until SIGTERM or SIGINT and return the process' exit code.

    Prints `ready: bootstrap=HOST:PORT` on stdout once the first request would be answered; errors
    of the start, with cause, place and remedy, on stderr.
    """
    clock = SystemClock() if faults is None else faults.clock
    process = broker_process(config, clock, Metrics(), faults)
    return run_process(process, _serving, _remedies(config), config.log_level)


@asynccontextmanager
async def broker_process(
    config: BrokerProcessConfig,
    clock: Clock,
    metrics: Metrics,
    faults: "FaultControl | None" = None,
) -> AsyncIterator[Broker]:
    """Run a broker that is registered; sign off and close it at the end of the block.

    `faults`: what a test breaks; their port is open in the block.

    Errors: Unavailable (no ZooKeeper), NoNode (no cluster), NodeExists (the namespace belongs to
    other ledgers), CorruptData, OSError (address in use), OpenDoors.
    """
    if config.leaves_users_open:
        logger.warning("users_open_in_zookeeper remedy=%s", OPEN_USERS)
    check_doors(broker_doors(config.broker), config.exposure)
    async with AsyncExitStack() as stack:
        opened = await open_bound(config, config.log_config(), clock, metrics, stack)
        paths = ClusterPaths.of_namespace(opened.uri.root)
        storage = Storage(
            opened.store,
            opened.logs,
            opened.bookies,
            paths,
            config.namespace_uri,
            session_timeout_ms=granted_ms(opened.store, config.session_timeout_ms),
            is_shared=True,
        )
        serving = running_broker(config.broker, storage, clock, metrics)
        broker = await stack.enter_async_context(serving)
        if faults is not None:
            faults.open(broker)
            stack.push_async_callback(faults.close)
        yield broker


def _serving(broker: Broker) -> Serving:
    return Serving(f"ready: bootstrap={broker.advertised.first}\n", {broker.refused: ""})


def _remedies(config: BrokerProcessConfig) -> Remedies:
    places = " ".join(config.broker.network.listeners)
    return Remedies(
        {
            AuthFailed: CREDENTIALS,
            NoAuth: CREDENTIALS,
            Unavailable: f"is ZooKeeper running at {config.metadata_uri}?",
            NoNode: f"tailrace cluster init --metadata {config.metadata_uri}",
            NodeExists: "give the --metadata that the namespace is bound to, or another "
            "--namespace; or, where it is the id that is taken, another node.id",
            ConfigError: "the settings are listed by --show-config",
            OSError: f"check that {places} is free, or give another --listen",
            CoreError: "",
        },
        otherwise="nothing was changed; see the log lines above",
    )
