"""Records that are appended together have one receipt: where they are, or why not."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import (
    LogRecordTooLong,
    OverCapacity,
    TransactionIdOutOfOrder,
    Unavailable,
    WriteCancelled,
)
from tailrace.core.log.receipts import Run, cut_runs
from tailrace.protocol.distributedlog.dlsn import DLSN
from tests.unit.core.ledger.fake_bookie import no_fault
from tests.unit.core.log.test_writes import fail_adds
from tests.unit.core.log.world import Listener, World, read_all, run_world


def positions(runs: list[Run]) -> list[DLSN]:
    return [first._replace(slot=first.slot + at) for first, count in runs for at in range(count)]


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), max_size=5),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_a_part_of_runs_is_that_part_of_their_positions(
    runs: list[tuple[int, int]], start: int, count: int
) -> None:
    all_runs = [Run(DLSN(1, at, slot), records) for at, (slot, records) in enumerate(runs)]
    found = cut_runs(all_runs, start, count)
    assert positions(found) == positions(all_runs)[start : start + count]
    assert all(run.records for run in found)


def test_a_bulk_spans_entries(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        receipt = writer.append_bulk(7, [b"x" * 400_000] * 5)
        assert (receipt.taken, receipt.refusal) == (5, None)
        await receipt.done
        assert receipt.runs == [Run(DLSN(1, 0, 0), 2), Run(DLSN(1, 1, 0), 2), Run(DLSN(1, 2, 0), 1)]
        assert receipt.error is None
        assert await writer.write(8, b"behind") == DLSN(1, 3, 0)
        await writer.close()
        assert [record.txid for _, record in await read_all(log)] == [7] * 5 + [8]

    run_world(tmp_path, story)


@pytest.mark.parametrize(
    ("txid", "sizes", "taken", "kind"),
    [
        (4, [1, 1], 0, TransactionIdOutOfOrder),
        (5, [1, 1_100_000, 1], 1, LogRecordTooLong),
        (5, [600_000, 600_000, 1_000_000, 1], 2, OverCapacity),
        (5, [], 0, None),
    ],
)
def test_behind_the_first_that_is_refused_none_is_taken(
    tmp_path: Path, txid: int, sizes: list[int], taken: int, kind: type[Exception] | None
) -> None:
    async def story(world: World) -> None:
        log = await world.log(record_bytes_max=1_000_000, waiting_bytes_max=2_000_000)
        writer = await log.open_writer(Listener())
        await writer.write(5, b"before")
        receipt = writer.append_bulk(txid, list(map(bytes, sizes)))
        await receipt.done
        assert (receipt.taken, receipt.confirmed, receipt.count) == (taken, taken, len(sizes))
        assert type(receipt.error) is (kind or type(None))
        await writer.write(6, b"behind")
        await writer.close()
        found = [len(record.payload) for _, record in await read_all(log)]
        assert found == [6, *sizes[:taken], 6]

    run_world(tmp_path, story)


def test_what_a_failed_writer_has_not_sent_is_not_in_doubt(tmp_path: Path) -> None:
    """Two entries may be on their way: one is written, one fails, the rest is never sent."""

    async def story(world: World) -> None:
        log = await world.log(unacked_entries_max=2)
        writer = await log.open_writer(Listener())
        world.bookie.fault = lambda request: (
            fail_adds(request) if getattr(request, "entry_id", 0) == 1 else None
        )
        payload = b"x" * 600_000
        both = writer.append_bulk(1, [payload, payload])
        behind = [writer.append_bulk(2, [payload]) for _ in range(2)]
        await asyncio.wait([each.done for each in (both, *behind)])
        assert (both.runs, both.confirmed) == ([Run(DLSN(1, 0, 0), 1)], 1)
        assert both.error is not None
        assert not isinstance(both.error, WriteCancelled), "it may be written"
        last = behind[-1]
        assert (last.runs, type(last.error)) == ([], WriteCancelled)
        refused = writer.append_bulk(3, [payload])
        assert refused.done.done()
        assert (refused.taken, refused.error) == (0, writer.error)
        world.bookie.fault = no_fault

    run_world(tmp_path, story)


def test_a_closed_writer_takes_no_bulk(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await world.log()
        writer = await log.open_writer(Listener())
        await writer.close()
        receipt = writer.append_bulk(1, [b"a", b"b"])
        assert (receipt.taken, type(receipt.error)) == (0, Unavailable)

    run_world(tmp_path, story)
