"""Java's readers and writers over segments that we rewrote: fewer records, the same log."""

import pytest

from tailrace.core.log.log import Log
from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.conftest import Opener
from tests.interop.distributedlog.java import JavaLog
from tests.interop.distributedlog.ours import Listener, Place, our_logs, put, read
from tests.interop.distributedlog.records import SIZE, Seen, check, payload

pytestmark = [pytest.mark.interop, pytest.mark.java]

COUNT = 60
"""Records of a segment, each an entry: more than Java's reader has ahead in one segment (32)."""

STRICT = {"positionGapDetectionEnabled": True}
SEGMENTS = 4


def is_kept(txid: int) -> bool:
    """Leave half of the first segment, nothing of the second and third, all of the last."""
    return txid > 3 * COUNT or (txid <= COUNT and txid % 2 == 0)


KEPT = [txid for txid in range(1, SEGMENTS * COUNT + 1) if is_kept(txid)]


async def write_segments(log: Log, seed: int) -> None:
    for number in range(SEGMENTS):
        writer = await log.open_writer(Listener())
        for txid in range(number * COUNT + 1, (number + 1) * COUNT + 1):
            await put(writer, seed, txid, 1)
        await writer.close()


async def rewrite(log: Log, seed: int) -> None:
    """Copy what is kept of the first three segments; the third without any owner's record."""
    rewriting = await log.rewrite([1, 2, 3])
    for lssn in (1, 2, 3):
        for txid in range((lssn - 1) * COUNT + 1, lssn * COUNT + 1):
            if is_kept(txid):
                await rewriting.append(lssn, txid, [payload(f"{seed}/{txid}")], SIZE)
        await rewriting.finish(lssn, None, b"index" if lssn < 3 else b"")
    await rewriting.commit()


async def check_whole(java: JavaLog, seed: int) -> None:
    """Check what a new reader of Java's sees, from the beginning and from each kind of txid."""
    check(await java.read(len(KEPT)), seed, KEPT)
    for txid in (1, 2, COUNT, COUNT + 1, 2 * COUNT, 3 * COUNT, 3 * COUNT + 1):
        rest = [each for each in KEPT if each >= txid]
        found = await java.read(len(rest), txid=txid)
        assert [record.txid for record in found] == rest


def test_java_reads_and_owns_a_log_that_we_rewrote(place: Place, opener: Opener, name: str) -> None:
    async def story() -> None:
        java = opener(name, STRICT)
        await java.ask("create")
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            await write_segments(log, 61)
            await rewrite(log, 61)
            await check_whole(java, 61)
            check(await read(log, len(KEPT)), 61, KEPT)
            assert await java.count() == len(KEPT)
            counts = [segment["count"] for segment in await java.segments()]
            assert counts == [COUNT // 2, 0, 0, COUNT]
            writer = await java.open_writer()
            await writer.write(61, SEGMENTS * COUNT + 1, 5)
            await writer.close()
            more = [*KEPT, *range(SEGMENTS * COUNT + 1, SEGMENTS * COUNT + 6)]
            check(await java.read(len(more)), 61, more)
            check(await read(log, len(more)), 61, more)

    run(story)


async def merge(log: Log, seed: int) -> None:
    """Put what is kept of the first three segments into the third."""
    merging = await log.rewrite([1, 2, 3], merges=True)
    for txid in range(1, 3 * COUNT + 1):
        if is_kept(txid):
            await merging.append(3, txid, [payload(f"{seed}/{txid}")], SIZE)
    await merging.finish(3, None, b"index")
    await merging.commit()


def test_java_reads_and_owns_a_log_whose_oldest_segments_we_merged(
    place: Place, opener: Opener, name: str
) -> None:
    async def story() -> None:
        java = opener(name, STRICT)
        await java.ask("create")
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            await write_segments(log, 64)
            await merge(log, 64)
            await check_whole(java, 64)
            check(await read(log, len(KEPT)), 64, KEPT)
            assert await java.count() == len(KEPT)
            assert [(s["lssn"], s["count"]) for s in await java.segments()] == [
                (3, COUNT // 2), (4, COUNT),
            ]  # fmt: skip
            writer = await java.open_writer()
            await writer.write(64, SEGMENTS * COUNT + 1, 5)
            await writer.close()
            more = [*KEPT, *range(SEGMENTS * COUNT + 1, SEGMENTS * COUNT + 6)]
            check(await java.read(len(more)), 64, more)
            check(await read(log, len(more)), 64, more)

    run(story)


@pytest.mark.parametrize("at", [5, COUNT + 5, 2 * COUNT + 5, 3 * COUNT + 5])
def test_a_reader_of_javas_inside_a_merge_gives_nothing_twice(
    place: Place, opener: Opener, name: str, at: int
) -> None:
    """It reads the old ledgers on or fails as after a purge; opened again by txid it goes on."""

    async def story() -> None:
        java = opener(name, STRICT)
        await java.ask("create")
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            await write_segments(log, 65)
            reader = await java.open_reader()
            seen = await reader.read(at)
            await merge(log, 65)
            while seen[-1].txid < SEGMENTS * COUNT:
                answer = await reader.ask("next", count=1)
                seen += map(Seen.by_java, answer["records"])
                if "ended" in answer:
                    break
            else:
                await reader.close()
            txids = [record.txid for record in seen]
            assert txids == sorted(set(txids))
            assert set(txids) >= {txid for txid in KEPT if txid <= txids[-1]}, "nothing is skipped"
            rest = [txid for txid in KEPT if txid > txids[-1]]
            found = await java.read(len(rest), txid=txids[-1] + 1)
            assert [record.txid for record in found] == rest

    run(story)


@pytest.mark.parametrize("at", [5, COUNT, COUNT + 5])
def test_a_reader_of_javas_inside_reads_the_old_segments(
    place: Place, opener: Opener, name: str, at: int
) -> None:
    """It looks a segment up once: while the old ledgers are there, it misses nothing."""

    async def story() -> None:
        java = opener(name, STRICT)
        await java.ask("create")
        async with our_logs(place) as logs:
            log = await logs.open_log(name)
            await write_segments(log, 62)
            reader = await java.open_reader()
            seen = await reader.read(at)
            await rewrite(log, 62)
            seen += await reader.read(SEGMENTS * COUNT - at)
            check(seen, 62, range(1, SEGMENTS * COUNT + 1))
            await reader.close()
            await check_whole(java, 62)

    run(story)


def test_a_reader_of_javas_whose_ledgers_go_skips_nothing(
    place: Place, opener: Opener, name: str
) -> None:
    """It reads on while bookies have the entries, then fails; opened again by txid it goes on."""

    async def story() -> None:
        java = opener(name, STRICT)
        await java.ask("create")
        async with our_logs(place, delete_delay_ms=0) as logs:
            log = await logs.open_log(name)
            await write_segments(log, 63)
            reader = await java.open_reader()
            seen = await reader.read(5)
            await rewrite(log, 63)
            assert await log.upkeep.trimmer.collect() == 3
            answer = await reader.ask("next", count=COUNT)
            seen += map(Seen.by_java, answer["records"])
            check(seen, 63, range(1, len(seen) + 1))
            if "ended" not in answer:
                await reader.close()
            rest = [txid for txid in KEPT if txid > seen[-1].txid]
            found = await java.read(len(rest), txid=seen[-1].txid + 1)
            assert [record.txid for record in found] == rest

    run(story)
