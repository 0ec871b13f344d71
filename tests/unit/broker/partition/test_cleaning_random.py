"""A random client against the cleaner, failures of it and restarts: readers see what they must."""

from random import Random
from typing import NamedTuple

import pytest

from tailrace.broker.partition.appends import AppendResult
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.view_reads import Allowance
from tailrace.broker.partition.views import PartitionViews
from tailrace.core.errors import Unavailable
from tailrace.protocol.compression import Codec
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.records.batch import TRANSACTIONAL, read_header
from tailrace.protocol.records.record import Producer, Record, build_batch
from tests.unit.broker.fakes import World, make_world
from tests.unit.broker.loops import in_loop
from tests.unit.broker.partition.key_oracle import inline, read_held
from tests.unit.broker.partition.test_cleaning import FailingSteps, cleaning, compacted

KEYS = [b"key-%d" % n for n in range(6)]
STEPS = 60
WEIGHTS = {"write": 8, "end": 3, "roll": 4, "clean": 2, "fail": 1, "reopen": 1}
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


class Kept(NamedTuple):
    """The newest committed change of a key."""

    offset: int
    value: bytes | None


class Client:
    """Writes at random, and knows what a reader of committed records must end with."""

    def __init__(self, random: Random, world: World, log: PartitionLog) -> None:
        self.random, self.world, self.log = random, world, log
        self.views = PartitionViews(inline, 1 << 20, world.clock)
        self.table: dict[bytes, Kept] = {}
        self.open: dict[int, dict[bytes, Kept]] = {}
        self.next_sequence: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.last_batch: dict[int, tuple[memoryview, int]] = {}
        self.number = 0

    async def write(self) -> None:
        """Append a batch: plain, idempotent or of a transaction."""
        producer = self.random.choice([-1, 1, 2, 11, 12])
        changes = [self._change() for _ in range(self.random.randint(1, 3))]
        records = [
            Record(offset=n, key=key, value=value, timestamp=self.world.clock.now_ms())
            for n, (key, value) in enumerate(changes)
        ]
        sequence = self.next_sequence.get(producer, 0)
        built = build_batch(
            records,
            codec=self.random.choice(CODECS),
            producer=Producer(producer, self.epochs.get(producer, 0), sequence)
            if producer > 0
            else Producer(),
            attributes=TRANSACTIONAL if producer > 10 else 0,
        )
        sent = memoryview(bytearray(built))
        found = await self.log.append(sent, self.log.check(sent), verified=producer > 10)
        assert isinstance(found, AppendResult), found
        rows = self.open.setdefault(producer, {}) if producer > 10 else self.table
        for n, (key, value) in enumerate(changes):
            rows[key] = Kept(found.base_offset + n, value)
        if producer > 0:
            self.next_sequence[producer] = sequence + len(changes)
            self.last_batch[producer] = (memoryview(bytearray(built)), found.base_offset)

    async def end(self) -> None:
        """Commit or abort a transaction: producer 12's are of version 2, which raises the epoch."""
        if self.open:
            producer = self.random.choice(sorted(self.open))
            rows, committed = self.open.pop(producer), self.random.random() < 0.5
            epoch = self.epochs.get(producer, 0)
            if producer == 12:
                self.epochs[producer] = epoch = epoch + 1
                self.next_sequence[producer] = 0
            found = await self.log.append_marker(producer, epoch, 0, committed)
            assert isinstance(found, AppendResult), found
            if committed:
                for key, kept in rows.items():
                    if kept.offset > self.table.get(key, Kept(-1, None)).offset:
                        self.table[key] = kept

    async def end_all(self) -> None:
        while self.open:
            await self.end()

    def _change(self) -> tuple[bytes, bytes | None]:
        self.number += 1
        value = None if self.random.random() < 0.25 else b"value-%d" % self.number
        return self.random.choice(KEYS), value

    async def reopen(self) -> None:
        await self.world.broker.partitions.close_partition(TopicPartition("t", 0))
        end = self.log.log_end_offset
        self.log = await self.world.open("t")
        assert self.log.log_end_offset == end

    async def check(self) -> None:
        """Hold the log against the table, as far as it is decided, and what views say of it."""
        log = self.log
        stable = log.last_stable_offset
        held = await read_held(log)
        got = {each.key: Kept(each.offset, each.value) for each in held.latest}
        if self.random.random() < 0.5:  # else the next time has more to read
            counted = await self.views.count(log, Allowance())
            assert counted == (stable, *held[:3], held.live_keys, 0, None)
        if self.random.random() < 0.5:
            assert (await self.views.latest(log, 100, None, Allowance())).records == held.latest
        if stable == log.high_watermark:  # else some of what the table has cannot be read yet
            assert _live(got) == _live(self.table)
        await self._check_order()

    async def _check_order(self) -> None:
        offset = self.log.log_start_offset
        while batches := await self.log.read(offset, 10_000):
            for batch in batches:
                header = read_header(batch)
                assert header.base_offset >= offset
                offset = header.last_offset + 1
        assert offset <= self.log.log_end_offset

    async def check_repeats(self) -> None:
        """Send each producer's last batch again: it is known where it went."""
        for batch, base in self.last_batch.values():
            copy = memoryview(bytearray(batch))
            header = read_header(copy)
            if header.attributes & TRANSACTIONAL:
                continue  # a marker ended it
            found = await self.log.append(copy, header)
            assert isinstance(found, AppendResult)
            assert found.base_offset == base


def _live(table: dict[bytes, Kept]) -> dict[bytes, Kept]:
    return {key: kept for key, kept in table.items() if kept.value is not None}


@pytest.mark.parametrize("seed", range(12))
@in_loop
async def test_readers_see_what_they_must(seed: int) -> None:
    random = Random(seed)
    world = make_world()
    log = await compacted(world, min_cleanable_dirty_ratio="0", delete_retention_ms="100000")
    client = Client(random, world, log)
    async with cleaning(world) as pool:
        for _ in range(STEPS):
            (what,) = random.choices(list(WEIGHTS), list(WEIGHTS.values()))
            if what == "write":
                await client.write()
            elif what == "end":
                await client.end()
            elif what == "roll":
                await client.log.roll()
            elif what == "clean":
                await pool.clean_filthiest()
            elif what == "fail":
                failing = FailingSteps(
                    world.log("t"), at=random.randrange(12), error=Unavailable("killed")
                )
                await pool.clean_filthiest()
                failing.restore()
                world.clock.advance_ms(60_000)
            else:
                await client.reopen()
            await client.check()
        await client.end_all()
        await client.log.roll()
        world.clock.advance_ms(60_000)
        while await pool.clean_filthiest():
            pass
        await client.check()
        await client.reopen()
        await client.check()
        await client.check_repeats()
        assert (await read_held(client.log)).records <= len(KEYS)
    assert pool.status()["uncleanable"] == []
