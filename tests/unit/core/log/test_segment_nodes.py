from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import (
    BadVersion,
    CorruptData,
    EndOfStream,
    LogNotFound,
    MetadataConflict,
    NoNode,
    OwnershipLost,
    Unavailable,
)
from tailrace.core.log.segment_nodes import (
    SegmentNodes,
    delete_segment_node,
    read_segments,
    recent_names,
)
from tailrace.core.log.segments import SegmentEnd
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import (
    SegmentMetadata,
    completed_name,
    in_progress_name,
)
from tailrace.core.metadata.store import Node, Op
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import LedgerId
from tests.unit.core.log.faulty_store import FaultyStore
from tests.unit.core.log.test_segments import done, started
from tests.unit.core.log.world import World, run_world

PATHS = LogPaths("/distributedlog/tailrace", "s")


async def loaded(world: World, store: FaultyStore | None = None) -> SegmentNodes:
    nodes = SegmentNodes(store or world.store, PATHS)
    await nodes.load()
    return nodes


async def start(nodes: SegmentNodes, segment: SegmentMetadata) -> None:
    await nodes.allocation.record(segment.ledger_id)
    await nodes.start(segment, nodes.allocation.handover())
    nodes.allocation.handed_over()


def test_start_and_complete(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        nodes = await loaded(world)
        assert (nodes.lssn_counter, nodes.max_txid, nodes.allocation.leftover) == (0, 0, None)
        await nodes.allocation.record(LedgerId(101))
        assert (await world.store.get(PATHS.allocation)).data == b"101"
        again = await loaded(world)
        assert again.allocation.leftover == 101
        await nodes.start(started(1, 5), nodes.allocation.handover())
        nodes.allocation.handed_over()
        with pytest.raises(OwnershipLost):  # of two that both know the allocation, one gets it
            await again.start(
                replace(started(1, 5), ledger_id=LedgerId(7)), again.allocation.handover()
            )
        await nodes.complete(done(1, 5, 9))
        assert [s.lssn for s in await read_segments(world.store, PATHS)] == [1]
        assert (await world.store.get(PATHS.max_txid)).data == b"9"
        await start(nodes, started(2, 3))
        await nodes.complete(done(2, 3, 4))
        assert (await world.store.get(PATHS.max_txid)).data == b"9", "it never falls"
        assert nodes.max_txid == 9

    run_world(tmp_path, story)


def test_a_stale_owner_changes_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        stale = await loaded(world)
        await start(stale, started(1))
        fresh = await loaded(world)
        await fresh.complete(done(1, 0, 3))
        for change in (
            stale.complete(replace(done(1, 0, 3), completion_time_ms=1)),
            stale.start(started(2), stale.allocation.handover()),
            stale.delete_unwritten(started(1)),
        ):
            with pytest.raises(OwnershipLost):
                await change
        await fresh.allocation.record(LedgerId(9))
        with pytest.raises(BadVersion):
            await stale.allocation.record(LedgerId(8))

    run_world(tmp_path, story)


def test_a_lost_answer_is_settled_unless_somebody_went_on(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        store = FaultyStore(world.store)
        nodes = await loaded(world, store)
        store.lose_answer_of(1)
        await start(nodes, started(1))
        await nodes.complete(done(1, 0, 3))  # with the versions that the lost answer had

        async def go_on(_number: int) -> None:
            other = await loaded(world)
            await start(other, started(3))
            raise Unavailable("the answer was lost")

        await start(nodes, started(2))
        store.after = go_on
        with pytest.raises(Unavailable):
            await nodes.complete(done(2, 3, 4))

    run_world(tmp_path, story)


def test_what_cannot_be_found_out_now_is_not_taken_for_another_owner(tmp_path: Path) -> None:
    """A lost answer, the same multi again, and no answer to what became of it: still no proof."""

    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        store = FaultyStore(world.store)
        nodes = await loaded(world, store)
        await nodes.allocation.record(started(1).ledger_id)
        handover = nodes.allocation.handover()

        async def lose(_number: int) -> None:
            store.died.set()

        store.after = lose
        with pytest.raises(Unavailable):
            await nodes.start(started(1), handover)
        store.died.clear()
        multi = store.multi

        async def multi_then_away(ops: Sequence[Op]) -> list[int]:
            try:
                return await multi(ops)
            finally:
                store.died.set()

        store.after, store.multi = None, multi_then_away  # type: ignore[method-assign]
        with pytest.raises(Unavailable):
            await nodes.start(started(1), handover)
        store.died.clear()
        store.multi = multi  # type: ignore[method-assign]
        await nodes.start(started(1), handover)
        await nodes.complete(done(1, 0, 3))

    run_world(tmp_path, story)


def test_deleting_two_unwritten_segments_brings_their_numbers_back(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        nodes = await loaded(world)
        await start(nodes, started(1))
        await start(nodes, started(2))
        await nodes.delete_unwritten(started(2))
        await nodes.delete_unwritten(started(1))
        assert (await read_segments(world.store, PATHS)).next_lssn(nodes.lssn_counter) == 1
        assert (await loaded(world)).lssn_counter == 1

    run_world(tmp_path, story)


@pytest.mark.parametrize(
    ("path", "data", "error"),
    [
        (PATHS.version, b"\0\0\0\1", CorruptData),
        (PATHS.segments, b"x", CorruptData),
        (PATHS.segments, b"", CorruptData),
        (PATHS.allocation, b"x", CorruptData),
        (PATHS.max_txid, b"9223372036854775807", EndOfStream),
    ],
)
def test_nodes_that_are_wrong(
    tmp_path: Path, path: str, data: bytes, error: type[Exception]
) -> None:
    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        await world.store.set(path, data)
        with pytest.raises(error):
            await loaded(world)

    run_world(tmp_path, story)


def test_nodes_that_may_be_missing_or_unreadable(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        await world.store.delete(PATHS.allocation)  # a log of an allocator pool
        await world.store.set(PATHS.max_txid, b"?")
        nodes = await loaded(world)
        assert nodes.max_txid == -999
        await start(nodes, started(1))
        await world.store.delete(PATHS.max_txid)
        with pytest.raises(CorruptData):
            await loaded(world)
        with pytest.raises(LogNotFound):
            await SegmentNodes(world.store, LogPaths("/distributedlog/tailrace", "no")).load()

    run_world(tmp_path, story)


def test_a_log_that_goes_while_the_store_goes_is_one_error(tmp_path: Path) -> None:
    """Of two reads that fail in the same moment the first is told, not a group of errors."""

    async def story(world: World) -> None:
        store = FaultyStore(world.store)

        async def away(*_args: object) -> list[Node | None]:
            raise Unavailable("the store is away")

        async def gone(path: str, *_args: object) -> list[str]:
            raise NoNode(path)

        store.children = gone  # type: ignore[method-assign]
        with pytest.raises(LogNotFound):
            await SegmentNodes(store, PATHS).load()
        store.get_all = away  # type: ignore[method-assign]
        with pytest.raises(Unavailable):
            await SegmentNodes(store, PATHS).load()

    run_world(tmp_path, story)


def test_segments_that_change_while_they_are_read(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        nodes = await loaded(world)
        await start(nodes, started(1))
        store = FaultyStore(world.store)
        children = store.children
        changes = [nodes.complete(done(1, 0, 3))]

        async def then_complete(*args: object) -> list[str]:
            names = await children(*args)  # type: ignore[arg-type]
            if changes:
                await changes.pop()
            return names

        store.children = then_complete  # type: ignore[method-assign]
        found = await read_segments(store, PATHS)
        assert [s.in_progress for s in found] == [False]

        async def always_gone(*_args: object) -> list[str]:
            return ["logrecs_000000000000000009"]

        store.children = always_gone  # type: ignore[method-assign]
        with pytest.raises(MetadataConflict):
            await read_segments(store, PATHS)

    run_world(tmp_path, story)


def test_a_node_with_rubbish_is_named(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        await world.store.create(PATHS.segment("logrecs_000000000000000001"), b"rubbish")
        with pytest.raises(CorruptData, match="rubbish"):
            await read_segments(world.store, PATHS)

    run_world(tmp_path, story)


def test_recent_segments() -> None:
    def done_names(*lssns: int) -> list[str]:
        return [f"logrecs_{lssn:018d}" for lssn in lssns]

    def open_names(*lssns: int) -> list[str]:
        return [f"inprogress_{lssn:018d}" for lssn in lssns]

    assert recent_names([]) == []
    assert recent_names(done_names(1, 2, 3)) == done_names(3)
    assert recent_names([*open_names(4), *done_names(1, 2, 3)]) == [
        *open_names(4),
        *done_names(3),
    ]
    assert recent_names([*open_names(3, 4), *done_names(1, 2, 3)]) == [
        *open_names(3, 4),
        *done_names(2, 3),
    ]
    assert recent_names(open_names(1, 2)) == open_names(1, 2)
    older = ["logrecs_000000000000000001_000000000000000009", *done_names(2, 3)]
    assert recent_names(older) == older


@given(
    completed=st.frozensets(st.integers(1, 12)),
    in_progress=st.frozensets(st.integers(1, 12)),
    older=st.sampled_from([[], ["inprogress_1f"], ["logrecs_000000000000000001_9"]]),
)
def test_recent_segments_are_those_of_the_rule(
    completed: frozenset[int], in_progress: frozenset[int], older: list[str]
) -> None:
    names = [*map(completed_name, completed), *map(in_progress_name, in_progress), *older]
    first = min([max(completed, default=0), *(lssn - 1 for lssn in in_progress)])
    expected = [
        *(in_progress_name(lssn) for lssn in in_progress),
        *(completed_name(lssn) for lssn in completed if lssn >= first),
    ]
    assert recent_names(sorted(names)) == sorted(names if older else expected)


def test_nodes_keep_the_names_of_older_writers(tmp_path: Path) -> None:
    """Names of nameVersion 0, and segments of version 1: found, completed, rewritten, deleted."""

    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        old = PATHS.segment("logrecs_000000000000000001_000000000000000009")
        await world.store.create(old, b"1;7;1;9;1500000000000")
        await world.store.create(PATHS.segment("inprogress_a"), b"1;8;10")
        nodes = SegmentNodes(world.store, PATHS)
        segments, is_whole, _ = await nodes.load()
        assert [(s.lssn, s.first_txid, s.in_progress) for s in segments] == [
            (-1, 1, False), (0, 10, True)
        ]  # fmt: skip
        assert is_whole
        last = segments.segments[1]
        end = SegmentEnd(12, 3, 2, 0)
        await nodes.complete(segments.completed(last, end, now_ms=5))
        await (await world.log()).truncate(DLSN(0, 0, 0))
        names = await world.store.children(PATHS.segments)
        assert names == [
            "logrecs_000000000000000001_000000000000000009",
            "logrecs_000000000000000010_000000000000000012",
        ]
        assert (await world.store.get(old)).data == b"513;7;1;9;1500000000000"
        assert segments.next_lssn(nodes.lssn_counter) == 1
        await delete_segment_node(world.store, PATHS, segments.segments[0])
        assert len(await world.store.children(PATHS.segments)) == 1

    run_world(tmp_path, story)
