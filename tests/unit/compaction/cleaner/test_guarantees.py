"""The guarantees of seed 001 under random producers and random passes, against a dict.

A shadow log gets the same batches and is never cleaned: what a reader may miss is judged by it.
"""

import os
from random import Random
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.compaction.cleaner.outcome import SegmentOutcome
from tailrace.protocol.compression import Codec
from tailrace.protocol.records.batch import read_header
from tailrace.protocol.records.record import iter_records
from tests.unit.compaction.cleaner.support import FakeLog, Seen

EXAMPLES = int(os.environ.get("CLEANER_EXAMPLES", "20"))
RETENTION_MS = 50
STEPS = 60
KEYS = [b"a", b"b", b"c", b"d", b"", b"long" * 40]
VALUES = [None, b"", b"x" * 30, b"y" * 300]


class Append(NamedTuple):
    pairs: list[tuple[bytes, bytes | None]]
    codec: Codec
    producer_id: int
    transactional: bool
    times: list[int]


class End(NamedTuple):
    producer_id: int
    commit: bool


class Clean(NamedTuple):
    slots: int
    block: int


class Wait(NamedTuple):
    ms: int


class Begin(NamedTuple):
    """A reader from 0 begins; it reads one segment at each later `Begin` or `Clean`."""


class Roll(NamedTuple):
    pass


def draw(random: Random) -> object:
    """Draw the next step."""
    kind = random.random()
    if kind < 0.5:
        pairs = [
            (random.choice(KEYS), random.choice(VALUES)) for _ in range(random.randrange(1, 7))
        ]
        times = [random.randrange(5_000) for _ in pairs]
        codec, transactional = random.choice(list(Codec)), random.random() < 0.4
        return Append(pairs, codec, random.randrange(-1, 3), transactional, times)
    if kind < 0.65:
        return End(random.randrange(3), random.random() < 0.5)
    if kind < 0.75:
        return Clean(random.randrange(3, 13), random.randrange(1, 5))
    if kind < 0.83:
        return Wait(random.randrange(1, 41))
    return Roll() if kind < 0.95 else Begin()


class Reader:
    """Reads a log from 0, a segment at a time, as its cleaning goes on; keeps the state it sees."""

    def __init__(self, log: FakeLog) -> None:
        self.log = log
        self.began_ms = log.now_ms
        self.position = 0
        self.seen: list[Seen] = []

    def step(self) -> None:
        bounds = [*self.log.bases[1:], self.log.next_offset]
        end = next((bound for bound in bounds if bound > self.position), self.position)
        self.seen += [e for e in self.log.read(self.position, committed=True) if e.offset < end]
        self.position = min(end, self.log.last_stable_offset)

    @property
    def is_in_time(self) -> bool:
        return self.log.now_ms - self.began_ms < RETENTION_MS


class World:
    def __init__(self) -> None:
        self.log = FakeLog(delete_retention_ms=RETENTION_MS)
        self.shadow = FakeLog()
        self.readers: list[Reader] = []

    def step(self, step: object) -> None:
        match step:
            case Append():
                self.append(step)
            case End():
                self.end(step)
            case Clean(slots, block):
                self.clean(slots, block)
            case Wait(ms):
                self.log.now_ms += ms
            case Roll():
                self.log.roll()
            case _:
                self.readers.append(Reader(self.log))
        for reader in self.readers:
            reader.step()

    def end(self, step: End) -> None:
        if step.producer_id in self.log.open:
            for log in (self.log, self.shadow):
                log.end(step.producer_id, commit=step.commit)

    def append(self, step: Append) -> None:
        transactional = step.producer_id >= 0 and (
            step.transactional or step.producer_id in self.log.open
        )
        for log in (self.log, self.shadow):
            log.append(
                *step.pairs, codec=step.codec, producer_id=step.producer_id,
                transactional=transactional, timestamps=step.times,
            )  # fmt: skip

    def clean(self, slots: int, block: int) -> None:
        dirty = self.log.first_dirty
        before = {each.offset for each in self.log.read()}
        cleaned = self.log.clean(slots, block)
        assert cleaned.end >= dirty
        gone = before - {each.offset for each in self.log.read()}
        committed = {each.offset for each in self.shadow.read(committed=True)}
        assert not {e for e in gone & committed if e >= cleaned.end}, "the pass does not cover it"
        tail = [each.key for each in self.log.read() if each.offset < cleaned.end]
        assert len(tail) == len(set(tail)), "a key twice in what is clean"
        for segment, outcome in zip(self.log.segments, cleaned.outcomes, strict=False):
            self.check_counts(segment, outcome)

    def check_counts(self, segment: list[bytes], outcome: SegmentOutcome) -> None:
        headers = [read_header(batch) for batch in segment]
        records = [
            record
            for batch, header in zip(segment, headers, strict=True)
            for record in iter_records(batch)
            if not header.is_control
        ]
        assert outcome.batches == len(segment)
        assert outcome.records == sum(header.record_count for header in headers)
        assert outcome.bytes_out == sum(map(len, segment))
        assert outcome.tombstones == sum(record.value is None for record in records)
        assert outcome.keys in (None, len({record.key for record in records}))
        assert outcome.max_timestamp == max([h.max_timestamp for h in headers], default=-1)

    def check(self) -> None:
        original = {each.offset: each for each in self.shadow.read()}
        left = self.log.read()
        offsets = [each.offset for each in left]
        assert offsets == sorted(set(offsets)), "order"
        assert all(original[each.offset] == each for each in left), "no record is changed or moved"
        assert self.log.table() == self.shadow.table(), "the last value of each key"
        committed = {each.offset for each in self.shadow.read(committed=True)}
        assert {e.offset for e in self.log.read(committed=True)} <= committed
        assert self.log.headers()[-1:] == [] or self.last_offset() == self.shadow.next_offset - 1
        self.check_sequences()
        for reader in self.readers:
            self.check_reader(reader)

    def last_offset(self) -> int:
        return self.log.headers()[-1].last_offset

    def check_sequences(self) -> None:
        """Of each producer the batch with its last sequence is there, with or without records."""
        for producer_id, last in self.shadow.last.items():
            theirs = [h for h in self.shadow.headers() if h.last_offset == last.last_offset]
            ours = [h for h in self.log.headers() if h.last_offset == last.last_offset]
            for mine, other in zip(ours, theirs, strict=True):
                assert mine.producer_id == producer_id
                assert mine.last_sequence == other.last_sequence
                assert mine.base_offset == other.base_offset

    def check_reader(self, reader: Reader) -> None:
        """Who began at 0 and is in time has the state of a log that was never cleaned."""
        while reader.position < self.log.last_stable_offset:
            reader.step()
        if not reader.is_in_time:
            return
        state: dict[bytes | None, bytes | None] = {}
        for seen in reader.seen:
            state[seen.key] = seen.value
        stable = reader.position
        expected: dict[bytes | None, bytes | None] = {}
        for seen in self.shadow.read(committed=True):
            if seen.offset < stable:
                expected[seen.key] = seen.value
        alive = {key: value for key, value in state.items() if value is not None}
        assert alive == {key: value for key, value in expected.items() if value is not None}


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_guarantees_hold_whatever_is_written_and_cleaned(seed: int) -> None:
    random = Random(seed)
    world = World()
    for _ in range(STEPS):
        world.step(draw(random))
    world.check()
    world.log.roll()
    for _ in range(3):
        world.step(Clean(12, 2))
        world.check()
