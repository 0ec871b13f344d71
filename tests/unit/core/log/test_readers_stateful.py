"""Readers at any position, over a log that is written, rolled, recovered and truncated meanwhile.

The oracle is what the log holds in the end: each reader must have got exactly that, from its
position on. Half of the readers are another process'. What a crash leaves depends on how far the
store's thread came, so no draw depends on the log.
"""

import asyncio
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from typing_extensions import override

from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.protocol.bookkeeper.messages import AddRequest, Request, StatusCode
from tailrace.protocol.distributedlog.dlsn import DLSN
from tests.unit.core.ledger.fake_bookie import no_fault
from tests.unit.core.log.world import QUIET, Listener, World, put, read_all, settle

if TYPE_CHECKING:
    from tailrace.core.log.log import Log
    from tailrace.core.log.reader import LogReader
    from tailrace.core.log.writer import LogWriter

READERS_MAX = 6


def _lose_adds(request: Request) -> StatusCode | None:
    return StatusCode.LOCAL_UNAVAILABLE if isinstance(request, AddRequest) else None


@dataclass
class Following:
    """A reader, and what it gave out."""

    reader: "LogReader"
    start: DLSN | int
    first: int
    """The oldest record that was kept when it began."""
    found: list[int] = field(default_factory=list)

    def wants(self, dlsn: DLSN, txid: int) -> bool:
        at = self.start
        is_behind = dlsn >= at if isinstance(at, DLSN) else txid >= at
        return is_behind and txid >= self.first


class ReadersMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.path = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").exists() else None))
        self.next_txid = 0
        self.confirmed: list[int] = []
        self.first = 0
        self.followings: list[Following] = []
        self.run(self._set_up())

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    async def _set_up(self) -> None:
        self.world = World(self.path, config=QUIET)
        await initialize_layout(self.world.store, instance_id="test")
        self.log: Log = await self.world.log(read_ahead_entries=4)
        self.other: Log = await self.world.log(
            client_id="other", lac_poll_ms=1, read_ahead_entries=3, read_cache_bytes=5000
        )
        self.writer: LogWriter = await self.log.open_writer(Listener())

    @override
    def teardown(self) -> None:
        self.run(self._tear_down())
        self.runner.close()
        shutil.rmtree(self.path)

    async def _tear_down(self) -> None:
        await self.writer.close()
        held = [(dlsn, record.txid) for dlsn, record in await read_all(self.log)]
        assert [txid for txid in self.confirmed if txid >= self.first] == [
            txid for _, txid in held if txid in set(self.confirmed)
        ]
        whole = await self.world.log(client_id="whole", ignores_truncation=True)
        everything = [(dlsn, record.txid) for dlsn, record in await read_all(whole)]
        for each in self.followings:
            await self._read(each, 1 << 20)  # the first read decides where it begins
            expected = [txid for dlsn, txid in everything if each.wants(dlsn, txid)]
            async with asyncio.timeout(20):
                while len(each.found) < len(expected):
                    await self._read(each, 1 << 20)
                    await settle()
            await self._read(each, 1 << 20)
            assert each.found == expected
            await each.reader.close()
        for log in (self.log, self.other):
            assert log._context.entries.used_bytes == 0, "entries are held for nobody"
            await log.close()
        await self.world.store.close()

    async def _read(self, each: Following, max_bytes: int) -> None:
        if not each.reader._is_positioned:
            each.first = self.first
        entries = await each.reader.read_entries(max_bytes)
        each.found += [txid for entry in entries for txid in entry.columns.txids]

    async def _note_confirmed(self) -> None:
        await self.writer.flush()
        self.confirmed += range(len(self.confirmed) and self.confirmed[-1] + 1, self.next_txid)

    @rule(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=5))
    def append(self, sizes: list[int]) -> None:
        async def work() -> None:
            for size in sizes:
                for _ in range(size):
                    put(self.writer, self.next_txid)
                    self.next_txid += 1
                await self._note_confirmed()

        self.run(work())

    @rule()
    def roll(self) -> None:
        self.run(self.writer.roll())

    @rule()
    def publish(self) -> None:
        """Let the bookies know how far it is confirmed."""
        segment = self.writer._chain.current
        if segment is not None:
            self.run(self._publish(segment))

    async def _publish(self, segment: Any) -> None:
        segment.add_control()
        await settle()

    @rule(count=st.integers(0, 4), arrive=st.integers(0, 3), begins=st.booleans())
    def crash(self, count: int, arrive: int, begins: bool) -> None:
        """The owner ends with records on their way; `begins`: in a segment that has none yet."""

        async def work() -> None:
            if begins:
                await self.writer.roll()
            self.world.bookie.hold()
            for _ in range(count):
                put(self.writer, self.next_txid)
                self.next_txid += 1
                await settle(2)
            self.world.bookie.release(arrive)
            await settle()
            await self.writer.abort()
            self.world.bookie.fault = _lose_adds
            self.world.bookie.release()  # what readers asked for meanwhile is answered
            self.world.bookie.fault = no_fault
            self.writer = await self.log.open_writer(Listener())
            self.next_txid = max(self.writer.last_txid + 1, 0)
            self.confirmed += range(len(self.confirmed) and self.confirmed[-1] + 1, self.next_txid)

        self.run(work())

    @rule(percent=st.integers(0, 99))
    def truncate(self, percent: int) -> None:
        async def work() -> None:
            if not self.confirmed:
                return
            keep = self.confirmed[len(self.confirmed) * percent // 100]
            await self.writer.roll()
            if keep > self.first:
                at = await self.log.locate(keep)
                assert at is not None
                await self.log.truncate(at)
                self.first = keep

        self.run(work())

    @precondition(lambda self: len(self.followings) < READERS_MAX)
    @rule(
        owner=st.booleans(),
        start=st.one_of(
            st.integers(0, 60),
            st.builds(DLSN, st.integers(0, 6), st.integers(0, 9), st.integers(0, 2)),
        ),
    )
    def open(self, owner: bool, start: DLSN | int) -> None:
        async def work() -> None:
            log = self.log if owner else self.other
            first = self.first
            self.followings.append(Following(await log.open_reader(start), start, first))

        self.run(work())

    @precondition(lambda self: self.followings)
    @rule(which=st.integers(0, READERS_MAX - 1), max_bytes=st.sampled_from([1, 60, 5000]))
    def read_on(self, which: int, max_bytes: int) -> None:
        self.run(self._read(self.followings[which % len(self.followings)], max_bytes))

    @precondition(lambda self: self.followings)
    @rule(which=st.integers(0, READERS_MAX - 1), turns=st.integers(0, 12))
    def read_and_cancel(self, which: int, turns: int) -> None:
        async def work() -> None:
            each = self.followings[which % len(self.followings)]
            task = asyncio.get_running_loop().create_task(self._read(each, 5000))
            await settle(turns)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        self.run(work())

    @precondition(lambda self: self.followings)
    @rule(which=st.integers(0, READERS_MAX - 1))
    def wait_and_read(self, which: int) -> None:
        async def work() -> None:
            each = self.followings[which % len(self.followings)]
            with suppress(TimeoutError):
                async with asyncio.timeout(0.005):
                    await each.reader.wait_for_more()
            await self._read(each, 1 << 20)

        self.run(work())


TestReadersMachine = ReadersMachine.TestCase
TestReadersMachine.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
