"""The next segment's ledger, made while the former owner's segment is recovered."""

import asyncio
from pathlib import Path

import pytest

from tailrace.core.errors import CorruptData, EndOfStream, NotEnoughBookies
from tailrace.core.log.log import Log
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.ledger_tree import ledger_ranges
from tailrace.protocol.distributedlog.record import LogRecord, end_of_stream_record
from tests.unit.core.log.test_recovery import foreign_segment, user
from tests.unit.core.log.world import Listener, World, put, run_world, settle, txids_of, write

PATHS = LogPaths("/distributedlog/tailrace", "s")


async def allocated(world: World) -> bytes:
    return (await world.store.get(PATHS.allocation)).data


async def ledgers(world: World) -> list[int]:
    """Every ledger that there is."""
    return [ledger async for ids in ledger_ranges(world.store) for ledger in ids]


async def died(world: World) -> Log:
    """A log whose owner died while it wrote; return it as its next owner sees it."""
    writer = await (await world.log()).open_writer(Listener())
    await write(writer, 1)
    await writer.abort()
    return await world.log()


def test_first_record_takes_the_prepared_ledger(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await died(world)
        writer = await log.open_writer(Listener())
        prepared = await allocated(world)
        assert prepared
        await write(writer, 2)
        last = log.segments.last
        assert last is not None
        assert (prepared, await allocated(world)) == (b"%d" % last.ledger_id, b"")
        await writer.roll()
        await write(writer, 3)
        await writer.close()
        assert await txids_of(log) == [1, 2, 3]
        assert len(await ledgers(world)) == len(log.segments) == 3

    run_world(tmp_path, story)


def test_the_old_ledger_is_recovered_and_the_next_one_made_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: World) -> None:
        log = await died(world)
        client, both = log._ledgers, asyncio.Barrier(2)

        def meets(name: str) -> None:
            work = getattr(client, name)

            async def meet(*arguments: object) -> object:
                await both.wait()  # for ever, if one is done before the other begins
                return await work(*arguments)

            monkeypatch.setattr(client, name, meet)

        meets("recover_ledger")
        meets("create_ledger")
        writer = await log.open_writer(Listener())
        await write(writer, 2)
        await writer.close()
        assert await txids_of(log) == [1, 2]

    run_world(tmp_path, story)


def test_nothing_is_prepared_for_a_log_that_rests(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await (await died(world)).open_writer(Listener())
        await writer.close()
        writer = await (await world.log()).open_writer(Listener())
        assert await allocated(world) == b""
        await writer.close()

    run_world(tmp_path, story)


def test_a_ledger_that_nobody_needed_is_given_back(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for clean in (True, False):
            await (await (await world.log()).open_writer(Listener())).close()
            writer = await (await died(world)).open_writer(Listener())
            left = await allocated(world)
            await (writer.close() if clean else writer.abort())
            assert await allocated(world) == (b"" if clean else left)
            assert (int(left) in await ledgers(world)) is not clean
        writer = await (await world.log()).open_writer(Listener())
        await write(writer, 2)
        assert int(left) not in await ledgers(world)  # the next owner deletes what a crash leaves
        await writer.close()

    run_world(tmp_path, story)


@pytest.mark.parametrize(
    ("record", "error"),
    [(end_of_stream_record(1), EndOfStream), (LogRecord(-999, b""), CorruptData)],
)
def test_a_log_that_cannot_be_opened_keeps_no_ledger(
    tmp_path: Path, record: LogRecord, error: type[Exception]
) -> None:
    async def story(world: World) -> None:
        log = await foreign_segment(world, [[user(1, 1)], [record]])
        with pytest.raises(error):
            await log.open_writer(Listener())
        assert await allocated(world) == b""
        assert len(await ledgers(world)) == 1

    run_world(tmp_path, story)


def test_without_enough_bookies_the_first_record_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: World) -> None:
        log = await died(world)
        ledgers_client = log._ledgers
        create = ledgers_client.create_ledger
        failures = [NotEnoughBookies("1 of 3")]

        async def flaky(*arguments: object) -> object:
            if failures:
                raise failures.pop()
            return await create(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(ledgers_client, "create_ledger", flaky)
        writer = await log.open_writer(Listener())
        assert await allocated(world) == b""
        put(writer, 2)
        await settle()
        await writer.close()
        assert await txids_of(log) == [1, 2]

    run_world(tmp_path, story)
