"""The guarantees of seed 001 under random producers and random passes, against a dict.

A shadow log gets the same batches and is never cleaned: what a reader may miss is judged by it.
"""

from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.compression import Codec
from tests.unit.compaction.cleaner.support import FakeLog, Seen

RETENTION_MS = 50
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"", b"long" * 40])
VALUES = st.none() | st.binary(max_size=40)
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)
TIMES = st.lists(st.integers(0, 5_000), min_size=6, max_size=6)


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


APPEND = st.builds(
    Append, PAIRS, st.sampled_from(list(Codec)), st.integers(-1, 2), st.booleans(), TIMES
)
STEPS = st.lists(
    APPEND
    | APPEND
    | st.builds(End, st.integers(0, 2), st.booleans())
    | st.builds(Clean, st.integers(3, 12), st.integers(1, 4))
    | st.builds(Wait, st.integers(1, 40))
    | st.just(Roll())
    | st.just(Begin()),
    max_size=40,
)


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
                transactional=transactional, timestamps=step.times[: len(step.pairs)],
            )  # fmt: skip

    def clean(self, slots: int, block: int) -> None:
        dirty = self.log.first_dirty
        head = [e for e in self.log.read() if e.offset >= dirty]
        cleaned = self.log.clean(slots, block)
        assert cleaned.end >= dirty
        assert [e for e in self.log.read() if e.offset >= cleaned.end] == [
            e for e in head if e.offset >= cleaned.end
        ], "what the pass does not cover stays"
        self.check_outcome(cleaned.end)

    def check_outcome(self, end: int) -> None:
        """In what is clean each key is there once."""
        tail = [each.key for each in self.log.read(committed=True) if each.offset < end]
        assert len(tail) == len(set(tail))

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


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_the_guarantees_hold_whatever_is_written_and_cleaned(steps: list[object]) -> None:
    world = World()
    for step in steps:
        world.step(step)
    world.check()
    world.log.roll()
    for _ in range(3):
        world.step(Clean(12, 2))
        world.check()
