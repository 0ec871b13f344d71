"""The public API over bookies in memory: each `opened` is a process of its own."""

from contextlib import AsyncExitStack
from typing import Any

from tailrace import dlog
from tests.unit.core.log.world import World


def opened(world: World, **changes: Any) -> dlog.Namespace:
    """Return a namespace as `open_namespace` would."""
    return dlog.Namespace("sqlite:test", world.namespace(**changes), AsyncExitStack())


async def new_log(world: World, name: str = "s", **changes: Any) -> dlog.Log:
    """Return a log, made unless it is there."""
    namespace = opened(world, **changes)
    if not await namespace.log_exists(name):
        await namespace.create_log(name)
    return await namespace.open_log(name)


def txids(records: list[dlog.LogRecord]) -> list[int]:
    return [record.txid for record in records]
