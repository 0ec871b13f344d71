"""A log while no bookie takes a new ledger: taken over and read; records are refused, until."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tailrace.core.errors import CoreError, NotEnoughBookies, WriteCancelled
from tailrace.core.log.config import LogConfig
from tailrace.core.log.rolling import FIRST_RETRY_S
from tailrace.core.log.writer import LogWriter
from tests.unit.core.log.full_disk import Disk
from tests.unit.core.log.world import (
    QUIET,
    Listener,
    RecordState,
    World,
    put,
    run_world,
    settle,
    txids_of,
    write,
)


class Owner:
    """Who writes a log, and hears what becomes of it."""

    def __init__(self) -> None:
        self.listener = Listener()
        self.state = RecordState()
        self.refused: list[CoreError] = []
        self._moved = asyncio.Event()

    def on_refused(self, error: CoreError) -> None:
        self.refused.append(error)
        self._moved.set()

    async def heard(self, refusals: int) -> None:
        """Wait until so many are heard of, and see that no other comes."""
        while len(self.refused) < refusals:
            self._moved.clear()
            await self._moved.wait()
        await settle()
        assert len(self.refused) == refusals

    async def open(self, world: World) -> LogWriter:
        self.log = await world.log()
        writer = await self.log.open_writer(self.listener, self.state)
        writer.on_refused = self.on_refused
        return writer


async def written(world: World, end: Callable[[LogWriter], object]) -> None:
    """A log with records 1 and 2, whose owner ends it so."""
    writer = await Owner().open(world)
    await write(writer, 1, 2)
    await end(writer)  # type: ignore[misc]


@pytest.mark.parametrize("end", [LogWriter.close, LogWriter.abort])
@pytest.mark.parametrize("bookies", [1, 3])
def test_a_full_log_is_taken_over_read_and_written_once_there_is_room(
    tmp_path: Path, end: Callable[[LogWriter], object], bookies: int
) -> None:
    async def story(world: World) -> None:
        disk = Disk(world)
        await written(world, end)
        disk.fill()
        owner = Owner()
        writer = await owner.open(world)
        assert owner.state.txids == [1, 2]
        assert await txids_of(owner.log) == [1, 2]
        lssn = writer.lssn
        put(writer, 3)
        put(writer, 4)
        await owner.heard(1)
        assert [type(error) for error in owner.refused] == [NotEnoughBookies]
        assert writer.last_txid == writer.confirmed_txid == 2
        given_up = owner.log._context.metrics.rolls_given_up_total
        disk.free()
        put(writer, 3)
        await owner.heard(2)  # the next attempt is not due yet
        assert owner.log._context.metrics.rolls_given_up_total == given_up
        world.clock.advance_ms(round(FIRST_RETRY_S * 1000))
        await write(writer, 3)
        assert len(owner.refused) == 2
        assert owner.listener.errors == []
        assert owner.listener.confirmed == [3]
        assert writer.lssn == lssn == owner.log.segments.segments[-1].lssn
        await writer.close()
        assert await txids_of(await world.log()) == [1, 2, 3]
        again = Owner()
        await (await again.open(world)).abort()
        assert again.state.txids == [1, 2, 3]

    config = LogConfig(
        control_flush_ms=0, lock_timeout_s=0, ensemble_size=bookies, write_quorum=bookies,
        ack_quorum=bookies // 2 + 1,
    )  # fmt: skip
    run_world(tmp_path, story, bookies, config)


def test_each_pause_brings_one_attempt_and_all_of_them_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(world: World) -> None:
        disk = Disk(world)
        disk.fill()
        owner = Owner()
        writer = await owner.open(world)
        for attempt in range(1, 4):
            for record in range(1, 6):
                put(writer, 0)
                await owner.heard(5 * attempt - 5 + record)
            assert owner.log._context.metrics.rolls_given_up_total == attempt
            world.clock.advance_ms(round(FIRST_RETRY_S * 1000))
        assert not owner.log.segments
        assert caplog.text.count("roll_given_up") == 1
        disk.free()
        await write(writer, 3)
        disk.fill()
        await writer.roll()
        assert caplog.text.count("roll_given_up") == 2, "there was a ledger meanwhile"
        disk.free()
        await writer.close()
        assert owner.listener.errors == []

    run_world(tmp_path, story)
    assert "roll_given_up log=/distributedlog/tailrace/s " in caplog.text


def test_records_that_come_meanwhile_are_refused_with_the_others(tmp_path: Path) -> None:
    """By a policy that sends from inside of `append`, too."""

    async def story(world: World) -> None:
        Disk(world).fill()
        owner = Owner()
        writer = await owner.open(world)
        put(writer, 0)
        await owner.heard(1)
        for txid in range(4):
            put(writer, txid)
        assert len(owner.refused) == 1, "not before append has returned"
        await owner.heard(2)
        assert writer.waiting_bytes == 0
        assert writer.last_txid == writer.confirmed_txid
        await writer.abort()

    run_world(tmp_path, story, config=LogConfig(transmit_buffer_bytes=1, lock_timeout_s=0))


def test_who_waits_for_a_position_is_told(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        disk = Disk(world)
        disk.fill()
        writer = await Owner().open(world)
        writer.set_outstanding_limit(1)
        with pytest.raises(WriteCancelled):
            await writer.write(0, b"r0")
        with pytest.raises(WriteCancelled):
            await writer.write(0, b"r0")  # there is room for one again
        disk.free()
        world.clock.advance_ms(round(FIRST_RETRY_S * 1000))
        assert (await writer.write(0, b"r0")).lssn == 1
        await writer.close()

    run_world(tmp_path, story)


@pytest.mark.parametrize("tried_before", [False, True])
def test_what_must_be_written_still_fails(tmp_path: Path, *, tried_before: bool) -> None:
    """The end of the stream, what waits at a close, and owners that hear of no refusals."""

    async def story(world: World) -> None:
        Disk(world).fill()

        async def opened() -> tuple[Owner, LogWriter]:
            owner = Owner()
            writer = await owner.open(world)
            if tried_before:
                put(writer, 0)
                await owner.heard(1)
            return owner, writer

        owner, writer = await opened()
        with pytest.raises(NotEnoughBookies):
            await writer.mark_end_of_stream()
        assert len(owner.listener.errors) == 1
        owner, writer = await opened()
        put(writer, 0)
        with pytest.raises(NotEnoughBookies):
            await writer.close()
        owner, writer = await opened()
        writer.on_refused = None
        with pytest.raises(WriteCancelled):
            await writer.write(0, b"r0")
        assert [type(error) for error in owner.listener.errors] == [NotEnoughBookies]
        await writer.abort()

    run_world(tmp_path, story, config=QUIET)
