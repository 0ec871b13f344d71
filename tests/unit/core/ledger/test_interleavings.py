"""Answers that come when nobody expects them: races of readers, writers and recovery."""

import asyncio
from dataclasses import replace

import pytest

from tailrace.core.errors import BookieUnavailable, LedgerFenced, OverCapacity
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.metadata.ledger_metadata import Fragment
from tailrace.protocol.bookkeeper.messages import AddRequest, StatusCode
from tests.unit.core.ledger.fake_bookie import DOWN, no_fault
from tests.unit.core.ledger.fast_world import FastWorld, read_all, run_fast
from tests.unit.core.ledger.test_recover_changes import crashed, start
from tests.unit.core.ledger.test_special_ledgers import DEFERRED
from tests.unit.core.ledger.test_speculative_reads import (
    change,
    moved,
    opened,
    payloads,
    texts,
    written,
)
from tests.unit.core.ledger.world import REPLICATED, SINGLE, Listener, settle


def test_reads_that_miss_moved_entries_follow_them_one_after_the_other() -> None:
    """The first to fail reads the metadata; that the reader knows it then fails no other read."""

    async def story(world: FastWorld) -> None:
        writer = await written(world)
        reader, _ = await opened(world, writer)
        late, *_ = world.ensemble(writer)
        await change(world, writer.ledger_id, moved(world, writer))
        late.hold()
        loop = asyncio.get_running_loop()
        reads = [loop.create_task(reader.read(entry_id, entry_id)) for entry_id in (0, 3)]
        await settle()
        late.release(1)
        assert payloads(await reads[0]) == texts(0, 0)
        late.release()
        assert payloads(await reads[1]) == texts(3, 3)

    run_fast(story)


def test_nothing_is_confirmed_after_the_error() -> None:
    async def story(world: FastWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(REPLICATED, listener)
        first, *others = world.ensemble(writer)
        for bookie in others:
            bookie.hold()
        first.fault = lambda _: StatusCode.EFENCED
        writer.add((b"0",))
        await settle()
        assert [type(error) for error in listener.errors] == [LedgerFenced]
        for bookie in others:
            bookie.release()
        await settle()
        assert (writer.lac, listener.confirmed) == (-1, [])

    run_fast(story)


def test_recovery_that_ended_adds_nothing_any_more() -> None:
    """Failures of its adds that come after its end replace nobody."""

    async def story(world: FastWorld) -> None:
        writer, _ = await crashed(world)
        ensemble = world.ensemble(writer)
        others = world.others(writer)
        for bookie in ensemble:
            bookie.fault = lambda request: (
                StatusCode.ETOOMANYREQUESTS if isinstance(request, AddRequest) else None
            )
        opening = start(world, writer.ledger_id)
        await asyncio.sleep(0.005)
        opening.cancel()
        await settle()
        before = [len(bookie.requests) for bookie in world.bookies]
        for bookie in ensemble:
            bookie.fault = DOWN
        await asyncio.sleep(100)
        assert [len(bookie.requests) for bookie in world.bookies] == before
        assert not any(isinstance(r, AddRequest) for b in others for r in b.requests)
        for bookie in ensemble:
            bookie.fault = no_fault
        assert len(await read_all(world, writer.ledger_id)) == 4

    run_fast(story)


def test_metadata_of_a_reader_never_moves_back() -> None:
    """A server that lags behind, after a lost session, may still know the ledger as open."""

    async def story(world: FastWorld) -> None:
        writer = await written(world, is_closed=False)
        before = await world.client._nodes.read(writer.ledger_id)
        await writer.close()
        reader, _ = await opened(world, writer)
        assert reader.is_closed
        reader._install(before)
        assert reader.is_closed
        assert payloads(await reader.read(0, 5)) == texts(0, 5)

    run_fast(story)


def test_force_confirms_nothing_that_a_bookie_may_have_lost_before_it() -> None:
    """A bookie that came back forces gladly what it has; what it had is another matter."""

    async def story(world: FastWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(DEFERRED, listener)
        first, second, _ = world.ensemble(writer)
        first.crash()  # there is nothing to lose yet
        writer.add((b"0",))
        await writer.force()
        second.crash()  # nor now
        await writer.force()
        writer.add((b"1",))
        await writer.force()
        assert listener.confirmed == [0, 1]
        writer.add((b"2",))
        await settle()
        for bookie in (first, second):
            bookie.crash()
        writer.add((b"3",))
        for end in (writer.force, writer.force, writer.close):
            with pytest.raises(BookieUnavailable):
                await end()
        assert (writer.lac, listener.confirmed) == (1, [0, 1])
        assert [type(error) for error in listener.errors] == [BookieUnavailable]
        assert (await read_all(world, writer.ledger_id))[:2] == [b"0", b"1"]

    run_fast(story)


def test_force_that_was_cut_off_is_not_made_good_by_the_next_one() -> None:
    async def story(world: FastWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(DEFERRED, listener)
        writer.add((b"0",))
        await settle()
        first, *_ = world.ensemble(writer)
        first.fault = DOWN
        with pytest.raises(BookieUnavailable):
            await writer.force()
        first.fault = no_fault
        first.crash()
        with pytest.raises(BookieUnavailable):
            await writer.force()
        assert listener.confirmed == []

    run_fast(story)


def test_entry_that_a_bookie_has_is_not_lost_by_an_older_failure_of_it() -> None:
    """A bookie that was replaced and came back is sent the entry twice: one answer is enough."""

    async def story(world: FastWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(SINGLE, listener)
        (first,), (second,) = world.ensemble(writer), world.others(writer)
        first.hold()
        writer.add((b"0",))
        writer.add((b"1",))
        await settle()
        first.fault = second.fault = DOWN
        first.release(1)
        await settle()
        assert world.ensemble(writer) == [first], "there and back again"
        del world.client._bookies._clients[second.bookie_id]  # type: ignore[attr-defined]
        first.release(1)  # entry 1 as it was sent at first
        first.fault = no_fault
        first.release()
        await settle()
        assert listener.errors == []
        assert listener.confirmed[-1] == 1
        await writer.close()
        second.fault = no_fault
        assert await read_all(world, writer.ledger_id) == [b"0", b"1"]

    run_fast(story, bookies=2)


def test_silence_counts_again_after_a_pause_in_which_nobody_else_was_to_be_asked() -> None:
    """All who are asked answered before, so they are waited for; the next fragment's did not."""

    async def story(world: FastWorld) -> None:
        config = LedgerConfig(ensemble_size=2, write_quorum=2, ack_quorum=2)
        writer = await written(world, 10, config)
        former, latter = world.ensemble(writer), world.others(writer)[:2]
        for source, target in zip(former, latter, strict=True):
            target.ledgers[writer.ledger_id] = source.ledgers[writer.ledger_id]
        fragments = [Fragment(0, tuple(b.bookie_id for b in former))]
        fragments.append(Fragment(6, tuple(b.bookie_id for b in latter)))
        metadata = replace(world.stored(writer.ledger_id), fragments=tuple(fragments))
        await change(world, writer.ledger_id, metadata)
        reader, _ = await opened(world, writer)
        for bookie in (*former, latter[0]):
            bookie.hold()
        read = asyncio.get_running_loop().create_task(reader.read(0, 9))
        await settle()
        for bookie in former:
            bookie.release(1)
        await asyncio.sleep(3)
        for bookie in former:
            bookie.release()
        await asyncio.sleep(3)
        assert read.done()
        assert payloads(await read) == texts(0, 9)

    run_fast(story)


def test_change_waits_out_a_metadata_store_that_has_too_much_to_do() -> None:
    """A store that is away and many ledgers: it refuses the last of them, with nothing done."""

    async def story(world: FastWorld) -> None:
        listener = Listener()
        writer = await world.client.create_ledger(REPLICATED, listener)
        refusals = iter(range(3))

        def refuse() -> str:
            if next(refusals, None) is not None:
                raise OverCapacity("10000 metadata operations wait")
            return ""

        world.store.outage = refuse
        world.ensemble(writer)[0].fault = DOWN
        writer.add((b"0",))
        await writer._adder.drained()
        assert len(world.stored(writer.ledger_id).fragments) == 1
        assert world.client.metrics.ensemble_changes_total == 1
        assert listener.errors == []

    run_fast(story)
