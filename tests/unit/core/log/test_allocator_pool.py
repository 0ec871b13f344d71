"""The pool of ledger allocators: many logs, crashes, and others that use it too."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tailrace.core.errors import OverCapacity, Unavailable
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.log import allocator_pool
from tailrace.core.log.config import LogConfig
from tailrace.core.log.log import Log
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.ledger_tree import ledger_ranges
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.test_crash import Process, check_successor, run_until_failure
from tests.unit.core.log.test_namespace import Nobody
from tests.unit.core.log.world import QUIET, Listener, World, put, run_world, txids_of, write

POOLED = replace(QUIET, uses_allocator_pool=True, allocator_pool_name="p", allocator_pool_size=1)
ROOT = "/distributedlog/tailrace"
POOL = f"{ROOT}/.allocation_pool/p"
CHANGES_MAX = 44


async def ledgers(world: World) -> set[int]:
    return {each async for ids in ledger_ranges(world.store) for each in ids}


async def recorded(world: World) -> set[int]:
    """Ledgers that the nodes of the pool name."""
    nodes = await world.dump(POOL)
    return {int(data) for path, data in nodes.items() if path != POOL and data}


async def opened(namespace: LogNamespace, name: str) -> tuple[Log, LogWriter]:
    await namespace.create_log(name)
    log = await namespace.open_log(name)
    return log, await log.open_writer(Listener())


def test_the_layout_is_distributedlogs(tmp_path: Path) -> None:
    """tests/golden/zk-layout.md: lay-pool, with two allocators and two segments."""

    async def story(world: World) -> None:
        log, writer = await opened(world.namespace(allocator_pool_size=2), "s")
        await write(writer, 1)
        await writer.roll()
        await write(writer, 2)
        await writer.close()
        assert await txids_of(log) == [1, 2]
        for name in ("A0000000000", "A0000000001"):
            node = await world.store.get(f"{POOL}/{name}")
            assert (node.data, node.version) == (b"", 2)
        assert sorted(await world.store.children(POOL)) == ["A0000000000", "A0000000001"]
        own = await world.store.get(f"{ROOT}/s/<default>/allocation")
        assert (own.data, own.version) == (b"", 0)
        assert await world.namespace().list_logs() == ["s"]

    run_world(tmp_path, story, config=POOLED)


def test_many_logs_share_few_allocators(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespace = world.namespace(allocator_pool_size=2)
        logs = [await opened(namespace, f"s{number}") for number in range(8)]
        async with asyncio.TaskGroup() as group:
            for _, writer in logs:
                group.create_task(write(writer, 1, 2))
        for log, writer in logs:
            await writer.close()
            assert await txids_of(log) == [1, 2]
        assert len(await world.store.children(POOL)) == 2
        assert await recorded(world) == set()
        assert len(await ledgers(world)) == 8

    run_world(tmp_path, story, config=POOLED)


def test_a_log_that_waits_in_vain_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator_pool, "_WAIT_S", 0.01)

    async def story(world: World) -> None:
        namespace = world.namespace()
        _, writer = await opened(namespace, "s")
        await world.store.create(f"{POOL}/A0000000000", b"not a ledger", parents=True)
        put(writer, 1)
        with pytest.raises(OverCapacity, match="no ledger allocator"):
            await writer.flush()
        await writer.close()

    run_world(tmp_path, story, config=POOLED)


def test_a_leftover_is_deleted_once_the_node_is_used(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        left = await world.ledgers().create_ledger(LedgerConfig(), Nobody())
        await world.store.create(f"{POOL}/A0000000000", b"%d" % left.ledger_id, parents=True)
        _, writer = await opened(world.namespace(), "s")
        assert left.ledger_id in await ledgers(world)
        await write(writer, 1)
        assert left.ledger_id not in await ledgers(world)
        assert await recorded(world) == set()
        await writer.close()

    run_world(tmp_path, story, config=POOLED)


def test_two_processes_in_one_pool_do_no_harm(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        namespaces = [world.namespace(client_id=each, allocator_pool_size=2) for each in "ab"]
        logs = [await opened(namespace, f"of-{n}") for n, namespace in enumerate(namespaces)]
        for txid in range(1, 13):
            for _, writer in logs:
                try:
                    await write(writer, txid)
                    await writer.roll()
                except Unavailable:
                    assert txid > 1
        for log, writer in logs:
            await writer.close()
            assert await txids_of(log) == list(range(1, 13))
        used = {s.ledger_id for log, _ in logs for s in log.segments}
        assert used <= await ledgers(world), "a ledger of a segment was deleted"

    run_world(tmp_path, story, config=POOLED)


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("part", range(4))
def test_crash_at_every_metadata_change(tmp_path: Path, part: int, *, applied: bool) -> None:
    """Nothing confirmed is lost, and what the pool remembers is all that is left over."""
    completed = []
    for change in range(part, CHANGES_MAX, 4):

        async def story(world: World, change: int = change) -> None:
            await world.namespace().create_log("s")
            store = FaultyStore(world.store)
            store.die_at(change, applied=applied)
            process = Process(world, store)
            completed.append(await run_until_failure(process))
            await world.restart_store()
            await check_successor(world, process)
            log = await world.log()
            await log.refresh()
            held = {segment.ledger_id for segment in log.segments}
            assert held <= await ledgers(world)
            assert await recorded(world) == set(), "used since, so emptied"
            unknown = await ledgers(world) - held
            assert len(unknown) <= 1  # made and not recorded yet: DistributedLog's own gap

        path = tmp_path / str(change)
        path.mkdir()
        run_world(path, story, config=POOLED)
    assert completed[-1], "CHANGES_MAX does not reach the end"
    assert not all(completed)


@pytest.mark.parametrize("part", range(2))
def test_lost_answer_at_every_metadata_change(tmp_path: Path, part: int) -> None:
    """After an answer that did not come the same process goes on with the same pool."""
    for change in range(part, CHANGES_MAX, 2):

        async def story(world: World, change: int = change) -> None:
            await world.namespace().create_log("s")
            store = FaultyStore(world.store)
            store.lose_answer_of(change)
            process = Process(world, store)
            await run_until_failure(process)
            store.after = None
            if process.writer is not None:
                await process.writer.abort()
            log, writer = await opened(process.namespace, "t")
            await write(writer, 1)
            await writer.close()
            assert await txids_of(log) == [1]
            assert await recorded(world) == set()
            await world.restart_store()
            await check_successor(world, process)

        path = tmp_path / str(change)
        path.mkdir()
        run_world(path, story, config=POOLED)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"allocator_pool_name": ""}, "needs ledgerAllocatorPoolName"),
        ({"allocator_pool_name": "a/b"}, "needs ledgerAllocatorPoolName"),
        ({"allocator_pool_path": "pool"}, "must begin with"),
        ({"allocator_pool_path": ".a/b"}, "must begin with"),
        ({"allocator_pool_size": 0}, "ledgerAllocatorPoolCoreSize"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(POOLED, **change)  # type: ignore[arg-type]
    assert LogConfig().allocator_pool_size == 20
