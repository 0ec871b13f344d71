"""A cancel is kept where reads, or recoveries, go side by side and one of them fails.

An owner that forgets one tries again for ever, and who closes it waits for ever.
"""

from pathlib import Path

from tailrace.core.errors import BookieUnavailable
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.protocol.bookkeeper.messages import ReadRequest, Request, StatusCode
from tests.unit.core.cancels import cancelled_at_every_turn
from tests.unit.core.ledger.fake_bookie import DOWN
from tests.unit.core.ledger.memory_store import MemoryStore
from tests.unit.core.log.world import Listener, RecordState, World, put, run_world, settle, write


async def in_memory(world: World) -> LogNamespace:
    """A namespace whose metadata answer on the next turn of the loop, so that turns repeat."""
    store = MemoryStore()
    await initialize_layout(store, instance_id="test")
    return world.namespace(store)


def test_several_segments_are_recovered(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = await in_memory(world)
        await namespace.create_log("s")
        log = await namespace.open_log("s")
        writer = await log.open_writer(Listener(), RecordState())
        world.bookie.hold()
        put(writer, 7)
        await settle()
        rolling = writer.roll()  # its first segment cannot be completed
        world.bookie.release(0)
        await writer.abort()
        rolling.close()
        world.bookie._held = None
        world.bookie.fault = DOWN
        error = await cancelled_at_every_turn(lambda: log.open_writer(Listener(), RecordState()))
        assert isinstance(error, BookieUnavailable)

    run_world(tmp_path, story)


def test_a_record_is_searched(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = await in_memory(world)
        await namespace.create_log("s")
        log = await namespace.open_log("s")
        writer = await log.open_writer(Listener())
        for txid in range(20):
            await write(writer, txid)
        await writer.close()

        def one_probe(request: Request) -> StatusCode | None:
            is_probe = isinstance(request, ReadRequest) and request.entry_id > 12
            return StatusCode.LOCAL_UNAVAILABLE if is_probe else None

        world.bookie.fault = one_probe
        error = await cancelled_at_every_turn(lambda: log.locate(3))
        assert isinstance(error, BookieUnavailable)

    run_world(tmp_path, story)
