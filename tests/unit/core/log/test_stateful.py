"""A log against a list, through everything that can happen to it.

What a crash leaves depends on how far the store's thread came, so no draw depends on the log.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tailrace.core.errors import LogTruncated
from tailrace.core.log.positioning import first_readable
from tailrace.core.log.rolling import RollingPolicy, RollPhase
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tests.unit.core.log.world import (
    QUIET,
    Listener,
    RecordState,
    World,
    put,
    read_all,
    settle,
    txids_of,
)

if TYPE_CHECKING:
    from tailrace.core.log.log import Log
    from tailrace.core.log.reader import LogReader
    from tailrace.core.log.writer import LogWriter

STEPS = st.integers(min_value=1, max_value=7)
READ_WITHIN_S = 60


class LogMachine(RuleBasedStateMachine):
    """`appended` is what the caller appended; what is in the log is always a prefix of it."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.path = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").exists() else None))
        self.appended: list[int] = []
        self.first = 0
        """How many records were truncated, from the oldest."""
        self.wrote = False
        """Since the log was opened."""
        self.reader: LogReader | None = None
        self.reader_at = 0
        self.reader_log: Log | None = None
        self.reader_first = 0
        """How many were truncated when the reader entered its first segment."""
        self.run(self._set_up())

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    async def _set_up(self) -> None:
        self.world = World(self.path, config=QUIET)
        await initialize_layout(self.world.store, instance_id="test")
        await self._open()

    async def _open(self) -> None:
        self.log: Log = await self.world.log(unacked_entries_max=3)
        self.listener = Listener()
        self.state = RecordState()
        self.writer: LogWriter = await self.log.open_writer(self.listener, self.state)

    def teardown(self) -> None:
        self.run(self._tear_down())
        self.runner.close()
        shutil.rmtree(self.path)

    async def _tear_down(self) -> None:
        await self.writer.close()
        await self._check_all()
        if self.reader is not None:
            await self.reader.close()
        await self.world.store.close()

    async def _check_all(self) -> None:
        wanted = self.appended[self.first :]
        async with asyncio.timeout(READ_WITHIN_S):
            found = await txids_of(self.log, at_least=len(wanted))
        assert found == wanted

    @rule(gaps=st.lists(STEPS, min_size=1, max_size=8), turns=st.integers(0, 4))
    def append(self, gaps: list[int], turns: int) -> None:
        async def work() -> None:
            for gap in gaps:
                txid = (self.appended[-1] if self.appended else -1) + gap
                put(self.writer, txid)
                self.appended.append(txid)
                self.wrote = True
                await settle(turns)

        self.run(work())

    @rule()
    def flush(self) -> None:
        self.run(self.writer.flush())
        assert self.writer.confirmed_txid == (self.appended[-1] if self.appended else -999)

    @rule()
    def roll(self) -> None:
        self.run(self.writer.roll())

    @rule(size=st.sampled_from([0, 100, 400]))
    def change_rolling(self, size: int) -> None:
        self.writer.rolling = RollingPolicy(size, 0)

    @rule()
    def reopen(self) -> None:
        async def work() -> None:
            await self.writer.close()
            await self._open()
            assert self.state.txids == self.appended
            assert self.state.replayed == 0 or not self.wrote, "an index was not used"
            self.wrote = False

        self.run(work())

    @rule(restart=st.booleans(), in_flight=st.integers(0, 3), turns=st.integers(0, 30))
    def crash(self, restart: bool, in_flight: int, turns: int) -> None:
        """The process vanishes; of what is on its way to the bookie only a part arrives."""

        async def work() -> None:
            self.world.bookie.hold()
            await settle(turns)
            self.world.bookie.release(in_flight)
            confirmed = self.writer.confirmed_txid
            self.writer._chain.fail()  # what ran in the process does not run on
            await self.writer._chain._tasks.close()
            if self.reader is not None:
                await self.reader.close()
                self.reader = None
            self.world.bookie._held = None
            if restart:
                await self.world.restart_store()
            await self._open()
            self.wrote = False
            found = self.state.txids
            assert found == self.appended[: len(found)], "a hole"
            assert (found[-1] if found else -999) >= confirmed, "a confirmed record was lost"
            del self.appended[len(found) :]
            assert self.writer.last_txid == (found[-1] if found else -999)

        self.run(work())

    @rule(percent=st.integers(0, 99))
    def truncate(self, percent: int) -> None:
        async def work() -> None:
            if not self.appended:
                return
            await self.writer.flush()
            await self.writer.roll()  # segments in progress are never truncated
            keep = len(self.appended) * percent // 100
            at = await self.log.locate(self.appended[keep])
            if keep < self.first:
                return
            assert at is not None
            await self.log.truncate(at)
            self.first = max(self.first, keep)

        self.run(work())

    @rule()
    def purge(self) -> None:
        async def work() -> None:
            await self.log.refresh()  # a log is opened by its recent segments
            kept = first_readable(self.log.segments, DLSN(0, 0, 0)).lssn
            await self.log.purge_segments(kept)
            await self.writer.flush()
            await self._check_all()

        self.run(work())

    @rule(percent=st.integers(0, 110))
    def locate(self, percent: int) -> None:
        async def work() -> None:
            await self.writer.flush()
            last = self.appended[-1] if self.appended else 0
            txid = last * percent // 100
            expected = [t for t in self.appended[self.first :] if t >= txid][:1]
            at = await self.log.locate(txid)
            if not expected:
                assert at is None
                return
            assert at is not None
            assert [r.txid for d, r in await read_all(self.log, at)][:1] == expected

        self.run(work())

    @rule(max_bytes=st.integers(1, 200))
    def read_on(self, max_bytes: int) -> None:
        """One reader goes through all of it, in small steps, while the rest happens."""

        async def work() -> None:
            if self.reader is None:
                self.reader = await self.log.open_reader(INITIAL)
                self.reader_at, self.reader_log = -1, self.log
            if self.reader._cursor is None:
                self.reader_first = self.first
            confirmed = self.writer.confirmed_txid
            try:
                found = [record.txid for _, record in await self.reader.read(max_bytes)]
            except LogTruncated:
                assert self.reader_at < self.first
                await self.reader.close()
                self.reader = None
                return
            if self.reader_at < 0 and found:
                self.reader_at = self.first  # where it begins is decided by the first record
                if self.reader_log is not self.log and found[0] in self.appended[: self.first]:
                    # Of a former owner's log: when it entered the segment, before it read any.
                    self.reader_at = self.appended.index(found[0], self.reader_first)
            at = max(self.reader_at, 0)
            assert found == self.appended[at : at + len(found)]
            self.reader_at = at + len(found) if found else self.reader_at
            completing = self.writer._chain.roll.phase is RollPhase.COMPLETING
            if not found and self.reader_log is self.log and not completing:
                read = max(self.reader_at, self.first)
                assert not read or self.appended[read - 1] >= confirmed, "not all is readable"
                assert read or confirmed < 0, "not all is readable"

        self.run(work())

    @invariant()
    def segments_are_whole(self) -> None:
        segments = self.log.segments.segments
        sequence = None
        for segment in segments:
            if segment.in_progress:
                break
            if sequence is not None:
                assert segment.start_sequence_id == sequence
            sequence = segment.start_sequence_id + segment.record_count
        assert sum(s.in_progress for s in segments) <= 2


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(
    max_examples=150,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_a_reader_of_a_former_owners_log_begins_where_it_entered_the_segment() -> None:
    machine = LogMachine()
    try:
        machine.read_on(max_bytes=1)
        machine.reopen()
        machine.append(gaps=[1, 1, 1, 1], turns=0)
        machine.flush()
        machine.read_on(max_bytes=1)
        assert machine.reader_at == -1, "it has entered, and knows of no record"
        machine.truncate(percent=25)
        machine.read_on(max_bytes=1)
        assert (machine.reader_at, machine.reader_first, machine.first) == (1, 0, 1)
    finally:
        machine.teardown()
