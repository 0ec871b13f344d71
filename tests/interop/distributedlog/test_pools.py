"""Ledgers from a pool of allocators: one side uses the pool that the other side left."""

from typing import Any

import pytest

from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.java import JavaLog
from tests.interop.distributedlog.ours import Place, our_namespace, read, write_segment
from tests.interop.distributedlog.records import check
from tests.java.peers import JavaClient

pytestmark = [pytest.mark.interop, pytest.mark.java]
COUNT = 10
ALLOCATORS = 3


def test_one_pool_in_turns(java: JavaClient, place: Place, name: str) -> None:
    """A pool belongs to one process at a time; the next one deletes what it finds allocated."""
    pool = {"enableLedgerAllocatorPool": True, "ledgerAllocatorPoolName": name}
    pool |= {"ledgerAllocatorPoolCoreSize": ALLOCATORS}
    ours: dict[str, Any] = {"uses_allocator_pool": True, "allocator_pool_name": name}
    ours |= {"allocator_pool_size": ALLOCATORS}
    nodes = f"{place.path}/.allocation_pool/{name}"

    async def story() -> None:
        first = 1
        for _ in range(2):
            async with our_namespace(place.uri, **ours) as opened:
                await write_segment(await opened.logs.open_log(name), 71, first, COUNT)
            java.call("connect", client=name, uri=place.uri, conf=pool)
            theirs = JavaLog(java, name, name)
            writer = await theirs.open_writer()
            await writer.write(71, first + COUNT, COUNT)
            await writer.close()
            first += 2 * COUNT
            everything = await theirs.read(first - 1)
            check(everything, 71, range(1, first))
            segments = await theirs.segments()
            java.call("disconnect", client=name)
        async with our_namespace(place.uri) as opened:
            assert await read(await opened.logs.open_log(name), first - 1) == everything
            paths = [f"{nodes}/{child}" for child in await opened.store.children(nodes)]
            assert len(paths) == ALLOCATORS
            left = {(await opened.store.get(path)).data for path in paths} - {b""}
            used = {b"%d" % segment["ledger"] for segment in segments}
            assert not left & used, "the next owner of the pool would delete these"

    java.call("connect", client="maker", uri=place.uri)
    java.call("create", client="maker", log=name)
    java.call("disconnect", client="maker")
    run(story)
