"""Recovery over bookies that have no room: what they hold is enough to close a ledger."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tailrace.core.errors import CoreError
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.reader import LedgerReader
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.metadata.ledger_metadata import LedgerState
from tailrace.protocol.bookkeeper.messages import Request, StatusCode
from tests.unit.core.ledger.fake_bookie import FakeBookie, no_fault
from tests.unit.core.ledger.full_bookie import full
from tests.unit.core.ledger.test_recover import crashed, expected, payloads
from tests.unit.core.ledger.world import REPLICATED, SINGLE, World, run_world, settle


def fill(bookies: Sequence[FakeBookie]) -> None:
    for bookie in bookies:
        bookie.fault = full(bookie)


@pytest.mark.parametrize("config", [SINGLE, REPLICATED])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_what_was_confirmed_is_recovered_without_room(
    tmp_path: Path, config: LedgerConfig, count: int
) -> None:
    async def story(world: World) -> None:
        writer, _ = await crashed(world, config, count)
        fill(world.bookies)
        reader = await world.new_client().open_ledger(writer.ledger_id, recover=True)
        assert reader.last_confirmed == count - 1
        assert await payloads(world, writer.ledger_id) == expected(count)

    run_world(tmp_path, story)


async def partly_added(world: World, copies: int) -> tuple[LedgerWriter, list[FakeBookie]]:
    """A writer whose last entry, 3, found room at `copies` of three bookies; now all are full."""
    writer, listener = await crashed(world, REPLICATED, 3)
    ensemble = world.ensemble(writer)
    fill(ensemble[copies:])
    writer.add((b"entry 3",))
    await settle()
    assert [3 in b.ledgers[writer.ledger_id].entries for b in ensemble].count(True) == copies
    assert bool(listener.errors) is (copies == 1), "it is acknowledged at a quorum"
    fill(ensemble)
    return writer, ensemble


async def open_slowly(
    world: World, writer: LedgerWriter, late: Sequence[FakeBookie]
) -> LedgerReader:
    """Recover the ledger; these bookies answer after the others, each time."""
    for bookie in late:
        bookie.hold()
    opening = asyncio.get_running_loop().create_task(
        world.new_client(1).open_ledger(writer.ledger_id, recover=True)
    )
    while not opening.done():
        await settle()
        for bookie in late:
            bookie.release(1)
    for bookie in late:
        bookie.release()
    return await opening


@pytest.mark.parametrize("late", [[0], [1], [1, 2], [0, 2]])
def test_an_entry_that_no_quorum_has_room_for_was_not_acknowledged(
    tmp_path: Path, late: list[int]
) -> None:
    """Whichever answers first: the copy, or those that prove it is the only one."""

    async def story(world: World) -> None:
        writer, ensemble = await partly_added(world, 1)
        reader = await open_slowly(world, writer, [ensemble[at] for at in late])
        assert reader.last_confirmed == 2
        assert await payloads(world, writer.ledger_id) == expected(3)

    run_world(tmp_path, story)


@pytest.mark.parametrize("late", [[0], [2], [0, 1]])
def test_an_acknowledged_entry_is_recovered_from_a_quorum_without_room(
    tmp_path: Path, late: list[int]
) -> None:
    async def story(world: World) -> None:
        writer, ensemble = await partly_added(world, 2)
        reader = await open_slowly(world, writer, [ensemble[at] for at in late])
        assert reader.last_confirmed == 3
        assert await payloads(world, writer.ledger_id) == expected(4)

    run_world(tmp_path, story)


@pytest.mark.parametrize("copies", [1, 2])
def test_what_is_not_decided_waits_for_room(tmp_path: Path, copies: int) -> None:
    """One bookie says nothing about the entry: it may have it, and the entry may be confirmed."""

    async def story(world: World) -> None:
        writer, ensemble = await partly_added(world, copies)
        silent = ensemble[1]
        ours = full(silent)

        def say_nothing(request: Request) -> StatusCode | None:
            is_about = getattr(request, "entry_id", None) == 3
            return StatusCode.LOCAL_TIMEOUT if is_about else ours(request)

        silent.fault = say_nothing
        with pytest.raises(CoreError) as caught:
            await open_slowly(world, writer, [ensemble[2]])
        assert caught.value.retriable
        metadata = await world.client.ledger_metadata(writer.ledger_id)
        assert metadata.state is LedgerState.IN_RECOVERY
        silent.fault = ours
        await world.new_client().open_ledger(writer.ledger_id, recover=True)
        assert await payloads(world, writer.ledger_id) == expected(copies + 2)

    run_world(tmp_path, story)


def test_with_room_again_a_single_copy_is_made_safe(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        writer, ensemble = await partly_added(world, 1)
        for bookie in ensemble:
            bookie.fault = no_fault
        await open_slowly(world, writer, ensemble[1:])
        assert await payloads(world, writer.ledger_id) == expected(4)

    run_world(tmp_path, story)
