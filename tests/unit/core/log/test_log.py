"""One log as its users see it: write, read, roll, reopen, truncate."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tailrace.core.errors import (
    LogRecordTooLong,
    LogTruncated,
    OwnershipLost,
    TransactionIdOutOfOrder,
    Unavailable,
)
from tailrace.core.log.log import Log
from tailrace.core.log.reader import LogReader
from tailrace.core.metadata.store import Node, Watch
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tests.unit.core.log.world import (
    Listener,
    RecordState,
    World,
    put,
    read_all,
    run_world,
    settle,
    txids_of,
    write,
)


def test_what_was_confirmed_is_read_in_order(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener)
        assert (writer.last_txid, writer.lssn) == (-999, 1)
        await write(writer, *range(100))
        assert (listener.last, writer.confirmed_txid) == (99, 99)
        assert await txids_of(log) == list(range(100))
        await writer.close()
        assert await txids_of(log) == list(range(100))
        assert await txids_of(await world.log()) == list(range(100))  # another process

    run_world(tmp_path, story)


async def until_control(log: Log) -> None:
    """Wait until the last confirmed entry is a control record."""
    assert log.writer is not None
    segment = log.writer._chain.current
    assert segment is not None
    while not (segment.is_published and segment.is_confirmed):
        await log.tail_moved(log.tail_version)


def test_worked_trace_of_the_reference(tmp_path: Path) -> None:
    """reference DistributedLog 15.3, with the values that it gives."""

    async def story(world: World) -> None:
        root = "/distributedlog/tailrace/s/<default>"
        log = await world.log(control_flush_ms=1)
        for _ in range(10):  # ledger ids begin at 10
            await world.store.create("/ledgers/idgen/ID-", ephemeral=True, sequential=True)
        writer = await log.open_writer(Listener())
        tree = await world.dump(root)
        assert tree[f"{root}/maxtxid"] == b"0"
        assert tree[f"{root}/ledgers"] == b"0"
        assert tree[f"{root}/allocation"] == b""
        assert tree[f"{root}/version"] == b"\xff\xff\xff\xff"
        assert [p for p in tree if "/lock/member_tailrace_s" in p]

        await write(writer, 1)
        await until_control(log)
        first = f"{root}/ledgers/inprogress_000000000000000001"
        assert (await world.store.get(first)).data == b"5;10;1;1;0;0;-1"
        assert (await world.store.get(f"{root}/ledgers")).data == b"1"
        assert (await world.store.get(f"{root}/allocation")).data == b""
        await write(writer, 2)
        await until_control(log)
        await write(writer, 3)
        await writer.roll()
        tree = await world.dump(root)
        second = f"{root}/ledgers/inprogress_000000000000000002"
        done = f"{root}/ledgers/logrecs_000000000000000001"
        now = world.clock.now_ms()
        assert tree[second] == b"5;11;3;2;0;0;-1"
        assert tree[done] == b"12884901893;10;1;3;%d;1;4;0;0;0;0" % now
        assert first not in tree
        assert (tree[f"{root}/ledgers"], tree[f"{root}/maxtxid"]) == (b"2", b"3")
        await write(writer, 4)
        found = await read_all(log)
        assert [dlsn for dlsn, _ in found] == [
            DLSN(1, 0, 0), DLSN(1, 2, 0), DLSN(1, 4, 0), DLSN(2, 1, 0),
        ]  # fmt: skip
        assert [record.position for _, record in found] == [1, 2, 3, 1]
        await writer.close()

    run_world(tmp_path, story)


def test_records_of_one_turn_share_an_entry(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 1, 2, 3)
        await write(writer, 4)
        assert [d for d, _ in await read_all(log)] == [
            DLSN(1, 0, 0), DLSN(1, 0, 1), DLSN(1, 0, 2), DLSN(1, 1, 0),
        ]  # fmt: skip
        await writer.close()

    run_world(tmp_path, story)


def test_append_refuses_without_taking(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log(record_bytes_max=100)
        writer = await log.open_writer(Listener())
        await write(writer, 5)
        for txid in (4, -1, 2**63 - 1):
            with pytest.raises(TransactionIdOutOfOrder):
                put(writer, txid)
        with pytest.raises(LogRecordTooLong):
            put(writer, 6, b"x" * 101)
        await write(writer, 5, 6)  # equal is allowed
        assert await txids_of(log) == [5, 5, 6]
        await writer.close()
        with pytest.raises(Unavailable):
            put(writer, 7)

    run_world(tmp_path, story)


def test_second_owner_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        with pytest.raises(OwnershipLost):
            await log.open_writer(Listener())
        other = await world.log(client_id="other")
        with pytest.raises(OwnershipLost, match="tailrace"):
            await other.open_writer(Listener())
        await write(writer, 1)
        await writer.close()
        await writer.close()
        second = await other.open_writer(Listener())
        assert (second.last_txid, second.lssn) == (1, 2)
        await write(second, 2)
        await second.close()
        assert await txids_of(log) == [1, 2]

    run_world(tmp_path, story)


def test_state_is_restored_from_one_entry_after_a_clean_end(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        state = RecordState()
        writer = await log.open_writer(Listener(), state)
        await write(writer, 1, 2, 3)
        await writer.roll()
        await write(writer, 4, 5)
        await writer.close()
        again = RecordState()
        writer = await (await world.log()).open_writer(Listener(), again)
        assert (again.txids, again.replayed) == ([1, 2, 3, 4, 5], 0)
        await writer.close()
        index = await log.read_index(1)
        assert index is not None
        assert [txid for *_, txid in json.loads(index)[2]] == [1, 2, 3]

    run_world(tmp_path, story)


@pytest.mark.parametrize("padding", [0, 2_500_000])
def test_state_is_restored_from_snapshot_and_records_after_a_crash(
    tmp_path: Path, padding: int
) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener(), RecordState(padding))
        await write(writer, 1, 2, 3)
        await writer.roll()
        await write(writer, 4, 5)
        await world.restart_store()
        again = RecordState(padding)
        log = await world.log()
        writer = await log.open_writer(Listener(), again)
        assert (again.txids, again.replayed) == ([1, 2, 3, 4, 5], 2)
        assert (writer.last_txid, writer.lssn) == (5, 3)
        await write(writer, 6)
        await writer.close()
        assert await txids_of(log) == [1, 2, 3, 4, 5, 6]
        last = RecordState(padding)
        writer = await log.open_writer(Listener(), last)
        assert (last.txids, last.replayed) == ([1, 2, 3, 4, 5, 6], 0)
        await writer.abort()

    run_world(tmp_path, story)


async def drain(reader: LogReader) -> None:
    while await reader.read(1):
        pass


def test_truncate_and_purge(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        for first in range(0, 40, 10):
            await write(writer, *range(first, first + 10))
            await writer.roll()
        assert [s.lssn for s in log.segments] == [1, 2, 3, 4, 5]
        at = await log.locate(15)
        assert at is not None
        await log.truncate(at)
        assert await txids_of(log) == list(range(15, 40))
        assert await txids_of(await world.log(client_id="b")) == list(range(15, 40))
        assert await log.locate(3) == at
        reader = await log.open_reader(INITIAL)
        assert (await reader.read(1))[0].record.txid == 15
        purged = await log.purge_segments(99)
        assert [s.lssn for s in purged] == [1, 2, 3]
        assert await txids_of(log) == list(range(30, 40))
        with pytest.raises(LogTruncated):
            await drain(reader)
        await reader.close()
        await writer.close()
        assert [s.lssn for s in await log.purge_segments(99)] == [4]
        assert await txids_of(await world.log()) == []  # what is left has no records

    run_world(tmp_path, story)


async def log_of_five_segments(world: World) -> Log:
    """A log as a new process opens it; each segment has a record."""
    writer = await (await world.log()).open_writer(Listener())
    for txid in range(5):
        await write(writer, txid)
        await writer.roll()
    await writer.close()
    return await world.log(client_id="b")


def test_readers_keep_all_segments_while_their_process_takes_the_log_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner needs the last ones only; readers may be in any."""

    async def story(world: World) -> None:
        log = await log_of_five_segments(world)
        await log.refresh()
        get_all, seen = world.store.get_all, []

        async def get_all_seen(paths: Sequence[str]) -> list[Node | None]:
            found = await get_all(paths)
            seen.append(log.segments.segments[0].lssn)
            return found

        monkeypatch.setattr(world.store, "get_all", get_all_seen)
        await (await log.open_writer(Listener())).close()
        assert set(seen) == {1}

    run_world(tmp_path, story)


def test_a_list_that_is_read_while_the_log_is_taken_over_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: World) -> None:
        log = await log_of_five_segments(world)
        children, is_owned = world.store.children, asyncio.Event()

        async def children_late(path: str, watch: Watch | None = None) -> list[str]:
            found = await children(path, watch)
            if asyncio.current_task() is reading:
                await is_owned.wait()
            return found

        monkeypatch.setattr(world.store, "children", children_late)
        reading = asyncio.get_running_loop().create_task(log.refresh())
        writer = await log.open_writer(Listener())
        is_owned.set()
        await reading
        assert [segment.lssn for segment in log.segments] == [1, 2, 3, 4, 5, 6]
        await writer.close()

    run_world(tmp_path, story)


def test_locate(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener(), RecordState())
        assert await log.locate(0) is None
        for txid in range(10, 400, 10):
            await write(writer, txid)
            if txid % 130 == 0:
                await writer.roll()
        where = {record.txid: dlsn for dlsn, record in await read_all(log)}
        for txid in range(402):
            target = -(-txid // 10) * 10
            expected = where.get(max(target, 10))
            assert await log.locate(txid) == expected
            if expected is not None:
                for back in (0, 20, 70):
                    hint = where.get(max(target, 10) - back)
                    assert await log.locate(txid, hint) == expected
        await writer.close()
        await settle()

    run_world(tmp_path, story)
