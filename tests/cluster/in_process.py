"""What `tailrace start` runs, in the test's own process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tailrace.broker.broker import Broker
from tailrace.broker.config import BrokerConfig, NetworkConfig
from tailrace.core.runtime.clock import SystemClock
from tailrace.processes.standalone import standalone
from tailrace.processes.standalone_config import StandaloneConfig

_ON_A_FREE_PORT = BrokerConfig(network=NetworkConfig(listeners=("PLAINTEXT://127.0.0.1:0",)))


@asynccontextmanager
async def running_broker(
    data: Path, config: BrokerConfig = _ON_A_FREE_PORT
) -> AsyncIterator[Broker]:
    """Run everything over `data`; stop it cleanly at the end."""
    settings = StandaloneConfig(data=data, broker=config)
    async with standalone(settings, SystemClock()) as running:
        yield running.broker
