"""Ranges read by batches: the same entries and errors as entry by entry, in fewer requests."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from tailrace.core.errors import CoreError
from tailrace.core.ledger import batch_read
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.protocol.bookkeeper.messages import BatchReadRequest, ReadRequest, StatusCode
from tailrace.protocol.ids import LedgerId
from tests.unit.core.ledger.fake_bookie import DOWN, FakeBookie, no_fault
from tests.unit.core.ledger.world import (
    REPLICATED,
    SINGLE,
    STRIPED,
    Listener,
    World,
    run_world,
    settle,
)


async def written(world: World, config: LedgerConfig, count: int) -> LedgerWriter:
    writer = await world.client.create_ledger(config, Listener())
    for i in range(count):
        writer.add((b"%d" % i * 9,))
    await writer.close()
    await settle()
    for bookie in world.bookies:
        bookie.requests.clear()
    return writer


async def outcome(world: World, writer: LedgerWriter, first: int, last: int) -> object:
    reader = await world.client.open_ledger(writer.ledger_id, recover=False)
    try:
        return [bytes(entry.payload) for entry in await reader.read(first, last)]
    except CoreError as error:
        return type(error)


def read_batches(world: World, *, bytes_max: int = 1 << 20) -> None:
    for bookie in world.bookies:
        bookie.reads_batches = True
        bookie.batch_bytes_max = bytes_max


def firsts_of(bookie: FakeBookie) -> list[int]:
    return [r.entry_id for r in bookie.requests if isinstance(r, BatchReadRequest)]


def test_one_request_for_a_range_more_for_a_long_one(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await written(world, SINGLE, 10)
        (bookie,) = world.ensemble(writer)
        read_batches(world)
        assert await outcome(world, writer, 2, 9) == [b"%d" % i * 9 for i in range(2, 10)]
        (asked,) = bookie.requests
        assert isinstance(asked, BatchReadRequest)
        assert (asked.entry_id, asked.count_max) == (2, 8)
        bookie.requests.clear()
        read_batches(world, bytes_max=100)  # three entries in each answer
        assert await outcome(world, writer, 0, 9) == [b"%d" % i * 9 for i in range(10)]
        assert firsts_of(bookie) == [0, 3, 6, 9]
        bookie.requests.clear()
        assert await outcome(world, writer, 4, 4) == [b"4" * 9]
        assert [type(request) for request in bookie.requests] == [ReadRequest]

    run_world(tmp_path, story)


def test_a_few_batches_of_a_range_are_on_their_way_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are made to hold `BATCH_BYTES`, by the entries' average."""
    monkeypatch.setattr(batch_read, "BATCH_BYTES", 20)  # two entries of 9 bytes and a bit

    async def story(world: World) -> None:
        writer = await written(world, SINGLE, 20)
        (bookie,) = world.ensemble(writer)
        read_batches(world)
        reader = await world.client.open_ledger(writer.ledger_id, recover=False)
        bookie.hold()
        reading = asyncio.get_running_loop().create_task(reader.read(1, 19))
        await settle()
        assert firsts_of(bookie) == [1, 3, 5, 7]
        bookie.release(2)
        await settle()
        assert firsts_of(bookie) == [1, 3, 5, 7, 9, 11]
        bookie.batch_bytes_max = 1  # one entry in each answer
        bookie.release()
        payloads = [bytes(entry.payload) for entry in await reading]
        assert payloads == [b"%d" % i * 9 for i in range(1, 20)]
        assert sorted(firsts_of(bookie)) == [1, 3, *range(5, 20)]

    run_world(tmp_path, story)


def test_a_batch_of_small_entries_is_bounded_in_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bookie that seeks for each entry must answer before its silence counts against it."""
    monkeypatch.setattr(batch_read, "BATCH_ENTRIES", 4)

    async def story(world: World) -> None:
        writer = await written(world, SINGLE, 20)
        (bookie,) = world.ensemble(writer)
        read_batches(world)
        assert await outcome(world, writer, 1, 19) == [b"%d" % i * 9 for i in range(1, 20)]
        asked = [r for r in bookie.requests if isinstance(r, BatchReadRequest)]
        counts = [(request.entry_id, request.count_max) for request in asked]
        assert counts == [(1, 4), (5, 4), (9, 4), (13, 4), (17, 3)]

    run_world(tmp_path, story)


def test_ranges_are_read_from_the_bookies_in_turn(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await written(world, REPLICATED, 6)
        read_batches(world)
        for first in range(3):
            found = await outcome(world, writer, first, 5)
            assert found == [b"%d" % i * 9 for i in range(first, 6)]
        assert [len(bookie.requests) for bookie in world.bookies] == [1, 1, 1]

    run_world(tmp_path, story)


def test_a_striped_ledger_is_read_entry_by_entry(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await written(world, STRIPED, 6)
        read_batches(world)
        assert await outcome(world, writer, 0, 5) == [b"%d" % i * 9 for i in range(6)]
        asked = [type(request) for bookie in world.bookies for request in bookie.requests]
        assert asked == [ReadRequest] * 6

    run_world(tmp_path, story)


def spoil(bookie: FakeBookie, ledger_id: LedgerId, rng: Random) -> None:
    bookie.fault = DOWN if rng.random() < 0.2 else no_fault
    for entry_id in range(12):
        match rng.randrange(12):
            case 0:
                del bookie.ledgers[ledger_id].entries[entry_id]
            case 1:
                bookie.flip_bit(ledger_id, entry_id)


@pytest.mark.parametrize("seed", range(25))
def test_whatever_is_wrong_the_outcome_is_that_of_single_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = Random(seed)
    monkeypatch.setattr(batch_read, "BATCH_BYTES", rng.choice([1, 30, 1 << 20]))

    async def story(world: World) -> None:
        writer = await written(world, rng.choice([SINGLE, REPLICATED]), 12)
        for bookie in world.ensemble(writer):
            spoil(bookie, writer.ledger_id, rng)
        for _ in range(8):
            first = rng.randrange(12)
            last = rng.randrange(first, 12)
            read_batches(world, bytes_max=rng.choice([1, 100, 1000]))
            by_batches = await outcome(world, writer, first, last)
            for bookie in world.bookies:
                bookie.reads_batches = False
            one_by_one = await outcome(world, writer, first, last)
            if isinstance(by_batches, list) or isinstance(one_by_one, list):
                assert by_batches == one_by_one
            else:  # which entry fails first is chance
                errors = [await outcome(world, writer, i, i) for i in range(first, last + 1)]
                assert by_batches in errors

    run_world(tmp_path, story)


def test_more_than_was_asked_for_and_other_answers_are_harmless(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await written(world, SINGLE, 10)
        (bookie,) = world.ensemble(writer)
        read_batches(world)
        serve = bookie._read_batch
        bookie._read_batch = lambda request: serve(request._replace(count_max=99))  # type: ignore[method-assign]
        assert await outcome(world, writer, 2, 4) == [b"%d" % i * 9 for i in range(2, 5)]
        bookie.fault = lambda request: (
            StatusCode.ETOOMANYREQUESTS if isinstance(request, BatchReadRequest) else None
        )
        assert await outcome(world, writer, 2, 4) == [b"%d" % i * 9 for i in range(2, 5)]
        bookie.fault = no_fault
        del bookie.ledgers[writer.ledger_id]
        gone = await outcome(world, writer, 2, 4)
        bookie.reads_batches = False
        assert gone == await outcome(world, writer, 2, 4)

    run_world(tmp_path, story)


def test_a_cancelled_batch_is_forgotten(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await written(world, SINGLE, 10)
        (bookie,) = world.ensemble(writer)
        read_batches(world)
        reader = await world.client.open_ledger(writer.ledger_id, recover=False)
        bookie.hold()
        reading = asyncio.get_running_loop().create_task(reader.read(0, 9))
        await settle()
        reading.cancel()
        await settle()
        bookie.release()
        await settle()
        assert reading.cancelled()
        assert len(bookie.requests) == 1
        assert len(await reader.read(0, 9)) == 10

    run_world(tmp_path, story)
