"""The cold store that the settings name, for one cluster."""

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tailrace.core.errors import CorruptData
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.log.cold.store import ColdStore
from tailrace.core.metadata.layout import LedgerPaths

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tailrace.core.metadata.store import MetadataStore


@asynccontextmanager
async def open_cold_store(
    config: ColdConfig, store: "MetadataStore", ledgers_root: str
) -> "AsyncIterator[ColdStore | None]":
    """Open cold storage until the end of the block; None when the settings name none.

    `store`: the metadata of the ledgers, whose instance id keeps clusters with one URL apart.
    Errors: CorruptData when there is no instance id. Cost: nothing is asked of cold storage yet.
    """
    if not config.url:
        yield None
        return
    path = LedgerPaths(ledgers_root).instance_id
    node = await store.exists(path)
    if node is None or not node.data:
        raise CorruptData(f"cold storage needs the cluster's instance id: {path} has none")
    cold = ColdStore(config, node.data.decode("utf-8", "replace").strip())
    try:
        yield cold
    finally:
        await cold.close()
