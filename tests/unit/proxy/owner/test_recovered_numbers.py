"""What the next owner knows, wherever a crash cut the log: exactly the numbers that it has."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.core.log import owner_records, state_deltas
from tailrace.core.log.delta_recovery import restore_deltas
from tailrace.core.log.entries import visible_records
from tailrace.core.log.log import Log
from tailrace.core.log.segment_ledger import SegmentLedger
from tailrace.core.log.segments import SegmentList
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.distributedlog.record_set import pack_record_set
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.operations import WriterSequence
from tailrace.proxy.owner.writer_state import WriterState
from tests.unit.proxy.owner.world import Proxy, ProxyWorld, new_stream
from tests.unit.proxy.owner.world import run as run_in_virtual_time

if TYPE_CHECKING:
    from tailrace.proxy.owner.operations import Answer

Run = Callable[[Callable[[ProxyWorld], Coroutine[Any, Any, None]]], None]

DAY_MS = 86_400_000
WRITERS = (b"a", b"b" * 64, b"c")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return lambda story: run_in_virtual_time(tmp_path, story)


class CutLedger:
    """A ledger up to one of its entries: what a crash after that entry leaves."""

    def __init__(self, ledger: SegmentLedger, last: int) -> None:
        self._ledger = ledger
        self.last_confirmed = last
        self.ledger_id = ledger.ledger_id
        self.read_entries = 0

    async def read(self, first: int, last: int) -> list[Entry]:
        assert 0 <= first <= last <= self.last_confirmed
        self.read_entries += last - first + 1
        return await self._ledger.read(first, last)

    read_some = read


async def recovered(
    log: Log, segments: Sequence[SegmentMetadata], last: int, now_ms: int
) -> tuple[WriterState, CutLedger]:
    """Return what an owner knows of these segments, the last one cut behind entry `last`."""
    newest = segments[-1]
    cut = CutLedger(await log.open_ledger(newest), last)

    async def open_segment(segment: SegmentMetadata) -> Any:
        return cut if segment is newest else await log.open_ledger(segment)

    state = WriterState(100, DAY_MS)
    await restore_deltas(SegmentList(tuple(segments)), open_segment, state, now_ms)
    return state, cut


async def numbers_in(log: Log, segments: Sequence[SegmentMetadata], last: int) -> dict[bytes, int]:
    """Return how many numbers of each writer the records tell: the oracle."""
    counts = dict.fromkeys(WRITERS, 0)
    for segment in segments:
        ledger = await log.open_ledger(segment)
        end = last if segment is segments[-1] else ledger.last_confirmed
        for entry in await ledger.read(0, end) if end >= 0 else []:
            for payload in visible_records(segment, entry).columns.payloads:
                writer_id, number = bytes(payload).split(b"/")
                if writer_id:
                    assert int(number) in (counts[writer_id], counts[writer_id] - 1)
                    counts[writer_id] = int(number) + 1
    return counts


async def write_at_random(proxy: Proxy, rng: Random, count: int) -> None:
    """Write records of several writers and of none; a set has its number twice."""
    asked: list[asyncio.Future[Answer]] = []
    numbers = dict.fromkeys(WRITERS, 0)
    streams = proxy.streams
    for _ in range(count):
        writer_id = rng.choice((*WRITERS, b""))
        number = numbers.get(writer_id, 0)
        writer = WriterSequence(writer_id, number) if writer_id else None
        kind = rng.random()
        size = 1
        if kind < 0.2 and writer_id:
            payload = pack_record_set([b"%s/%d" % (writer_id, number)] * 2)
            asked.append(streams.write("s", payload, is_record_set=True, writer=writer))
        elif kind < 0.6 and writer_id:
            size = rng.randrange(1, 5)
            payloads = [b"%s/%d" % (writer_id, number + at) for at in range(size)]
            asked.append(streams.write_bulk("s", payloads, writer=writer))
        else:
            asked.append(streams.write("s", b"%s/%d" % (writer_id, number), writer=writer))
        if writer_id:
            numbers[writer_id] += size
        if rng.random() < 0.4:
            await asyncio.sleep(0.01)
    assert {(await each).code for each in asked} == {StatusCode.SUCCESS}


@pytest.mark.parametrize("seed", range(4))
def test_wherever_the_log_is_cut(run: Run, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Snapshots come often, inside of entries or in several of their own."""
    monkeypatch.setattr(state_deltas, "PACE_BYTES", 4 * state_deltas.ENTRY_COST_BYTES)
    monkeypatch.setattr(state_deltas, "PACE_RATIO", 1)
    if seed % 2:
        monkeypatch.setattr(owner_records, "PART_BYTES_MAX", 100)
        monkeypatch.setattr(state_deltas, "INSIDE_BYTES_MAX", 100)

    async def story(world: ProxyWorld) -> None:
        log = await new_stream(world)
        proxy = Proxy(world, 1, log={"segment_bytes": 2_000})
        await write_at_random(proxy, Random(seed), 60)
        await proxy.streams.close()
        await log.refresh(is_forced=True)
        segments = list(log.segments)
        assert len(segments) > 1
        cuts = 0
        for count, segment in enumerate(segments, 1):
            end = (await log.open_ledger(segment)).last_confirmed
            for last in range(-1, end + 1):
                some = segments[:count]
                state, _ = await recovered(log, some, last, world.clock.now_ms())
                expected = await numbers_in(log, some, last)
                found = {w: state.next_sequence(w, segment.last_txid) or 0 for w in WRITERS}
                assert found == expected, (segment.lssn, last)
                cuts += 1
        assert cuts > 20

    run(story)


@pytest.mark.parametrize("is_numbered", [True, False])
@pytest.mark.parametrize(("records", "size"), [(2_500, 10), (60, 500_000)])
def test_a_crash_costs_a_bounded_part_of_the_segment(
    run: Run, records: int, size: int, *, is_numbered: bool
) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await new_stream(world)
        proxy = Proxy(world, 1)
        number = WriterSequence(b"w", 0)
        await proxy.streams.write("s", b"x", writer=number if is_numbered else None)
        for _ in range(records):
            assert (await proxy.streams.write("s", b"x" * size)).code is StatusCode.SUCCESS
        await proxy.streams.close()
        written = records * (size + state_deltas.ENTRY_COST_BYTES)
        assert proxy.log_metrics.control_records_total < 5 + written / state_deltas.PACE_BYTES
        await log.refresh(is_forced=True)
        (segment,) = log.segments
        state, cut = await recovered(log, [segment], records, world.clock.now_ms())
        assert state.writers == is_numbered
        assert cut.read_entries * (size + state_deltas.ENTRY_COST_BYTES) < (
            4 * state_deltas.PACE_BYTES
        )

    run(story)


def test_a_clean_end_costs_one_entry(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await new_stream(world)
        proxy = Proxy(world, 1)
        await write_at_random(proxy, Random(1), 60)
        await proxy.streams.close()
        await log.refresh(is_forced=True)
        (segment,) = log.segments
        last = (await log.open_ledger(segment)).last_confirmed
        state, cut = await recovered(log, [segment], last, world.clock.now_ms())
        assert state.writers == 3
        assert cut.read_entries == 1

    run(story)


def test_segments_of_long_ago_are_not_read(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await new_stream(world)
        proxy = Proxy(world, 1)
        await write_at_random(proxy, Random(1), 20)
        await proxy.streams.close()
        await log.refresh(is_forced=True)
        (segment,) = log.segments
        now_ms = segment.completion_time_ms + DAY_MS
        state, _ = await recovered(log, [segment], segment.last_entry_id, now_ms)
        assert state.writers == 3
        state, cut = await recovered(log, [segment], segment.last_entry_id, now_ms + 1)
        assert (state.writers, cut.read_entries) == (0, 0)

    run(story)
