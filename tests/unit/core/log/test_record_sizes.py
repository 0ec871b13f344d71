"""Records above what every bookie takes: which segment has room for them, and what if none has."""

from pathlib import Path
from random import Random

import pytest

from tailrace.core.errors import CoreError, LogRecordTooLong, NotEnoughBookies
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.entry_limit import has_large_entries
from tailrace.core.log.config import RECORD_BYTES_LIMIT, RECORD_BYTES_MAX
from tailrace.core.log.log import Log
from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.store import MetadataStore
from tailrace.protocol.bookkeeper.entry import ENTRY_BYTES_LIMIT, MAX_ENTRY_BYTES
from tailrace.protocol.ids import BookieId
from tests.unit.core.log.world import Listener, World, put, read_all, run_world, settle, write

MIB = 1 << 20
LARGE = 6 * MIB


class Frames(LocalBookies):
    """Bookies whose largest frame changes when the test says so."""

    is_small = False

    def entry_bytes_max(self, bookie_id: BookieId) -> int:
        return MAX_ENTRY_BYTES if self.is_small else ENTRY_BYTES_LIMIT


def framed(world: World) -> Frames:
    """Let the world's bookies say what they take."""
    frames = Frames(world.bookies)

    def ledgers(store: MetadataStore | None = None) -> LedgerClient:
        return LedgerClient(store or world.store, frames, None, Random(7))

    vars(world)["ledgers"] = ledgers
    return frames


def put_large(writer: LogWriter, txid: int, size: int = LARGE) -> None:
    put(writer, txid, b"%d" % txid + bytes(size - len(b"%d" % txid)))


async def limits(world: World, log: Log) -> list[bool]:
    """Return of each segment whether it may have large entries."""
    await log.refresh()
    found = []
    for segment in log.segments:
        metadata = await world.ledgers().ledger_metadata(segment.ledger_id)
        found.append(has_large_entries(metadata.custom))
    return found


async def sizes(log: Log) -> list[tuple[int, int]]:
    return [(r.txid, len(r.payload)) for _, r in await read_all(log, max_bytes=1 << 30)]


def test_the_first_segment_is_made_for_what_the_log_takes(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        framed(world)
        log = await world.log()
        writer = await log.open_writer(Listener())
        with pytest.raises(LogRecordTooLong):
            put_large(writer, 0, RECORD_BYTES_MAX + 1)
        writer.take_records(RECORD_BYTES_LIMIT)
        put_large(writer, 0)
        await writer.flush()
        put_large(writer, 1, RECORD_BYTES_LIMIT)  # above log.waiting.bytes.max: one has room
        await writer.flush()
        with pytest.raises(LogRecordTooLong):
            put_large(writer, 2, RECORD_BYTES_LIMIT + 1)
        put_large(writer, 2, 10)
        await writer.close()
        assert await sizes(log) == [(0, LARGE), (1, RECORD_BYTES_LIMIT), (2, 10)]
        assert await limits(world, log) == [True]

    run_world(tmp_path, story)


def test_ordinary_logs_go_on_any_bookie(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        framed(world)
        log = await world.log()
        writer = await log.open_writer(Listener())
        writer.take_records(1_048_588)
        put_large(writer, 0, RECORD_BYTES_MAX)
        await writer.close()
        assert await limits(world, log) == [False]

    run_world(tmp_path, story)


def test_a_raised_limit_ends_the_segment_that_is_too_small(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        framed(world)
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        writer.take_records(LARGE)
        with pytest.raises(NotEnoughBookies, match=f"take records of {RECORD_BYTES_MAX}"):
            put_large(writer, 1)  # the next segment is on its way
        put_large(writer, 1, 10)  # what fits is not held up
        await writer.commit()
        put_large(writer, 2)
        await writer.close()
        assert await sizes(log) == [(0, 2), (1, 10), (2, LARGE)]
        assert await limits(world, log) == [False, True]

    run_world(tmp_path, story)


def test_a_limit_that_falls_keeps_room_for_what_was_taken(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        framed(world)
        log = await world.log()
        writer = await log.open_writer(Listener())
        writer.take_records(LARGE)
        await write(writer, 0)
        put_large(writer, 1)
        writer.take_records(1000)
        with pytest.raises(LogRecordTooLong):
            put_large(writer, 2)
        await writer.roll()
        put_large(writer, 2, 10)
        await writer.close()
        assert await sizes(log) == [(0, 2), (1, LARGE), (2, 10)]

    run_world(tmp_path, story)


def test_ordinary_records_go_on_while_there_is_no_bookie_for_large_ones(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        frames = framed(world)
        frames.is_small = True
        log = await world.log()
        writer = await log.open_writer(Listener())
        writer.take_records(LARGE)
        await write(writer, 0, 1)
        for _ in range(2):
            with pytest.raises(NotEnoughBookies):
                put_large(writer, 2)
            await writer._chain.settled()
        await write(writer, 2)
        frames.is_small = False
        world.clock.advance_ms(60_000)
        with pytest.raises(NotEnoughBookies):
            put_large(writer, 3)  # and now one is begun
        await writer._chain.settled()
        put_large(writer, 3)
        await writer.close()
        assert await sizes(log) == [(0, 2), (1, 2), (2, 2), (3, LARGE)]
        assert await limits(world, log) == [False, True]

    run_world(tmp_path, story)


def test_a_large_record_that_waits_for_its_first_segment_is_given_back(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        frames = framed(world)
        frames.is_small = True
        log = await world.log()
        listener = Listener()
        writer = await log.open_writer(listener)
        refused: list[CoreError] = []
        writer.on_refused = refused.append
        writer.take_records(LARGE)
        put_large(writer, 0)
        await settle(200)
        await writer._chain.settled()
        assert [type(error) for error in refused] == [NotEnoughBookies]
        world.clock.advance_ms(60_000)
        await write(writer, 0)
        await writer.close()
        assert await sizes(log) == [(0, 2)]
        assert listener.errors == []

    run_world(tmp_path, story)


def test_what_a_dead_owner_prepared_is_made_anew_if_it_is_too_small(tmp_path: Path) -> None:
    """An owner makes the next ledger while it recovers, before anybody says what it must take."""

    async def story(world: World) -> None:
        framed(world)
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 0)
        await writer.abort()
        before = await world.ledger_ids()
        again = await world.log(client_id="next")
        writer = await again.open_writer(Listener())
        writer.take_records(LARGE)
        put_large(writer, 1)
        await writer.close()
        assert await limits(world, again) == [False, True]
        assert await sizes(again) == [(0, 2), (1, LARGE)]
        assert len(await world.ledger_ids() - before) == 1, "no ledger is left that nobody names"

    run_world(tmp_path, story)
