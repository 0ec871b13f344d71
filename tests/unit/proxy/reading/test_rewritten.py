"""Readers that stand in segments which are rewritten meanwhile: entry ids count in a ledger."""

import asyncio
from pathlib import Path

import pytest

from tailrace.core.log.log import Log
from tests.unit.core.log.test_rewrite import even, kept, rewritten
from tests.unit.core.log.world import put
from tests.unit.proxy.owner.world import ProxyWorld, run
from tests.unit.proxy.reading.world import Reader, direct, read, request, service, writing

RECORD_BYTES = 30_000
"""Two in a message, so that readers stop inside segments."""


async def three_segments(world: ProxyWorld) -> Log:
    """Ten records in each; nobody writes the log any more."""
    log, writer = await writing(world)
    for txid in range(30):
        put(writer, txid, b"x" * RECORD_BYTES)
        await writer.flush()
        if txid in (9, 19):
            await writer.roll()
    await writer.close()
    return log


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize("at", [1, 4, 10, 13, 27])
def test_reader_goes_on_behind_what_it_has_had(
    tmp_path: Path, at: int, *, is_deleted: bool
) -> None:
    """In another feed than before, opened in the new ledger, beside one of the old."""

    async def story(world: ProxyWorld) -> None:
        log = await three_segments(world)
        everything = await direct(log)
        proxy = service(world, cache_bytes=0, feed_linger_ms=1_000)
        first = await read(proxy, most=at, tail=True)
        assert first.txids == list(range(at))
        stopped = Reader(proxy, request(everything[at - 1].dlsn))
        await stopped.step()
        seen = stopped.txids
        await asyncio.sleep(10)
        assert proxy.metrics.feeds == 0
        await rewritten(log, [1, 2, 3])
        if is_deleted:
            await asyncio.sleep(world.config.delete_delay_ms / 1000)
            assert await log.upkeep.trimmer.collect()
        assert (await read(proxy)).txids == kept(30, [1, 2, 3])
        reading = asyncio.create_task(stopped.to_end())
        await asyncio.sleep(5)
        found = stopped.txids
        assert found[: len(seen)] == seen
        assert found == sorted(set(found)), "in order, none twice"
        assert set(found) >= {txid for txid in range(at - 1, 30) if even(txid)}
        assert found[len(seen) :] == [txid for txid in kept(30, [1, 2, 3]) if txid > seen[-1]]
        reading.cancel()
        await asyncio.wait([reading])
        await stopped.close()
        await proxy.close()

    run(tmp_path, story)
