"""Reads while bookies are silent, slow, failing, lying or gone, in virtual time."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tailrace.core.errors import (
    BookieUnavailable,
    EntryNotFound,
    LedgerNotFound,
)
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig, LedgerConfig, ReadConfig
from tailrace.core.ledger.reader import LedgerReader
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.metadata.ledger_metadata import Fragment, LedgerMetadata, encode_ledger
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.bookkeeper.messages import ReadRequest
from tailrace.protocol.ids import LedgerId
from tests.unit.core.ledger.fake_bookie import DOWN, SILENT, FakeBookie, no_fault
from tests.unit.core.ledger.fast_world import FastWorld, run_fast
from tests.unit.core.ledger.world import REPLICATED, STRIPED, Listener, settle


async def written(
    world: FastWorld, count: int = 6, config: LedgerConfig = REPLICATED, *, is_closed: bool = True
) -> LedgerWriter:
    writer = await world.client.create_ledger(config, Listener())
    for i in range(count):
        writer.add((b"%d" % i,))
        if not is_closed:  # one by one, so that each tells that the one before is confirmed
            await writer._adder.drained()
    if is_closed:
        await writer.close()
    await settle()
    for bookie in world.bookies:
        bookie.requests.clear()
    return writer


async def opened(
    world: FastWorld, writer: LedgerWriter, **config: Any
) -> tuple[LedgerReader, LedgerClient]:
    read = ReadConfig(**config)
    client = LedgerClient(
        world.store,
        LocalBookies(world.bookies),
        LedgerClientConfig(read_window=4, read=read),
    )
    return await client.open_ledger(writer.ledger_id, recover=False), client


def reads_of(bookie: FakeBookie) -> list[int]:
    return [r.entry_id for r in bookie.requests if isinstance(r, ReadRequest)]


def payloads(entries: Sequence[Entry]) -> list[bytes]:
    return [bytes(entry.payload) for entry in entries]


def texts(first: int, last: int) -> list[bytes]:
    return [b"%d" % i for i in range(first, last + 1)]


def now_s() -> float:
    return asyncio.get_running_loop().time()


def test_next_replica_is_asked_when_the_first_is_silent() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        first, second, third = world.ensemble(writer)
        reader, client = await opened(world, writer)
        first.hold()
        start_s = now_s()
        assert payloads(await reader.read(0, 0)) == [b"0"]
        assert now_s() - start_s == pytest.approx(2.0)
        assert [reads_of(b) for b in (first, second, third)] == [[0], [0], []]
        assert client.metrics.speculative_reads_total == 1
        first.release()  # the late answer disturbs nobody
        await settle()
        assert payloads(await reader.read(0, 5)) == texts(0, 5)

    run_fast(story)


def test_pauses_grow_with_each_silent_replica() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        first, second, _ = world.ensemble(writer)
        reader, _ = await opened(world, writer, speculative_timeout_ms=1000)
        first.hold()
        second.hold()
        start_s = now_s()
        await reader.read(0, 0)
        assert now_s() - start_s == pytest.approx(1 + 2)

    run_fast(story)


def test_no_speculation_when_it_is_off() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        first, second, _ = world.ensemble(writer)
        reader, _ = await opened(world, writer, speculative_timeout_ms=0)
        first.hold()
        read = asyncio.get_running_loop().create_task(reader.read(0, 0))
        await asyncio.wait([read], timeout=1000)
        assert not read.done()
        assert reads_of(second) == []
        first.release()
        assert payloads(await read) == [b"0"]

    run_fast(story)


def test_replica_that_answers_others_is_waited_for() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        first, second, _ = world.ensemble(writer)
        reader, _ = await opened(world, writer)
        first.hold()
        read = asyncio.get_running_loop().create_task(reader.read(0, 3))
        await settle()
        first.release(1)  # entry 0; entry 3 is held back
        await asyncio.wait([read], timeout=1000)
        assert not read.done()
        assert reads_of(second) == [1]
        first.release()
        assert payloads(await read) == texts(0, 3)

    run_fast(story)


def test_silent_batches_are_given_up_for_reads_of_other_replicas() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        for bookie in world.bookies:
            bookie.reads_batches = True
        first, second, third = world.ensemble(writer)
        reader, client = await opened(world, writer)
        first.hold()
        start_s = now_s()
        assert payloads(await reader.read(0, 5)) == texts(0, 5)
        assert now_s() - start_s == pytest.approx(2.0)
        assert reads_of(first) == []
        assert sorted(reads_of(second) + reads_of(third)) == list(range(6))
        assert client.metrics.speculative_reads_total == 1
        start_s = now_s()
        assert payloads(await reader.read(0, 5)) == texts(0, 5)
        assert now_s() == start_s, "it is slow now, and asked last"
        first.release()  # the late answer disturbs nobody
        await settle()
        assert client.metrics.replica_failures_total == 0

    run_fast(story)


def test_batches_of_the_only_replica_are_waited_for() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, config=LedgerConfig())
        (only,) = world.ensemble(writer)
        only.reads_batches = True
        reader, _ = await opened(world, writer)
        only.hold()
        read = asyncio.get_running_loop().create_task(reader.read(0, 5))
        await asyncio.wait([read], timeout=1000)
        assert not read.done()
        only.release()
        assert payloads(await read) == texts(0, 5)
        assert reads_of(only) == []

    run_fast(story)


def test_a_range_waits_once_for_a_silent_replica() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 30)
        first, *_ = world.ensemble(writer)
        reader, client = await opened(world, writer)
        first.hold()
        start_s = now_s()
        assert payloads(await reader.read(0, 29)) == texts(0, 29)
        assert now_s() - start_s == pytest.approx(2.0)
        # It was asked until the window of 4 was full of it, and not again afterwards.
        assert reads_of(first) == [0, 3, 6, 9]
        assert client.metrics.speculative_reads_total == 4

    run_fast(story)


def test_slow_replica_is_asked_last_for_a_while() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        first, second, third = world.ensemble(writer)
        reader, client = await opened(world, writer)
        first.hold()
        await reader.read(0, 0)
        first.release()
        for bookie in world.bookies:
            bookie.requests.clear()
        assert payloads(await reader.read(0, 5)) == texts(0, 5)
        assert [reads_of(b) for b in (first, second, third)] == [[], [0, 1, 3, 4], [2, 5]]
        other = await client.open_ledger(writer.ledger_id, recover=False)
        await other.read(0, 0)
        assert reads_of(first) == [], "a client's readers learn from each other"
        await asyncio.sleep(60)
        await reader.read(0, 0)
        assert reads_of(first) == [0]

    run_fast(story)


def test_failing_replica_is_asked_last_for_a_while() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        first, second, _ = world.ensemble(writer)
        reader, _ = await opened(world, writer)
        first.fault = DOWN
        await reader.read(0, 0)
        await reader.read(0, 0)
        assert [reads_of(b) for b in (first, second)] == [[0], [0, 0]]
        unordered, _ = await opened(world, writer, reorder=False)
        await unordered.read(0, 0)
        await unordered.read(0, 0)
        assert reads_of(first) == [0, 0, 0]

    run_fast(story)


def test_observed_latency_counts() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        first, *_ = world.ensemble(writer)
        reader, _ = await opened(world, writer)
        await reader.read(1, 1)  # another replica is quick
        first.hold()
        read = asyncio.get_running_loop().create_task(reader.read(0, 0))
        await asyncio.wait([read], timeout=0.5)
        first.release()
        await read
        await reader.read(0, 0)
        assert reads_of(first) == [0]

    run_fast(story)


def test_wrong_bytes_are_a_failed_replica() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        first, second, third = world.ensemble(writer)
        reader, client = await opened(world, writer)
        first.flip_bit(writer.ledger_id, 0)
        second.hold()
        start_s = now_s()
        assert payloads(await reader.read(0, 0)) == [b"0"]
        assert now_s() - start_s == pytest.approx(2.0)
        assert [reads_of(b) for b in (first, second, third)] == [[0], [0], [0]]
        assert client.metrics.replica_failures_total == 1

    run_fast(story)


def test_all_replicas_at_once() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        first, second, third = world.ensemble(writer)
        reader, _ = await opened(world, writer)
        first.hold()
        second.hold()
        start_s = now_s()
        assert payloads(await reader.read(0, 5, parallel=True)) == texts(0, 5)
        assert now_s() == start_s
        assert reads_of(third) == list(range(6))
        third.fault = DOWN
        first.fault = second.fault = SILENT
        first.release()
        second.release()
        with pytest.raises(BookieUnavailable):
            await reader.read(0, 0, parallel=True)

    run_fast(story)


def test_sticky_reads_stay_with_one_bookie_while_it_works() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        reader, _ = await opened(world, writer, sticky=True)
        await reader.read(0, 5)
        (stuck,) = [b for b in world.bookies if reads_of(b)]
        assert reads_of(stuck) == list(range(6))
        stuck.fault = DOWN
        await reader.read(0, 0)
        stuck.fault = no_fault
        stuck.requests.clear()
        await asyncio.sleep(1000)  # nothing counts against it any more
        await reader.read(0, 5)
        assert reads_of(stuck) == []
        assert sum(len(reads_of(b)) == 7 for b in world.bookies) == 1

    run_fast(story)


def test_striped_ledgers_cannot_stick() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, config=STRIPED)
        reader, _ = await opened(world, writer, sticky=True)
        assert payloads(await reader.read(0, 5)) == texts(0, 5)
        assert sorted(len(reads_of(b)) for b in world.ensemble(writer)) == [2, 2, 2]

    run_fast(story)


def test_unconfirmed_entries_are_read_only_on_request() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, is_closed=False)
        reader, _ = await opened(world, writer)
        lac = reader.last_confirmed
        assert lac < 5
        with pytest.raises(EntryNotFound):
            await reader.read(0, 5)
        assert payloads(await reader.read_unconfirmed(0, 5)) == texts(0, 5)
        assert reader.last_confirmed == lac
        with pytest.raises(EntryNotFound):
            await reader.read_unconfirmed(6, 6)
        with pytest.raises(EntryNotFound):
            await reader.read_unconfirmed(-1, 0)
        for bookie in world.bookies:
            bookie.requests.clear()
        await reader.read_unconfirmed(3, 3)
        assert reads_of(world.ensemble(writer)[0]) == [3], "to lack the future is no fault"

    run_fast(story)


def test_lac_moves_with_what_replies_tell() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 1, is_closed=False)
        writer.add((b"1",))
        await writer._adder.drained()
        await settle()
        reader, _ = await opened(world, writer)
        assert reader.last_confirmed == 0
        for i in (2, 3):
            writer.add((b"%d" % i,))
            await writer._adder.drained()
            await settle()
        await reader.read(0, 0)
        assert reader.last_confirmed == 2

    run_fast(story)


def test_quick_look_at_the_lac_takes_the_first_that_knows_more() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world, 1, is_closed=False)
        reader, _ = await opened(world, writer)
        writer.add((b"1",))
        await writer._adder.drained()
        await settle()
        first, second, third = world.ensemble(writer)
        first.hold()
        second.hold()
        assert await reader.try_read_last_confirmed() == 0
        third.fault = DOWN
        waiting = asyncio.get_running_loop().create_task(reader.try_read_last_confirmed())
        await settle()
        first.release()
        second.release()
        assert await waiting == 0, "nobody knows more"
        first.fault = second.fault = DOWN
        with pytest.raises(BookieUnavailable):
            await reader.try_read_last_confirmed()
        assert reader.last_confirmed == 0

    run_fast(story)


def test_explicit_lac_is_told_apart() -> None:
    async def story(world: FastWorld) -> None:
        config = LedgerConfig(
            ensemble_size=3, write_quorum=3, ack_quorum=2, explicit_lac_interval_ms=100
        )
        writer = await written(world, 0, config, is_closed=False)
        reader, _ = await opened(world, writer)
        writer.add((b"0",))
        await writer._adder.drained()
        assert await reader.read_explicit_lac() == -1
        assert reader.last_confirmed == -1
        await asyncio.sleep(1)
        assert await reader.read_explicit_lac() == 0
        assert reader.last_confirmed == 0
        await writer.close()
        assert await reader.read_explicit_lac() == 0

    run_fast(story)


def moved(world: FastWorld, writer: LedgerWriter) -> LedgerMetadata:
    """Move a closed ledger's entries to bookies that had none, as auto-recovery does."""
    old, new = world.ensemble(writer), world.others(writer)[:2]
    for source, target in zip(old, new, strict=False):
        target.ledgers[writer.ledger_id] = source.ledgers.pop(writer.ledger_id)
    ensemble = (*(b.bookie_id for b in new), old[2].bookie_id)
    del old[2].ledgers[writer.ledger_id]
    stored = world.stored(writer.ledger_id)
    return replace(stored, fragments=(Fragment(0, ensemble),))


async def change(world: FastWorld, ledger_id: LedgerId, metadata: LedgerMetadata) -> None:
    await world.store.set(world.client._paths.ledger(ledger_id), encode_ledger(metadata))


def test_reader_follows_entries_that_were_moved() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        reader, _ = await opened(world, writer)
        await change(world, writer.ledger_id, moved(world, writer))
        assert payloads(await reader.read(0, 5)) == texts(0, 5)
        assert payloads(await reader.read(0, 5)) == texts(0, 5)

    run_fast(story)


def test_reader_hears_that_its_ledger_was_deleted() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        reader, client = await opened(world, writer)
        await client.delete_ledger(writer.ledger_id)
        assert payloads(await reader.read(0, 5)) == texts(0, 5), "bookies have it still"
        for bookie in world.ensemble(writer):
            del bookie.ledgers[writer.ledger_id]
        with pytest.raises(LedgerNotFound):
            await reader.read(0, 5)

    run_fast(story)


def test_lost_entry_of_a_ledger_that_is_there_is_lost() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        reader, _ = await opened(world, writer)
        for bookie in world.ensemble(writer):
            del bookie.ledgers[writer.ledger_id].entries[3]
        with pytest.raises(EntryNotFound):
            await reader.read(0, 5)
        assert payloads(await reader.read(0, 2)) == texts(0, 2)

    run_fast(story)


def test_cancelled_read_leaves_nothing_behind() -> None:
    async def story(world: FastWorld) -> None:
        writer = await written(world)
        reader, _ = await opened(world, writer)
        for bookie in world.bookies:
            bookie.hold()
        read = asyncio.get_running_loop().create_task(reader.read(0, 5))
        await settle()
        read.cancel()
        await asyncio.sleep(100)
        assert sum(len(reads_of(b)) for b in world.bookies) == 4, "it went on after its end"

    run_fast(story)
