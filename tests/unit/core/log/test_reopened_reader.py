"""Going on where another reader ended; the end of a log; whether a reader has all."""

from pathlib import Path

import pytest

from tailrace.core.errors import LogTruncated
from tailrace.core.log.log import Log
from tailrace.core.log.reader import LogReader
from tailrace.core.log.resume import BEGINNING, Place, Resume
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tests.unit.core.log.test_rewrite import kept, rewritten
from tests.unit.core.log.test_trimmer import DELAY_MS, with_segments
from tests.unit.core.log.world import Listener, World, run_world, txids_of, write


async def read_until(log: Log, txid: int) -> tuple[Place, Resume]:
    """Return where a reader stands that has had the records up to this one."""
    reader = await log.open_reader(INITIAL)
    given, last = BEGINNING, -1
    place = Place(INITIAL, log.segments.segments[0].ledger_id)
    while last < txid:
        (entry,) = await reader.read_entries(1)
        entry = entry.before(min(txid + 1 - entry.columns.txids[0], len(entry.slots)))
        given, last = given.moved_by(entry), entry.columns.txids[-1]
        place = Place(DLSN(entry.lssn, entry.entry_id, entry.slots[-1] + 1), entry.ledger_id)
    await reader.close()
    return place, given


async def rest(reader: LogReader) -> list[int]:
    found: list[int] = []
    while batch := await reader.read_entries(1 << 20):
        found += [txid for entry in batch for txid in entry.columns.txids]
    await reader.close()
    return found


@pytest.mark.parametrize("txid", [0, 5, 9, 10, 19, 29])
def test_it_gives_what_the_other_one_would_have(tmp_path: Path, txid: int) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        place, given = await read_until(log, txid)
        assert await rest(await log.reopen_reader(place, given)) == list(range(txid + 1, 30))
        await log.truncate(DLSN(3, 0, 0))
        fresh = await log.open_reader(place.dlsn)
        assert await rest(fresh) == [each for each in range(20, 30) if each > txid]
        again = await log.reopen_reader(place, given)
        assert await rest(again) == list(range(txid + 1, 30)), "truncation counts at the start"

    run_world(tmp_path, story)


@pytest.mark.parametrize("txid", [0, 5, 9, 10, 19, 29])
def test_in_another_ledger_it_goes_on_by_txid(tmp_path: Path, txid: int) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        place, given = await read_until(log, txid)
        await rewritten(log, [1, 2, 3])
        again = await log.reopen_reader(place, given)
        assert await rest(again) == [each for each in kept(30, [1, 2, 3]) if each > txid]

    run_world(tmp_path, story)


def test_purged_segment_is_an_error_unless_it_goes_on_behind_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        place, given = await read_until(log, 5)
        _, all_given = await read_until(log, 9)
        await log.purge_segments(2)
        world.clock.advance_ms(DELAY_MS)
        await log.upkeep.trimmer.collect()
        reader = await log.reopen_reader(place, given)
        with pytest.raises(LogTruncated):
            await reader.read_entries(1)
        await reader.close()
        behind = await log.reopen_reader(Place(DLSN(2, 0, 0), place.ledger_id), all_given)
        assert await rest(behind) == list(range(10, 30))

    run_world(tmp_path, story)


@pytest.mark.parametrize("is_own", [False, True])
def test_end_is_behind_what_is_confirmed(tmp_path: Path, is_own: bool) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        seen = log if is_own else await world.log()
        assert (await seen.end()).dlsn == INITIAL
        for txid in range(6):
            await write(writer, txid)
            await writer.commit()
            end = await seen.end()
            assert await txids_of(seen, end.dlsn) == []
            assert (await read_until(seen, txid))[0].dlsn <= end.dlsn
            if txid == 3:
                await writer.roll()
        await writer.close()
        assert (await seen.end()).dlsn == (await log.end()).dlsn

    run_world(tmp_path, story)


def test_reader_knows_whether_it_has_all(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 1)
        await write(writer, 2)
        reader = await log.open_reader(INITIAL)
        assert not reader.is_caught_up, "it has not begun"
        (entry,) = await reader.read_entries(1)
        assert not reader.is_caught_up
        (last,) = await reader.read_entries(1)
        assert reader.is_caught_up
        reader.give_back([last])
        assert not reader.is_caught_up
        assert await reader.read_entries(1) == [last]
        assert reader.is_caught_up
        assert entry.ledger_id == last.ledger_id == log.segments.segments[0].ledger_id
        await write(writer, 3)
        assert not reader.is_caught_up
        await reader.close()
        await writer.close()

    run_world(tmp_path, story)
