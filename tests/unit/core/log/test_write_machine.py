"""Everything that a writer offers, in any order, against a list of values.

What is in the log is always a prefix of what was taken, whole record sets only; each position that
was told is where a reader finds that very value; what was committed is there for other processes.
What a crash leaves depends on how far the store's thread came, so no draw depends on the log.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tailrace.core.errors import (
    CoreError,
    EndOfStream,
    LogRecordTooLong,
    TransactionIdOutOfOrder,
    WriteCancelled,
)
from tailrace.core.log.config import RECORD_BYTES_MAX, CompressionType
from tailrace.core.log.receipts import BulkReceipt, cut_runs
from tailrace.core.log.transmit import ControlPolicy, TransmitPolicy
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tailrace.protocol.distributedlog.record import record_parts
from tests.unit.core.log.world import QUIET, Listener, World, settle

if TYPE_CHECKING:
    from tailrace.core.log.log import Log
    from tailrace.core.log.writer import LogWriter

POLICIES = [
    TransmitPolicy.immediate(),
    TransmitPolicy.buffered(60),
    TransmitPolicy.buffered(100_000),
    TransmitPolicy.periodic(1),
]
CONTROLS = [ControlPolicy(), ControlPolicy(is_immediate=True), ControlPolicy(quiet_ms=1)]
COUNTS = st.integers(1, 5)
SIZES = (0, 300_000)
"""Of the latter three fit into an entry."""


async def values_of(log: "Log") -> list[tuple[DLSN, bytes]]:
    found: list[tuple[DLSN, bytes]] = []
    reader = await log.open_reader(INITIAL)
    try:
        while batch := await reader.read(1 << 20):
            found += [(dlsn, bytes(record.payload)) for dlsn, record in batch]
    except EndOfStream:
        pass
    finally:
        await reader.close()
    return found


class Place:
    """The position of one record of a bulk, in the place of a future."""

    def __init__(self, receipt: BulkReceipt, index: int) -> None:
        self._receipt, self._index = receipt, index

    def __await__(self) -> Generator[Any, Any, DLSN]:
        yield from self._receipt.done.__await__()
        return self.result()

    def done(self) -> bool:
        return self._receipt.done.done() or self._index < self._receipt.confirmed

    def exception(self) -> CoreError | None:
        return None if self._index < self._receipt.confirmed else self._receipt.error

    def result(self) -> DLSN:
        ((dlsn, count),) = cut_runs(self._receipt.runs, self._index, 1)
        assert count == 1
        return dlsn


class WriteMachine(RuleBasedStateMachine):
    """`taken`: the values that the writer took, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.path = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").exists() else None))
        self.taken: list[bytes] = []
        self.told: list[tuple[int, asyncio.Future[DLSN] | Place]] = []
        """(index of the value, its position to be)."""
        self.sets: list[tuple[int, int]] = []
        self.txid = 0
        self.run(self._set_up())

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    async def _set_up(self) -> None:
        self.world = World(self.path, config=QUIET)
        await initialize_layout(self.world.store, instance_id="test")
        await self._open()

    async def _open(self) -> None:
        self.log: Log = await self.world.log(unacked_entries_max=3, compression=CompressionType.LZ4)
        self.listener = Listener()
        self.writer: LogWriter = await self.log.open_writer(self.listener)

    def teardown(self) -> None:
        self.run(self._tear_down())
        self.runner.close()
        shutil.rmtree(self.path)

    async def _tear_down(self) -> None:
        await self.writer.mark_end_of_stream()
        await self.writer.close()
        await self._check_told()
        assert [value for _, value in await values_of(self.log)] == self.taken
        await self.world.store.close()

    async def _check_told(self) -> None:
        found = dict(enumerate(await values_of(self.log)))
        for index, position in self.told:
            assert found[index] == (await position, self.taken[index])
        self.told.clear()

    def _next(self, count: int) -> list[bytes]:
        values = [b"v%d " % (len(self.taken) + number) * 3 for number in range(count)]
        self.taken += values
        self.txid += 1
        return values

    @rule(turns=st.integers(0, 3), asks=st.booleans())
    def write(self, turns: int, asks: bool) -> None:
        async def work() -> None:
            (value,) = self._next(1)
            if asks:
                position = self.writer.write(self.txid, value)
                self.told.append((len(self.taken) - 1, position))
            else:
                self.writer.append(self.txid, (value,), len(value))
            await settle(turns)

        self.run(work())

    @rule(count=COUNTS, compression=st.sampled_from(CompressionType), turns=st.integers(0, 3))
    def write_set(self, count: int, compression: CompressionType, turns: int) -> None:
        async def work() -> None:
            first = len(self.taken)
            values = self._next(count)
            self.sets.append((first, first + count))
            position = self.writer.append_set(self.txid, values, compression)
            self.told.append((first, position))
            await settle(turns)

        self.run(work())

    @rule(count=COUNTS, bad=st.integers(0, 9), turns=st.integers(0, 3))
    def write_bulk(self, count: int, bad: int, turns: int) -> None:
        """`bad`: the number of the record that is refused, if there is one."""

        async def work() -> None:
            first = len(self.taken)
            good = min(bad, count)
            values = [*self._next(good), *[b"never"] * (count - good)]
            records = [
                record_parts(self.txid if n != bad else -1, (value,), len(value))
                for n, value in enumerate(values)
            ]
            futures = self.writer.append_many(records)
            self.told += [(first + n, future) for n, future in enumerate(futures[:good])]
            errors = [type(future.exception()) for future in futures[good:]]
            assert errors == [TransactionIdOutOfOrder, *[WriteCancelled] * count][: count - good]
            await settle(turns)

        self.run(work())

    @rule(count=COUNTS, bad=st.integers(0, 9), turns=st.integers(0, 3), size=st.sampled_from(SIZES))
    def write_together(self, count: int, bad: int, turns: int, size: int) -> None:
        """`bad`: the number of the record that is too long, if there is one."""

        async def work() -> None:
            first = len(self.taken)
            good = min(bad, count)
            values = [each.ljust(size) for each in self._next(good)]
            self.taken[first:] = values
            too_long = [bytes(RECORD_BYTES_MAX + 1)] * (count - good)
            receipt = self.writer.append_bulk(self.txid, values + too_long)
            assert (receipt.count, receipt.taken) == (count, good)
            assert isinstance(receipt.refusal, LogRecordTooLong) is (good < count)
            self.told += [(first + n, Place(receipt, n)) for n in range(good)]
            await settle(turns)

        self.run(work())

    @rule()
    def flush(self) -> None:
        async def work() -> None:
            await self.writer.flush()
            assert all(position.done() for _, position in self.told)
            await self._check_told()

        self.run(work())

    @rule()
    def commit(self) -> None:
        async def work() -> None:
            await self.writer.commit()
            other = await self.world.log(client_id="other")
            assert [value for _, value in await values_of(other)] == self.taken
            await other.close()

        self.run(work())

    @rule()
    def roll(self) -> None:
        self.run(self.writer.roll())

    @rule(policy=st.sampled_from(POLICIES))
    def change_policy(self, policy: TransmitPolicy) -> None:
        async def work() -> None:
            self.writer.set_policy(policy)

        self.run(work())

    @rule(policy=st.sampled_from(CONTROLS))
    def change_control(self, policy: ControlPolicy) -> None:
        async def work() -> None:
            self.writer.set_control_policy(policy)

        self.run(work())

    @rule(in_flight=st.integers(0, 3), turns=st.integers(0, 20))
    def crash(self, in_flight: int, turns: int) -> None:
        """The process vanishes; of what is on its way to the bookie only a part arrives."""

        async def work() -> None:
            self.world.bookie.hold()
            await settle(turns)
            self.world.bookie.release(in_flight)
            self.writer._control.close()
            self.writer._chain.fail()
            await self.writer._chain._tasks.close()
            known = [(n, p.result()) for n, p in self.told if p.done() and not p.exception()]
            self.world.bookie._held = None
            await self.world.restart_store()
            await self._open()
            found = await values_of(self.log)
            values = [value for _, value in found]
            assert values == self.taken[: len(values)], "a hole"
            for index, dlsn in known:
                assert found[index][0] == dlsn, "an acknowledged value was lost"
            assert not any(start < len(values) < end for start, end in self.sets), "half a set"
            del self.taken[len(values) :]
            self.sets = [each for each in self.sets if each[1] <= len(values)]
            self.told.clear()

        self.run(work())

    @rule()
    def fail(self) -> None:
        """The ledger refuses what comes; whoever waits hears of it, and the log is opened again."""

        async def work() -> None:
            segment = self.writer._chain.writable
            if segment is None:
                return
            segment.abort()
            try:
                self.writer.append(self.txid + 1, (b"lost",), 4)
                await self.writer.flush()
            except CoreError:
                assert len(self.listener.errors) == 1
            for _, position in self.told:
                assert position.done()
            await self._open_after_failure()

        self.run(work())

    async def _open_after_failure(self) -> None:
        await self.writer.abort()
        await self._open()
        found = [value for _, value in await values_of(self.log) if value != b"lost"]
        assert found == self.taken[: len(found)], "a hole"
        del self.taken[len(found) :]
        self.sets = [each for each in self.sets if each[1] <= len(found)]
        self.told.clear()


TestWriteMachine = WriteMachine.TestCase
TestWriteMachine.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
