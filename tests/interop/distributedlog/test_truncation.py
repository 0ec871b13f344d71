"""What one side truncates or purges is gone for the other, which reads and writes on."""

import pytest

from tailrace.protocol.distributedlog.dlsn import INITIAL
from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.conftest import Opener
from tests.interop.distributedlog.java import JavaLog
from tests.interop.distributedlog.ours import (
    Listener,
    Place,
    our_logs,
    put,
    read,
    read_on,
)
from tests.interop.distributedlog.records import digest

pytestmark = [pytest.mark.interop, pytest.mark.java]
COUNT = 10
STATUS = ["TRUNCATED", "PARTIALLY_TRUNCATED", "ACTIVE"]


async def write_three_segments(java: JavaLog, seed: int) -> None:
    await java.ask("create")
    for first in (1, COUNT + 1, 2 * COUNT + 1):
        writer = await java.open_writer()
        await writer.write(seed, first, COUNT)
        await writer.close()


async def check_readable(java: JavaLog, place: Place, name: str, seed: int, first: int) -> None:
    """Check that both sides read from a txid to the end, and nothing before."""
    count = 3 * COUNT - first + 1
    theirs = await java.read(count)
    assert [record.txid for record in theirs] == list(range(first, 3 * COUNT + 1))
    assert theirs[0].digest == digest(f"{seed}/{first}")
    async with our_logs(place) as logs:
        assert await read(await logs.open_log(name), count) == theirs


def test_java_sees_what_we_truncate(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        await write_three_segments(java, 31)
        at = (await java.read(COUNT + 5))[-1]
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            writer = await log.open_writer(Listener())
            await log.truncate(at.dlsn)
            await writer.close()
        assert [segment["truncation"] for segment in await java.segments()] == STATUS
        await check_readable(java, place, name, 31, COUNT + 5)

    run(story)


def test_java_begins_where_we_truncated_a_segment_that_we_still_write(
    place: Place, opener: Opener, name: str
) -> None:
    """It recovers that segment, too, and what was given up stays so."""

    async def story() -> None:
        java = opener(name)
        await write_three_segments(java, 35)
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            writer = await log.open_writer(Listener())
            for txid in range(3 * COUNT + 1, 4 * COUNT + 1):
                await put(writer, 35, txid, 1)  # in an entry of its own
            await writer.commit()
            found = await log.find(3 * COUNT + 5)
            assert found is not None
            await log.truncate(found.dlsn)
            statuses = [segment["truncation"] for segment in await java.segments()]
            assert statuses == ["TRUNCATED"] * 3 + ["PARTIALLY_TRUNCATED"]
            theirs = await java.read(COUNT - 4)
            assert [record.txid for record in theirs] == list(range(3 * COUNT + 5, 4 * COUNT + 1))
            await writer.abort()
        recovering = await java.open_writer()
        await recovering.write(35, 4 * COUNT + 1, 1)
        await recovering.close()
        statuses = [segment["truncation"] for segment in await java.segments()]
        assert statuses == ["TRUNCATED"] * 3 + ["PARTIALLY_TRUNCATED", "ACTIVE"]
        theirs = await java.read(COUNT - 3)
        assert [record.txid for record in theirs] == list(range(3 * COUNT + 5, 4 * COUNT + 2))

    run(story)


def test_we_see_what_java_truncates(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        await write_three_segments(java, 32)
        at = (await java.read(COUNT + 5))[-1]
        writer = await java.open_writer()
        assert (await writer.ask("truncate", dlsn=at.dlsn))["done"]
        await writer.close()
        assert [segment["truncation"] for segment in await java.segments()] == STATUS
        await check_readable(java, place, name, 32, COUNT + 5)

    run(story)


def test_both_truncate_one_log_further(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        await write_three_segments(java, 33)
        seen = await java.read(3 * COUNT)
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            for txid in (3, 6):
                writer = await log.open_writer(Listener())
                await log.truncate(seen[txid - 1].dlsn)
                await writer.close()
                await check_readable(java, place, name, 33, txid)
                theirs = await java.open_writer()
                await theirs.ask("truncate", dlsn=seen[txid].dlsn)
                await theirs.close()
                await check_readable(java, place, name, 33, txid + 1)

    run(story)


def test_java_goes_on_in_a_log_that_we_purged(place: Place, opener: Opener, name: str) -> None:
    """Its reader at the tail stays; sequence ids, counts and LSSNs go on from what is left."""

    async def story() -> None:
        java = opener(name)
        await write_three_segments(java, 34)
        last = (await java.read(3 * COUNT))[-1]
        reader = await java.open_reader(last.dlsn)
        assert await reader.read(1) == [last]
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            writer = await log.open_writer(Listener())
            await log.truncate(last.dlsn)
            assert len(await log.purge_segments(3)) == 2
            await put(writer, 34, 3 * COUNT + 1, COUNT)
            await writer.close()
        theirs = await java.open_writer()
        await theirs.write(34, 4 * COUNT + 1, COUNT)
        await theirs.close()
        txids = [record.txid for record in await reader.read(2 * COUNT)]
        await reader.close()
        assert txids == list(range(3 * COUNT + 1, 5 * COUNT + 1))
        assert [segment["lssn"] for segment in await java.segments()] == [3, 4, 5]
        starts = [segment["start"] for segment in await java.segments()]
        assert starts == [2 * COUNT, 3 * COUNT, 4 * COUNT]
        assert await java.count() == 3 * COUNT

    run(story)


def test_we_go_on_in_a_log_that_java_purged(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name)
        await write_three_segments(java, 35)
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            reader = await log.open_reader(INITIAL)
            seen = await read_on(reader, 3 * COUNT)
            await java.ask("purge", txid=2 * COUNT + 1)
            writer = await log.open_writer(Listener())
            await put(writer, 35, 3 * COUNT + 1, COUNT)
            await writer.close()
            seen += await read_on(reader, COUNT)
            await reader.close()
            assert [record.txid for record in seen] == list(range(1, 4 * COUNT + 1))
            left = await java.read(2 * COUNT)
            assert await read(log, 2 * COUNT) == left == seen[2 * COUNT :]
            assert [segment["start"] for segment in await java.segments()] == [20, 30]

    run(story)
