import asyncio
from pathlib import Path

import pytest

from tailrace.core.errors import BookieUnavailable, CorruptData, EntryNotFound, LedgerNotFound
from tailrace.core.ledger.outcomes import add_error_of, error_of, worse
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.protocol.bookkeeper.digest import Digest, DigestType, ledger_master_key
from tailrace.protocol.bookkeeper.entry import pack_lac
from tailrace.protocol.bookkeeper.messages import ReadRequest, StatusCode, WriteLacRequest
from tests.unit.core.ledger.fake_bookie import DOWN, SILENT, FakeBookie
from tests.unit.core.ledger.world import REPLICATED, SINGLE, Listener, World, run_world, settle


async def written(world: World, count: int = 6) -> LedgerWriter:
    writer = await world.client.create_ledger(REPLICATED, Listener())
    for i in range(count):
        writer.add((b"%d" % i,))
    await writer.close()
    await settle()
    return writer


def reads_of(bookie: FakeBookie) -> list[int]:
    return [r.entry_id for r in bookie.requests if isinstance(r, ReadRequest)]


def test_reads_spread_over_the_write_sets(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await written(world)
        reader = await world.client.open_ledger(writer.ledger_id, recover=False)
        await reader.read(0, 5)
        assert [reads_of(b) for b in world.ensemble(writer)] == [[0, 3], [1, 4], [2, 5]]

    run_world(tmp_path, story)


def test_next_replica_is_asked_when_one_fails(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await written(world)
        first, second, third = world.ensemble(writer)
        reader = await world.client.open_ledger(writer.ledger_id, recover=False)
        first.fault = DOWN
        del second.ledgers[writer.ledger_id].entries[4]
        third.flip_bit(writer.ledger_id, 2)
        entries = await reader.read(0, 5)
        assert [bytes(e.payload) for e in entries] == [b"%d" % i for i in range(6)]

    run_world(tmp_path, story)


def test_wrong_entry_under_the_right_number_is_passed_over(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await written(world)
        entries = world.ensemble(writer)[0].ledgers[writer.ledger_id].entries
        entries[0] = entries[1]
        reader = await world.client.open_ledger(writer.ledger_id, recover=False)
        assert bytes((await reader.read(0, 0))[0].payload) == b"0"

    run_world(tmp_path, story)


def test_not_found_is_said_only_when_all_say_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await written(world)
        reader = await world.client.open_ledger(writer.ledger_id, recover=False)
        ledgers = [bookie.ledgers[writer.ledger_id] for bookie in world.ensemble(writer)]
        for ledger in ledgers:
            del ledger.entries[0]
        with pytest.raises(EntryNotFound):
            await reader.read(0, 3)
        world.ensemble(writer)[1].fault = SILENT
        with pytest.raises(BookieUnavailable):
            await reader.read(0, 0)
        world.ensemble(writer)[2].flip_bit(writer.ledger_id, 3)
        for ledger in (ledgers[0], ledgers[1]):
            del ledger.entries[3]
        with pytest.raises(CorruptData):
            await reader.read(3, 3)

    run_world(tmp_path, story)


def test_range_reads_stay_within_the_window(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await written(world, count=30)
        reader = await world.client.open_ledger(writer.ledger_id, recover=False)
        for bookie in world.bookies:
            bookie.hold()
        read = asyncio.get_running_loop().create_task(reader.read(0, 29))
        await settle()
        assert sum(bookie.held_count for bookie in world.bookies) == 4
        for bookie in world.bookies:
            bookie.release()
        assert len(await read) == 30

    run_world(tmp_path, story)


def test_cancelled_read_ignores_what_comes_later(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await written(world)
        reader = await world.client.open_ledger(writer.ledger_id, recover=False)
        for bookie in world.bookies:
            bookie.hold()
        read = asyncio.get_running_loop().create_task(reader.read(0, 5))
        await settle()
        read.cancel()
        await settle()
        for bookie in world.bookies:
            bookie.release()
        await settle()
        assert read.cancelled()
        assert len(await reader.read(0, 5)) == 6

    run_world(tmp_path, story)


def test_lac_needs_coverage(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(REPLICATED, Listener())
        for i in range(3):
            writer.add((b"%d" % i,))
            await writer._adder.drained()
        first, second, _ = world.ensemble(writer)
        first.fault = DOWN
        reader = await world.client.open_ledger(writer.ledger_id, recover=False)
        assert reader.last_confirmed == 1
        second.flip_bit(writer.ledger_id, 2)  # its last entry says nothing now
        with pytest.raises(BookieUnavailable):
            await reader.read_last_confirmed()
        first.fault = lambda request: None
        assert await reader.read_last_confirmed() == 1

    run_world(tmp_path, story)


def test_explicit_lac_is_believed_when_its_digest_is_right(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(SINGLE, Listener())
        (bookie,) = world.ensemble(writer)
        writer.add((b"only",))
        await writer._adder.drained()
        packet = pack_lac(writer.ledger_id, 0, Digest(DigestType.CRC32))
        request = WriteLacRequest(writer.ledger_id, 0, ledger_master_key(b""), packet)
        bookie.submit(request, lambda response: None)
        await settle()
        reader = await world.client.open_ledger(writer.ledger_id, recover=False)
        assert reader.last_confirmed == 0
        bookie.ledgers[writer.ledger_id].explicit_lac = packet[:-1] + b"?"
        with pytest.raises(BookieUnavailable):
            await world.client.open_ledger(writer.ledger_id, recover=False)

    run_world(tmp_path, story)


def test_ledger_deleted_under_its_reader(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await written(world)
        reader = await world.client.open_ledger(writer.ledger_id, recover=False)
        await world.client.delete_ledger(writer.ledger_id)
        with pytest.raises(LedgerNotFound):
            await reader.read_last_confirmed()
        assert len(await reader.read(0, 5)) == 6

    run_world(tmp_path, story)


def test_bookie_that_nobody_knows_any_more(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await written(world)
        for bookie in world.ensemble(writer)[:2]:
            world.bookies.remove(bookie)
        reader = await world.new_client().open_ledger(writer.ledger_id, recover=False)
        assert len(await reader.read(0, 5)) == 6

    run_world(tmp_path, story)


def test_error_that_says_most_wins() -> None:
    absent, gone, broken = (
        error_of(status, "read")
        for status in (StatusCode.ENOENTRY, StatusCode.LOCAL_TIMEOUT, StatusCode.EIO)
    )
    assert worse(None, absent) is absent
    assert worse(absent, gone) is worse(gone, absent) is gone
    assert worse(gone, broken) is worse(broken, gone) is broken
    assert worse(broken, error_of(StatusCode.EBADREQ, "read")) is broken
    for status in StatusCode:
        if status is not StatusCode.EOK:
            assert status.name in str(error_of(status, "x"))
            assert status.name in str(add_error_of(status, "x"))
