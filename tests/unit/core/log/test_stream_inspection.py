"""What `tailrace log inspect` finds: nothing in a whole log, and each defect by its name."""

from dataclasses import replace
from pathlib import Path

import pytest

from tailrace.core.errors import LogNotFound
from tailrace.core.log.stream_inspection import (
    Problem,
    StoredSegment,
    StoredStream,
    find_problems,
    read_stream,
)
from tailrace.core.metadata.layout import LOG_LAYOUT_VERSION, LogPaths
from tailrace.core.metadata.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from tailrace.core.metadata.segment_metadata import SegmentMetadata, Truncation, segment_name
from tailrace.protocol.ids import BookieId, LedgerId
from tests.unit.core.log.world import Listener, World, run_world, write
from tests.unit.core.metadata.golden_nodes import golden_nodes

PATHS = LogPaths("/distributedlog/tailrace", "s")
CLOSED = LedgerMetadata(
    ensemble_size=1,
    write_quorum=1,
    ack_quorum=1,
    fragments=(Fragment(0, (BookieId("b"),)),),
    state=LedgerState.CLOSED,
    last_entry_id=12,
)
OPEN = replace(CLOSED, state=LedgerState.OPEN, last_entry_id=-1)


def completed(lssn: int, **changes: int | Truncation) -> StoredSegment:
    segment = SegmentMetadata(
        lssn=lssn,
        ledger_id=LedgerId(100 + lssn),
        first_txid=10 * lssn,
        in_progress=False,
        last_txid=10 * lssn + 9,
        record_count=10,
        last_entry_id=9,
        last_slot=0,
        start_sequence_id=10 * (lssn - 1),
    )
    segment = replace(segment, **changes)  # type: ignore[arg-type]
    return StoredSegment(segment_name(segment), segment, "", 0, CLOSED)


def writing(lssn: int, first_txid: int = 40) -> StoredSegment:
    segment = SegmentMetadata(lssn=lssn, ledger_id=LedgerId(100 + lssn), first_txid=first_txid)
    return StoredSegment(segment_name(segment), segment, "", 0, OPEN)


def stream(*nodes: StoredSegment, **changes: object) -> StoredStream:
    whole = StoredStream(
        nodes=nodes or (completed(1), completed(2), completed(3), writing(4)),
        lssn_counter=4,
        max_txid=39,
        allocated=None,
        missing=(),
        layout=LOG_LAYOUT_VERSION,
    )
    return whole._replace(**changes)  # type: ignore[arg-type]


ONE, TWO, THREE, FOUR = completed(1), completed(2), completed(3), writing(4)
FOREIGN = StoredSegment("something", None, "not the name of a segment", 0, None)


@pytest.mark.parametrize(
    "found",
    [
        stream(),
        stream(lssn_counter=5),  # an empty segment was deleted, and its number comes again
        stream(completed(2), completed(3), FOUR),  # the first one was purged
        stream(ONE._replace(segment=replace(completed(1).segment, version=4)), TWO, THREE, FOUR),  # type: ignore[type-var]
        stream(FOUR, lssn_counter=4, max_txid=0),
        stream(ONE, TWO, THREE, max_txid=2**63 - 1, lssn_counter=3),
        stream(nodes=(), lssn_counter=0, max_txid=0),
    ],
)
def test_nothing_is_wrong_with_a_whole_log(found: StoredStream) -> None:
    assert find_problems(found) == []


@pytest.mark.parametrize(
    ("found", "kind", "place"),
    [
        (stream(ONE, THREE, FOUR), "gap", THREE.node_name),
        (stream(ONE, TWO, THREE, writing(3)), "duplicate", THREE.node_name),
        (stream(ONE, writing(2), THREE, FOUR), "order", writing(2).node_name),
        (stream(ONE, completed(2, first_txid=15), THREE, FOUR), "overlap", TWO.node_name),
        (stream(ONE, completed(2, last_txid=3), THREE, FOUR), "txids", TWO.node_name),
        (stream(ONE, completed(2, start_sequence_id=11), THREE, FOUR), "count", THREE.node_name),
        (stream(ONE, completed(2, record_count=11), THREE, FOUR), "count", THREE.node_name),
        (stream(ONE, completed(2, last_entry_id=-1), THREE, FOUR), "count", TWO.node_name),
        (stream(ONE, TWO._replace(ledger=None), THREE, FOUR), "missing ledger", TWO.node_name),
        (stream(ONE, TWO._replace(ledger=OPEN), THREE, FOUR), "open ledger", TWO.node_name),
        (stream(ONE, completed(2, last_entry_id=13), THREE, FOUR), "short ledger", TWO.node_name),
        (stream(ONE, completed(2, ledger_id=101), THREE, FOUR), "shared ledger", ONE.node_name),
        (stream(allocated=103), "allocation", THREE.node_name),
        (stream(lssn_counter=3), "counter", "ledgers"),
        (stream(lssn_counter=6), "counter", "ledgers"),
        (stream(max_txid=38), "counter", "maxtxid"),
        (stream(ONE, TWO, THREE, FOUR, FOREIGN), "foreign node", "something"),
        (stream(missing=("/s/lock",)), "missing node", "/s/lock"),
        (stream(layout=b"\0\0\0\1"), "layout", "version"),
        (
            stream(
                ONE,
                completed(2, truncation=Truncation.PARTIALLY_TRUNCATED, min_active_entry_id=10),
                THREE,
                FOUR,
            ),
            "truncation",
            TWO.node_name,
        ),
    ],
)
def test_each_defect_has_a_name(found: StoredStream, kind: str, place: str) -> None:
    problems = find_problems(found)
    assert (kind, place) in [(problem.kind, problem.place) for problem in problems]
    assert all(problem.detail for problem in problems)


def names(problems: list[Problem]) -> list[str]:
    return [problem.kind for problem in problems]


def test_a_real_log_is_read_whatever_lies_in_it(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await write(writer, 1, 2)
        await writer.roll()
        await write(writer, 3)

        async def look() -> list[str]:
            return names(find_problems(await read_stream(world.store, world.ledgers(), PATHS)))

        assert await look() == []
        await writer.close()
        assert await look() == []
        await world.store.create(PATHS.segment("notes"), b"mine")
        await world.store.create(PATHS.segment("inprogress_x"), b"no metadata")
        assert await look() == ["foreign node", "foreign node"]
        first = log.segments.segments[0]
        await world.ledgers().delete_ledger(first.ledger_id)
        await world.store.delete(PATHS.read_lock)
        await world.store.set(PATHS.max_txid, b"?")
        assert await look() == ["foreign node", "foreign node", "missing ledger", "missing node"]
        with pytest.raises(LogNotFound):
            await read_stream(world.store, world.ledgers(), LogPaths("/distributedlog", "none"))

    run_world(tmp_path, story)


def test_nothing_is_wrong_with_what_java_wrote(tmp_path: Path) -> None:
    """Every stream of tests/golden/zk-layout.md; of most ledgers it has no metadata."""

    async def story(world: World) -> None:
        namespace = "/messaging/ns"
        for path, node in golden_nodes().items():
            if path.startswith(f"{namespace}/"):
                await world.store.create(path, node.data, parents=True)
        names = [n for n in await world.store.children(namespace) if not n.startswith(".")]
        assert len(names) > 5
        for name in names:
            paths = LogPaths(namespace, name)
            found = find_problems(await read_stream(world.store, world.ledgers(), paths))
            assert {problem.kind for problem in found} <= {"missing ledger"}, (name, found)

    run_world(tmp_path, story)
