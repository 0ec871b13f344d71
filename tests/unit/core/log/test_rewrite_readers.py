"""Readers that meet a rewrite: every record that was kept once, in order, wherever they stand."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import BadVersion, CannotRewrite
from tailrace.core.log.entries import EntryRecords
from tailrace.core.log.log import Log
from tailrace.core.log.reader import LogReader
from tailrace.core.log.resume import Place, Resume
from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.segment_metadata import Truncation
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tailrace.protocol.distributedlog.record import RecordColumns
from tailrace.protocol.ids import LedgerId
from tests.unit.core.log.test_rewrite import even, kept, nothing, rewritten, with_state
from tests.unit.core.log.test_trimmer import DELAY_MS, with_segments
from tests.unit.core.log.world import Listener, World, run_world, settle, txids_of, write

ONE = 60
"""Bytes: one record or two at a time."""


async def read_some(reader: LogReader, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        batch = await reader.read(ONE)
        assert batch, found
        found += [record.txid for _, record in batch]
    return found


async def read_rest(reader: LogReader) -> list[int]:
    found: list[int] = []
    while batch := await reader.read(ONE):
        found += [record.txid for _, record in batch]
    await reader.close()
    return found


async def delete_old_ledgers(world: World, log: Log) -> None:
    world.clock.advance_ms(DELAY_MS)
    assert await log.upkeep.trimmer.collect()


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("at", [1, 10, 14])
def test_a_reader_inside_goes_on(
    tmp_path: Path, at: int, *, is_deleted: bool, is_own: bool
) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3, read_ahead_entries=1)
        cleaner = log if is_own else await world.log()
        reader = await log.open_reader(INITIAL)
        seen = await read_some(reader, at)
        await rewritten(cleaner, [1, 2, 3])
        if is_deleted:
            await delete_old_ledgers(world, cleaner)
        seen += await read_rest(reader)
        assert seen == sorted(set(seen)), "in order, none twice"
        assert set(seen) >= {txid for txid in range(30) if even(txid)}
        assert len(seen) < 30 or at > 1 or not is_deleted, "what it enters is the new ledger"
        assert await txids_of(log) == kept(30, [1, 2, 3]), "who comes later reads the new ones"

    run_world(tmp_path, story)


@pytest.mark.parametrize("at", [3, 15])
def test_a_reader_in_a_segment_that_became_empty(tmp_path: Path, at: int) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3, read_ahead_entries=1)
        reader = await log.open_reader(INITIAL)
        seen = await read_some(reader, at)
        await rewritten(log, [1, 2], nothing)
        await delete_old_ledgers(world, log)
        seen += await read_rest(reader)
        assert seen == sorted(set(seen))
        assert seen[-10:] == list(range(20, 30))

    run_world(tmp_path, story)


def test_a_txid_that_two_segments_share(tmp_path: Path) -> None:
    """It was given out in the first; the record of the second is another one."""

    async def story(world: World) -> None:
        log = await world.log(read_ahead_entries=1)
        writer = await log.open_writer(Listener())
        await write(writer, *range(10))
        await writer.roll()
        await write(writer, *range(9, 20))
        await writer.close()
        other = await world.log(read_ahead_entries=1)
        reader = await other.open_reader(INITIAL)
        assert await read_some(reader, 10) == list(range(10))
        await settle(100)  # the next segment is opened ahead
        await rewritten(log, [2], lambda _txid: True)
        await delete_old_ledgers(world, log)
        assert await read_rest(reader) == list(range(9, 20))

    run_world(tmp_path, story)


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize("txid", [0, 5, 19])
def test_a_reader_that_was_opened_and_did_not_read_yet(
    tmp_path: Path, txid: int, *, is_deleted: bool
) -> None:
    async def story(world: World) -> None:
        log, cleaner = await with_segments(world, 3), await world.log()
        place = await log.find(txid)
        assert place is not None
        await rewritten(cleaner, [1, 2, 3], lambda txid: txid % 4 == 0)
        if is_deleted:
            await delete_old_ledgers(world, cleaner)
        for reader in (await log.open_reader(txid, place), await log.open_reader(txid)):
            assert await read_rest(reader) == [t for t in range(0, 30, 4) if t >= txid]

    run_world(tmp_path, story)


def test_an_index_of_the_old_ledger_leads_nobody_astray(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        ledger_id = log.segments.segments[1].ledger_id
        await rewritten(log, [2])
        for slot in range(10):
            near = Place(DLSN(2, 1, slot), ledger_id)
            reader = await log.open_reader(10 + slot, near)
            assert await read_rest(reader) == [t for t in kept(30, [2]) if t >= 10 + slot]

    run_world(tmp_path, story)


@pytest.mark.parametrize("times", [3])
def test_a_segment_is_rewritten_again_and_again(tmp_path: Path, times: int) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3, read_ahead_entries=1)
        reader = await log.open_reader(INITIAL)
        seen = await read_some(reader, 3)
        left = set(range(30))
        for number in range(times):
            left = {txid for txid in left if txid % 5 != number}
            await rewritten(log, [1, 2, 3], left.__contains__)
            await delete_old_ledgers(world, log)
            seen += await read_some(reader, 3)
        seen += await read_rest(reader)
        assert seen == sorted(set(seen))
        assert set(seen) >= left
        assert await txids_of(log) == sorted(left)

    run_world(tmp_path, story)


def test_an_owner_hears_of_what_another_process_rewrote(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log, cleaner = await with_state(world), await world.log()
        writer = await log.open_writer(Listener())
        assert await txids_of(log) == list(range(30))
        await rewritten(cleaner, [2])
        assert await txids_of(log) == kept(30, [2])
        await delete_old_ledgers(world, cleaner)
        assert await log.read_index(2) == b"index of 2"
        await rewritten(log, [1])
        await write(writer, 30)
        assert await txids_of(log) == [*kept(30, [1, 2]), 30]
        await writer.roll()
        await write(writer, 31)
        await rewritten(cleaner, [3, 4], nothing)
        await delete_old_ledgers(world, cleaner)
        await writer.close()
        for each in (log, await world.log()):
            assert await txids_of(each) == [*kept(20, [1, 2]), 31]
        sequence = [segment.start_sequence_id for segment in log.segments]
        assert sequence == [5, 15, 30, 31, 31], "each ends where it ended"

    run_world(tmp_path, story)


@pytest.mark.parametrize("keep", [11, 15, 19])
def test_what_was_given_up_stays_so(tmp_path: Path, keep: int) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        await log.truncate_before(keep)
        rewrite = await log.rewrite([1, 2])
        for lssn in (1, 2):  # all of it, also what nobody sees any more
            for txid in range(lssn * 10 - 10, lssn * 10):
                if even(txid):
                    await rewrite.append(lssn, txid, [b"r%d" % txid], len(b"r%d" % txid))
            await rewrite.finish(lssn, None, b"")
        first, second = await rewrite.commit()
        assert first.truncation is Truncation.TRUNCATED
        is_gone = keep == 19
        assert second.truncation is (
            Truncation.TRUNCATED if is_gone else Truncation.PARTIALLY_TRUNCATED
        )
        for each in (log, await world.log()):
            assert await txids_of(each) == [t for t in kept(30, [2]) if t >= keep]
        await log.truncate_before(21)
        assert await txids_of(log) == list(range(21, 30))

    run_world(tmp_path, story)


def test_a_truncation_at_a_place_of_the_old_ledger_fails(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        place = await log.find(18)
        assert place is not None
        await rewritten(log, [2])
        with pytest.raises(BadVersion):
            await log.upkeep.trimmer.truncate(*place)
        assert await txids_of(log) == kept(30, [2])
        await log.truncate_before(17)
        assert await txids_of(log) == [18, *range(20, 30)]

    run_world(tmp_path, story)


def test_subscribers_positions_are_not_taken_from_them(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        subscribers = world.namespace().subscribers("s")
        await subscribers.advance("a", DLSN(2, 1, 3))
        with pytest.raises(CannotRewrite, match="subscribers"):
            await log.rewrite([1])
        await subscribers.delete("a")
        assert len(await rewritten(log, [1])) == 1

    run_world(tmp_path, story)


class Crowd:
    """Readers that begin and read anywhere while segments are rewritten, deleted and added."""

    def __init__(self, world: World, logs: tuple[Log, Log], writer: LogWriter, rng: Random) -> None:
        self.world, self.logs, self.writer, self.rng = world, logs, writer, rng
        self.end = 30
        self.left = set(range(30))
        self.readers: list[tuple[LogReader, int, list[int]]] = []

    async def step(self) -> None:
        steps = [self.add, self.rewrite, self.delete, self.open, self.read]
        await self.rng.choices(steps, [15, 20, 10, 15, 40])[0]()

    async def add(self) -> None:
        await write(self.writer, *range(self.end, self.end + 5))
        self.left |= set(range(self.end, self.end + 5))
        self.end += 5
        await self.writer.roll()

    async def rewrite(self) -> None:
        log, rng = self.rng.choice(self.logs), self.rng
        await log.refresh()
        completed = [segment.lssn for segment in log.segments if not segment.in_progress]
        first = rng.randrange(len(completed))
        dropped = {txid for txid in self.left if rng.random() < 0.2}
        touched: set[int] = set()

        def keeps(txid: int) -> bool:
            touched.add(txid)
            return txid not in dropped

        await rewritten(log, completed[first : first + rng.randrange(1, 4)], keeps)
        self.left -= dropped & touched

    async def delete(self) -> None:
        self.world.clock.advance_ms(DELAY_MS)
        await self.logs[1].upkeep.trimmer.collect()

    async def open(self) -> None:
        start, log = self.rng.randrange(self.end), self.rng.choice(self.logs)
        near = await log.find(start) if self.rng.random() < 0.5 else None
        self.readers.append((await log.open_reader(start, near), start, []))

    async def read(self) -> None:
        if self.readers:
            reader, _, seen = self.rng.choice(self.readers)
            seen += [record.txid for _, record in await reader.read(ONE)]

    async def check(self) -> None:
        for reader, start, begun in self.readers:
            seen = begun + await read_rest(reader)
            assert seen == sorted(set(seen))
            assert set(seen) >= {txid for txid in self.left if txid >= start}
            assert not seen or seen[0] >= start


@pytest.mark.parametrize("seed", range(3))
def test_random_rewrites_and_readers(tmp_path: Path, seed: int) -> None:
    async def story(world: World) -> None:
        rng = Random(seed)
        log = await with_segments(world, 3, read_ahead_entries=rng.choice([1, 2, 10]))
        cleaner = await world.log(read_ahead_entries=1)
        writer = await log.open_writer(Listener())
        crowd = Crowd(world, (log, cleaner), writer, rng)
        for _ in range(40):
            await crowd.step()
        await crowd.check()
        await writer.close()

    run_world(tmp_path, story)


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), max_size=4),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_what_was_given_out_is_left_out(entries: list[list[int]], txid: int, given: int) -> None:
    txids = sorted(each for entry in entries for each in entry)
    resume, at, left = Resume(txid, given), 0, []
    for entry in entries:  # one entry at a time, as a reader with small reads gets them
        part = txids[at : at + len(entry)]
        at += len(entry)
        found, resume = resume.leave_out([records_of(part)])
        left += [each for records in found for each in records.columns.txids]
        if found:
            left += txids[at:]
            break
    assert left == txids_after(Resume(txid, given), txids)


def records_of(txids: Sequence[int]) -> EntryRecords:
    columns = RecordColumns([0] * len(txids), list(txids), [b""] * len(txids), 0)
    return EntryRecords(1, 0, range(len(txids)), columns, 0, is_last=False, ledger_id=LedgerId(0))


def txids_after(resume: Resume, txids: Sequence[int]) -> list[int]:
    """The dumb form of `Resume.leave_out`."""
    given = resume.given
    rest = []
    for txid in txids:
        if txid < resume.txid:
            continue
        if txid == resume.txid and given:
            given -= 1
            continue
        rest.append(txid)
    return rest


def test_who_does_not_own_a_log_hears_of_ledgers_that_were_replaced(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        log = await with_segments(world, 3)
        other = await world.log(client_id="other")
        await other.refresh()
        assert other.rewrites == 0
        await rewritten(log, [1, 2])
        await other.refresh(is_forced=True)
        assert other.rewrites == 2
        await other.refresh(is_forced=True)
        assert other.rewrites == 2

    run_world(tmp_path, story)
