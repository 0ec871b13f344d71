"""Recovery over three bookies in memory: crashes, faults, interruptions, competitors."""

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailrace.core.errors import (
    BookieUnavailable,
    CoreError,
    CorruptData,
    LedgerFenced,
    LedgerNotFound,
)
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.metadata.ledger_metadata import Fragment, LedgerState
from tailrace.protocol.bookkeeper.messages import AddRequest, ReadRequest, Request, StatusCode
from tailrace.protocol.ids import LedgerId
from tests.unit.core.ledger.fake_bookie import DOWN, SILENT, FakeBookie
from tests.unit.core.ledger.world import (
    REPLICATED,
    SINGLE,
    STRIPED,
    Listener,
    World,
    run_world,
    settle,
)


async def crashed(
    world: World, config: LedgerConfig, confirmed: int
) -> tuple[LedgerWriter, Listener]:
    """A writer that got `confirmed` entries through, one by one, and is then forgotten."""
    listener = Listener()
    writer = await world.client.create_ledger(config, listener)
    for i in range(confirmed):
        writer.add((b"entry %d" % i,))
        await writer._adder.drained()
    await settle()
    return writer, listener


async def payloads(world: World, ledger_id: LedgerId) -> list[bytes]:
    reader = await world.new_client().open_ledger(ledger_id, recover=False)
    assert reader.is_closed
    entries = await reader.read(0, reader.last_confirmed)
    assert reader.metadata.length == (entries[-1].length if entries else 0)
    return [bytes(entry.payload) for entry in entries]


def expected(count: int) -> list[bytes]:
    return [b"entry %d" % i for i in range(count)]


@pytest.mark.parametrize("config", [SINGLE, REPLICATED, STRIPED])
@pytest.mark.parametrize("batch", [1, 3, 13])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_everything_confirmed_is_recovered(
    tmp_path: Path, config: LedgerConfig, batch: int, count: int
) -> None:
    async def story(world: World) -> None:
        writer, _ = await crashed(world, config, count)
        reader = await world.new_client(batch).open_ledger(writer.ledger_id, recover=True)
        assert reader.is_closed
        assert reader.last_confirmed == count - 1
        assert await payloads(world, writer.ledger_id) == expected(count)
        again = await world.new_client(batch).open_ledger(writer.ledger_id, recover=True)
        assert again.metadata == reader.metadata

    run_world(tmp_path, story)


def test_burst_without_lac_is_recovered(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer = await world.client.create_ledger(REPLICATED, Listener())
        for i in range(20):
            writer.add((b"entry %d" % i,))
        await writer._adder.drained()
        await world.new_client().open_ledger(writer.ledger_id, recover=True)
        assert await payloads(world, writer.ledger_id) == expected(20)

    run_world(tmp_path, story)


def test_entry_on_one_bookie_is_made_safe_before_it_is_shown(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer, _ = await crashed(world, REPLICATED, 3)
        first, second, third = world.ensemble(writer)
        for other in (second, third):
            other.fault = lambda r: SILENT(r) if isinstance(r, AddRequest) else None
        writer.add((b"entry 3",))
        await settle()
        assert writer.lac == 2
        for other in (second, third):
            other.fault = lambda request: None
        second.hold()  # it answers last, so that the only copy is seen before the quorum of absence
        opening = asyncio.get_running_loop().create_task(
            world.new_client(1).open_ledger(writer.ledger_id, recover=True)
        )
        while not opening.done():
            await settle()
            if second.held_count:
                second.release()
                second.hold()
        second.release()
        reader = await opening
        assert reader.last_confirmed == 3
        await settle()
        for bookie in (first, second, third):
            assert 3 in bookie.ledgers[writer.ledger_id].entries
        first.fault = DOWN
        assert await payloads(world, writer.ledger_id) == expected(4)

    run_world(tmp_path, story)


def test_hole_in_the_tail_ends_the_ledger(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer, _ = await crashed(world, REPLICATED, 3)
        for bookie in world.bookies:
            bookie.fault = lambda r: (
                SILENT(r) if isinstance(r, AddRequest) and r.entry_id in (3, 4) else None
            )
        for i in range(3, 8):
            writer.add((b"entry %d" % i,))
        await settle()
        reader = await world.new_client().open_ledger(writer.ledger_id, recover=True)
        assert reader.last_confirmed == 2
        assert await payloads(world, writer.ledger_id) == expected(3)

    run_world(tmp_path, story)


def test_length_is_found_when_nothing_follows_the_lac(tmp_path: Path) -> None:
    """The entry that told the LAC lies behind a hole, so the length must be asked for."""

    async def story(world: World) -> None:
        writer, _ = await crashed(world, SINGLE, 5)
        (bookie,) = world.ensemble(writer)
        ledger = bookie.ledgers[writer.ledger_id]
        writer.add((b"entry 5",))
        writer.add((b"entry 6",))
        await settle()
        del ledger.entries[5]
        reader = await world.new_client().open_ledger(writer.ledger_id, recover=True)
        assert reader.last_confirmed == 4
        assert await payloads(world, writer.ledger_id) == expected(5)

    run_world(tmp_path, story)


def test_entries_before_the_last_fragment_are_known_without_its_bookies(tmp_path: Path) -> None:
    """An ensemble change just before the crash: the new bookies have nothing, not even a LAC."""

    async def story(world: World) -> None:
        writer, _ = await crashed(world, REPLICATED, 5)
        old = writer.metadata.fragments[0].ensemble
        new = tuple(b.bookie_id for b in world.bookies if b.bookie_id not in old)
        nodes = writer._nodes
        fragments = (Fragment(0, old), Fragment(5, new))
        await nodes.update(
            await nodes.read(writer.ledger_id), lambda m: replace(m, fragments=fragments)
        )
        reader = await world.new_client().open_ledger(writer.ledger_id, recover=True)
        assert reader.last_confirmed == 4
        assert await payloads(world, writer.ledger_id) == expected(5)
        assert not any(world.bookie(b).ledgers[writer.ledger_id].entries for b in new)

    run_world(tmp_path, story, bookies=6)


def test_one_bookie_of_three_may_be_gone(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        for fault in (DOWN, SILENT):
            for victim in range(3):
                writer, _ = await crashed(world, REPLICATED, 4)
                bookie = world.ensemble(writer)[victim]
                bookie.fault = fault
                await world.new_client().open_ledger(writer.ledger_id, recover=True)
                assert await payloads(world, writer.ledger_id) == expected(4)
                bookie.fault = lambda request: None

    run_world(tmp_path, story)


@pytest.mark.parametrize("config", [SINGLE, REPLICATED, STRIPED])
def test_time_outs_are_never_taken_for_absence(tmp_path: Path, config: LedgerConfig) -> None:
    async def story(world: World) -> None:
        writer, _ = await crashed(world, config, 4)
        for bookie in world.ensemble(writer)[:2]:
            bookie.fault = SILENT
        with pytest.raises(BookieUnavailable):
            await world.new_client().open_ledger(writer.ledger_id, recover=True)
        metadata = await world.client.ledger_metadata(writer.ledger_id)
        assert metadata.state is LedgerState.IN_RECOVERY
        for bookie in world.bookies:
            bookie.fault = lambda request: None
        await world.new_client().open_ledger(writer.ledger_id, recover=True)
        assert await payloads(world, writer.ledger_id) == expected(4)

    run_world(tmp_path, story)


def test_spoiled_bytes_are_never_taken_for_absence(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer, _ = await crashed(world, SINGLE, 4)
        world.ensemble(writer)[0].flip_bit(writer.ledger_id, 3)
        with pytest.raises(CorruptData):
            await world.new_client().open_ledger(writer.ledger_id, recover=True)
        metadata = await world.client.ledger_metadata(writer.ledger_id)
        assert metadata.state is LedgerState.IN_RECOVERY

    run_world(tmp_path, story)


def test_spoiled_copy_is_replaced_by_a_good_one(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer, _ = await crashed(world, REPLICATED, 4)
        victim = world.ensemble(writer)[0]
        victim.flip_bit(writer.ledger_id, 3)
        await world.new_client().open_ledger(writer.ledger_id, recover=True)
        for bookie in world.ensemble(writer)[1:]:
            bookie.fault = DOWN
        await settle()
        assert await payloads(world, writer.ledger_id) == expected(4)

    run_world(tmp_path, story)


def test_lac_readable_but_adding_again_impossible(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer, _ = await crashed(world, REPLICATED, 4)
        for bookie in world.bookies[:2]:
            bookie.fault = lambda r: SILENT(r) if isinstance(r, AddRequest) else None
        with pytest.raises(BookieUnavailable):
            await world.new_client().open_ledger(writer.ledger_id, recover=True)
        metadata = await world.client.ledger_metadata(writer.ledger_id)
        assert metadata.state is LedgerState.IN_RECOVERY
        for bookie in world.bookies:
            bookie.fault = lambda request: None
        await world.new_client().open_ledger(writer.ledger_id, recover=True)
        assert await payloads(world, writer.ledger_id) == expected(4)

    run_world(tmp_path, story)


def test_wrong_password_stops_at_once_and_harms_nobody(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer, _ = await crashed(world, REPLICATED, 2)
        for bookie in world.bookies:
            bookie.ledgers[writer.ledger_id].master_key = b"another"
        with pytest.raises(CoreError, match="EUA"):
            await world.new_client().open_ledger(writer.ledger_id, recover=True)
        assert not any(b.ledgers[writer.ledger_id].fenced for b in world.bookies)

    run_world(tmp_path, story)


def test_every_read_of_recovery_fences(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer, _ = await crashed(world, REPLICATED, 3)
        for bookie in world.bookies:
            bookie.requests.clear()
        await world.new_client().open_ledger(writer.ledger_id, recover=True)
        requests = [request for bookie in world.bookies for request in bookie.requests]
        assert all(r.fence and r.priority for r in requests if isinstance(r, ReadRequest))
        adds = [r for r in requests if isinstance(r, AddRequest)]
        assert adds
        assert all(r.recovery and r.priority for r in adds)

    run_world(tmp_path, story)


def test_fenced_writer_can_never_confirm_again(tmp_path: Path) -> None:
    """The bookie that the fence did not reach is too little for an ack quorum."""

    async def story(world: World) -> None:
        writer, listener = await crashed(world, REPLICATED, 3)
        unreached = world.ensemble(writer)[0]
        unreached.fault = DOWN
        await world.new_client().open_ledger(writer.ledger_id, recover=True)
        unreached.fault = lambda request: None
        writer.add((b"lost",))
        with pytest.raises(LedgerFenced):
            await writer.close()
        assert listener.confirmed[-1] == 2
        assert await payloads(world, writer.ledger_id) == expected(3)

    run_world(tmp_path, story)


@pytest.mark.parametrize("config", [SINGLE, REPLICATED, STRIPED])
def test_a_ledger_that_is_to_be_deleted_confirms_nothing_more(
    tmp_path: Path, config: LedgerConfig
) -> None:
    async def story(world: World) -> None:
        writer, listener = await crashed(world, config, 3)
        client = world.new_client()
        await client.fence_ledger(writer.ledger_id)
        metadata = await client.ledger_metadata(writer.ledger_id)
        assert metadata.state is LedgerState.IN_RECOVERY
        writer.add((b"lost",))
        with pytest.raises(LedgerFenced):
            await writer.close()
        assert listener.confirmed[-1] == 2
        await client.open_ledger(writer.ledger_id, recover=True)
        assert await payloads(world, writer.ledger_id) == expected(3)
        for bookie in world.bookies:
            bookie.requests.clear()
        await client.fence_ledger(writer.ledger_id)
        assert not any(bookie.requests for bookie in world.bookies), "it is closed"
        await client.delete_ledger(writer.ledger_id)
        with pytest.raises(LedgerNotFound):
            await client.fence_ledger(writer.ledger_id)

    run_world(tmp_path, story)


def test_many_recoverers_agree(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer, _ = await crashed(world, REPLICATED, 6)
        for i in range(6, 9):
            writer.add((b"entry %d" % i,))
        async with asyncio.TaskGroup() as group:
            opens = [
                group.create_task(
                    world.new_client(batch).open_ledger(writer.ledger_id, recover=True)
                )
                for batch in (1, 2, 3, 8, 13)
            ]
        readers = [task.result() for task in opens]
        assert all(reader.metadata == readers[0].metadata for reader in readers)
        assert len(await payloads(world, writer.ledger_id)) >= 6

    run_world(tmp_path, story)


def test_recoverer_adopts_what_another_closed_meanwhile(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer, _ = await crashed(world, REPLICATED, 4)
        for bookie in world.bookies:
            bookie.hold()
        slow = asyncio.get_running_loop().create_task(
            world.new_client().open_ledger(writer.ledger_id, recover=True)
        )
        while not all(bookie.held_count for bookie in world.bookies):
            await settle()
        nodes = writer._nodes
        closed = await nodes.update(await nodes.read(writer.ledger_id), lambda m: m.closed(1, 14))
        for bookie in world.bookies:
            bookie.release()
        reader = await slow
        assert reader.metadata == closed.metadata
        assert reader.last_confirmed == 1

    run_world(tmp_path, story)


@pytest.mark.parametrize("config", [SINGLE, REPLICATED, STRIPED])
def test_recovery_interrupted_anywhere_is_finished_by_the_next(
    tmp_path: Path, config: LedgerConfig
) -> None:
    async def story(world: World) -> None:
        for turns in range(0, 120, 7):
            writer, _ = await crashed(world, config, 5)
            first = asyncio.get_running_loop().create_task(
                world.new_client(2).open_ledger(writer.ledger_id, recover=True)
            )
            await settle(turns)
            first.cancel()
            await asyncio.wait([first])
            await world.new_client(3).open_ledger(writer.ledger_id, recover=True)
            assert await payloads(world, writer.ledger_id) == expected(5)

    run_world(tmp_path, story)


def random_faults(rng: Random, probability: float) -> object:
    statuses = (StatusCode.LOCAL_TIMEOUT, StatusCode.LOCAL_UNAVAILABLE, StatusCode.EIO)

    def fault(request: Request) -> StatusCode | None:
        return rng.choice(statuses) if rng.random() < probability else None

    return fault


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 2**32),
    config=st.sampled_from([REPLICATED, STRIPED, SINGLE]),
    probability=st.sampled_from([0.0, 0.1, 0.3]),
)
def test_acknowledged_survives_any_faults(
    tmp_path_factory: pytest.TempPathFactory, seed: int, config: LedgerConfig, probability: float
) -> None:
    """Faults before and after the bookies' work, then recoverers that fail and compete."""

    async def story(world: World) -> None:
        rng = Random(seed)
        listener = Listener()
        writer = await world.client.create_ledger(config, listener)
        set_faults(world.bookies, rng, probability)
        for i in range(rng.randrange(30)):
            try:
                writer.add((b"entry %d" % i,))
            except CoreError:
                break
            await settle(rng.randrange(4))
        await settle(rng.randrange(10))
        ends = set()
        for attempt in range(30):
            set_faults(world.bookies, rng, probability * (attempt < 8))
            for result in await recover_twice(world, writer.ledger_id):
                if result is not None:
                    ends.add(result)
        assert len(ends) == 1
        found = await payloads(world, writer.ledger_id)
        assert len(found) >= writer.lac + 1
        assert len(found) <= writer.last_add_pushed + 1
        assert found == expected(len(found))

    run_world(tmp_path_factory.mktemp("world"), story)


def set_faults(bookies: list[FakeBookie], rng: Random, probability: float) -> None:
    for bookie in bookies:
        bookie.fault = random_faults(rng, probability)  # type: ignore[assignment]
        bookie.lost_answer = random_faults(rng, probability)  # type: ignore[assignment]


async def recover_twice(world: World, ledger_id: LedgerId) -> list[tuple[int, int] | None]:
    async def attempt(batch: int) -> tuple[int, int] | None:
        try:
            reader = await world.new_client(batch).open_ledger(ledger_id, recover=True)
        except CoreError:
            return None
        return reader.last_confirmed, reader.metadata.length

    async with asyncio.TaskGroup() as group:
        attempts = [group.create_task(attempt(batch)) for batch in (1, 4)]
    return [task.result() for task in attempts]
