"""A process that uses a log with cold storage: one step on its command line, one line of JSON out.

python -m tests.cluster.cold_program STEP '{"metadata": ..., "namespace": ..., "cold": {...}}'
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from tailrace.core.errors import CoreError
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.log.config import LogConfig
from tailrace.core.log.open_namespace import NamespaceOptions, OpenNamespace, open_namespace
from tailrace.core.metadata.bindings import bind_namespace
from tailrace.core.metadata.namespace_binding import BKDLConfig
from tailrace.core.metadata.uri import open_store, parse_namespace_uri, parse_uri
from tailrace.core.runtime.config import Secret
from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.distributedlog.dlsn import INITIAL

LOG = "s"
SEGMENTS = 3
RECORDS = 40


class Listener:
    def on_confirmed(self, txid: int) -> None: ...

    def on_failed(self, error: CoreError) -> None:
        raise error


def payload(txid: int, size: int) -> bytes:
    return (b"%d " % txid * (size // 3))[:size]


async def bind(given: dict[str, Any]) -> None:
    cluster, at = parse_uri(given["metadata"]), parse_namespace_uri(given["namespace"])
    store = await open_store(given["metadata"])
    try:
        binding = BKDLConfig(
            bk_zk_servers=cluster.hosts,
            bk_ledgers_path=cluster.ledgers_root,
            dl_zk_servers_for_writer=at.hosts,
        )
        await bind_namespace(store, at.root, binding)
    finally:
        await store.close()


async def write(opened: OpenNamespace, given: dict[str, Any]) -> Any:
    await opened.logs.create_log(LOG)
    writer = await (await opened.logs.open_log(LOG)).open_writer(Listener())
    for txid in range(SEGMENTS * RECORDS):
        if txid and txid % RECORDS == 0:
            await writer.roll()
        data = payload(txid, given["record_bytes"])
        writer.append(txid, (data,), len(data))
        await writer.flush()
    await writer.close()
    return SEGMENTS * RECORDS


async def copy(opened: OpenNamespace, _: dict[str, Any]) -> Any:
    return await (await opened.logs.open_log(LOG)).upkeep.copy_to_cold()


async def copy_slowly(opened: OpenNamespace, _: dict[str, Any]) -> Any:
    """Copy, and say so as soon as a part of the first object was written."""
    cold = opened.cold
    assert cold is not None
    create = cold.objects.create

    async def create_loudly(name: str) -> Any:
        upload = await create(name)
        written, write = 0, upload.write

        async def write_loudly(parts: Any) -> None:
            nonlocal written
            await write(parts)
            written += 1
            if written == 3:
                print(json.dumps("copying"), flush=True)

        upload.write = write_loudly  # type: ignore[method-assign]
        return upload

    cold.objects.create = create_loudly  # type: ignore[method-assign]
    return await (await opened.logs.open_log(LOG)).upkeep.copy_to_cold()


async def release(opened: OpenNamespace, _: dict[str, Any]) -> Any:
    log = await opened.logs.open_log(LOG)
    released = [segment.lssn for segment in await log.upkeep.trimmer.release(99)]
    await log.upkeep.trimmer.collect()
    return released


async def read(opened: OpenNamespace, _: dict[str, Any]) -> Any:
    log = await opened.logs.open_log(LOG)
    reader = await log.open_reader(INITIAL)
    txids, crc = [], 0
    while batch := await reader.read(1 << 20):
        for _, record in batch:
            txids.append(record.txid)
            crc = crc32c(record.payload, crc)
    await reader.close()
    return {"txids": txids, "crc": crc}


_STEPS: dict[str, Callable[[OpenNamespace, dict[str, Any]], Awaitable[Any]]] = {
    "write": write,
    "copy": copy,
    "copy_slowly": copy_slowly,
    "release": release,
    "read": read,
}


async def run(step: str, given: dict[str, Any]) -> Any:
    if step == "bind":
        return await bind(given)
    options = NamespaceOptions(
        log=LogConfig(delete_delay_ms=0, lock_timeout_s=0),
        cold=ColdConfig(**given["cold"] | {"options": Secret(given["cold"].get("options", ""))}),
        session_timeout_ms=5_000,
    )
    async with open_namespace(given["namespace"], options) as opened:
        return await _STEPS[step](opened, given)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(sys.argv[1], json.loads(sys.argv[2])))), flush=True)
