"""Ledgers for segments when the answers of the metadata get lost: no leak, and no false alarm."""

from pathlib import Path

import pytest

from tailrace.core.errors import OwnershipLost, Unavailable
from tailrace.core.log.allocation import LedgerAllocator
from tailrace.core.log.allocation_node import AllocationNode
from tailrace.core.metadata.ledger_tree import ledger_ranges
from tailrace.core.metadata.store import Node
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.test_namespace import Nobody
from tests.unit.core.log.world import QUIET, Listener, World, run_world, txids_of, write

PATH = "/allocation"


class Story:
    """An allocator over a store that fails on demand; ledgers are made over a healthy one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = FaultyStore(world.store)
        self.node = AllocationNode(self.store, PATH)
        self.allocator = LedgerAllocator(self.node, world.ledgers(), QUIET)

    async def begin(self) -> "Story":
        await self.world.store.create(PATH)
        return self

    async def fail(self, *, applied: bool) -> None:
        """Let one allocation fail, its record being applied or not."""
        await self._fail(applied=applied)
        self.store.before = self.store.after = None

    async def _fail(self, *, applied: bool) -> None:
        hook = _lose
        if applied:
            self.store.after = hook
        else:
            self.store.before = hook
        with pytest.raises(Unavailable):
            await self.allocator.allocate(Nobody())

    async def kept(self) -> Node:
        return await self.world.store.get(PATH)

    async def ledgers(self) -> list[int]:
        return [each async for ids in ledger_ranges(self.world.store) for each in ids]


async def _lose(_number: int) -> None:
    raise Unavailable("the answer was lost")


@pytest.mark.parametrize("applied", [[True], [False], [False, True], [True, False], [False] * 3])
def test_the_next_allocation_gets_through(tmp_path: Path, applied: list[bool]) -> None:
    async def story(world: World) -> None:
        at = await Story(world).begin()
        for each in applied:
            await at.fail(applied=each)
        ledger = await at.allocator.allocate(Nobody())
        assert (await at.kept()).data == b"%d" % ledger.ledger_id
        assert await at.ledgers() == [ledger.ledger_id]
        await world.store.multi([at.allocator.hand_over()])
        at.allocator.handed_over()
        again = await at.allocator.allocate(Nobody())
        await at.allocator.give_back()
        assert (await at.kept()).data == b""
        assert again.ledger_id not in await at.ledgers()

    run_world(tmp_path, story)


def test_a_record_that_comes_late_is_known_as_ours(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        at = await Story(world).begin()
        await at.fail(applied=False)
        (first,) = await at.ledgers()
        pending = [first]

        async def arrive(_number: int) -> None:
            if pending:
                await world.store.set(PATH, b"%d" % pending.pop(), 0)

        at.store.before = arrive
        ledger = await at.allocator.allocate(Nobody())
        assert (await at.kept()).data == b"%d" % ledger.ledger_id
        assert await at.ledgers() == [ledger.ledger_id]

    run_world(tmp_path, story)


@pytest.mark.parametrize("applied", [False, True])
def test_a_stranger_is_told_from_a_lost_answer(tmp_path: Path, *, applied: bool) -> None:
    async def story(world: World) -> None:
        at = await Story(world).begin()
        await at.fail(applied=applied)
        await world.store.set(PATH, b"12345")
        with pytest.raises(OwnershipLost):
            await at.allocator.allocate(Nobody())
        await at.allocator.give_back()
        assert (await at.kept()).data == b"12345"
        assert await at.ledgers() == []

    run_world(tmp_path, story)


def test_giving_up_deletes_what_was_not_recorded(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        at = await Story(world).begin()
        await at.fail(applied=False)
        await at.fail(applied=True)
        await at.allocator.give_back()
        assert await at.ledgers() == []

    run_world(tmp_path, story)


def test_what_could_not_be_deleted_is_tried_again(tmp_path: Path) -> None:
    """A leftover, and the ledger that was made for a node that another has."""

    async def story(world: World) -> None:
        at = await Story(world).begin()
        left = await at.allocator.allocate(Nobody())
        store = FaultyStore(world.store)
        delete = store.delete

        async def away(_path: str, _version: int = 0) -> None:
            raise Unavailable("away")

        node = AllocationNode(world.store, PATH, await at.kept())
        allocator = LedgerAllocator(node, world.ledgers(store), QUIET)
        store.delete = away  # type: ignore[method-assign]
        kept = await allocator.allocate(Nobody())
        assert left.ledger_id in await at.ledgers()
        allocator.hand_over()
        await world.store.set(PATH, b"12345")
        with pytest.raises(OwnershipLost):
            await allocator.allocate(Nobody())
        store.delete = delete  # type: ignore[method-assign]
        await allocator.give_back()
        assert await at.ledgers() == [kept.ledger_id]

    run_world(tmp_path, story)


@pytest.mark.parametrize("change", range(4))
@pytest.mark.parametrize("applied", [False, True])
def test_a_lost_answer_during_a_roll_ends_no_writer(
    tmp_path: Path, change: int, *, applied: bool
) -> None:
    """The old segment goes on, and a later roll finds out what became of the first one."""

    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        store = FaultyStore(world.store)
        log = await world.namespace(store).open_log("s")
        listener = Listener()
        writer = await log.open_writer(listener)
        await write(writer, 1, 2)
        hit = store.changes + change

        async def lose(number: int) -> None:
            if number == hit:
                raise Unavailable("the answer was lost")

        if applied:
            store.after = lose
        else:
            store.before = lose
        await writer.roll()
        await write(writer, 3)
        store.before = store.after = None
        await writer.roll()
        await write(writer, 4)
        await writer.close()
        assert not listener.errors
        assert await txids_of(log) == [1, 2, 3, 4]
        held = {segment.ledger_id for segment in log.segments}
        left = {each async for ids in ledger_ranges(world.store) for each in ids} - held
        assert len(left) <= 1, "only one that was made and whose making had no answer"

    run_world(tmp_path, story)
