"""What the cleaner leaves of random batches, against Kafka 4.3.1's own MemoryRecords.filterTo."""

from collections.abc import Iterator
from random import Random

import pytest

from tailrace.compaction.cleaner.transactions import CleanedTransactions
from tailrace.protocol.compression import Codec
from tailrace.protocol.records.batch import LOG_APPEND_TIME, read_header, split_batches
from tailrace.protocol.records.record import iter_records, payload_of
from tests.java.peers import LinePeer
from tests.unit.compaction.cleaner.support import FakeLog

pytestmark = pytest.mark.java

LOGS = 60
PASSES = 4
RETENTION_MS = 100


class FilterPeer(LinePeer):
    """One JVM with Kafka's filter; see clients/FilterPeer.java."""

    def __init__(self) -> None:
        super().__init__("clients", "FilterPeer")

    def filter(self, log: FakeLog) -> list[bytes]:
        """Return what Kafka leaves of a log in a pass over all of it."""
        batches = log.batches()
        holders = [last.last_offset for last in log.last.values()]
        words = [log.now_ms, log.delete_retention_ms, log.next_offset]
        lists = [",".join(map(str, each)) or "-" for each in (holders, discarded(log))]
        line = " ".join(map(str, [*words, *lists, b"".join(batches).hex()]))
        answer = self.line(line)
        assert answer.startswith("="), answer
        left = bytes.fromhex(answer[1:])
        return [left[start:end] for start, end in split_batches(left)]


@pytest.fixture(scope="module")
def peer() -> Iterator[FilterPeer]:
    peer = FilterPeer()
    yield peer
    peer.close()


def discarded(log: FakeLog) -> list[int]:
    """Return the base offsets of batches of aborted records, and of markers of nothing."""
    transactions = CleanedTransactions(log.aborted)
    found = []
    for batch in log.batches():
        header = read_header(batch)
        if header.is_control:
            may_go = transactions.on_control(header, batch)
        else:
            may_go = transactions.on_batch(header)
        if may_go:
            found.append(header.base_offset)
    return found


def fill(log: FakeLog, random: Random, *, one_time: bool) -> None:
    """Append random batches of all kinds, and end every transaction."""
    for _ in range(random.randrange(1, 12)):
        pairs = [
            (
                random.choice([b"a", b"b", b"c", b"d", b"e" * 200]),
                random.choice([None, b"", b"v" * random.randrange(300)]),
            )
            for _ in range(random.randrange(1, 7))
        ]
        producer_id = random.randrange(-1, 3)
        times = [random.randrange(1, 10**12)] * len(pairs)
        if not one_time:
            times = [random.randrange(1, 10**12) for _ in pairs]
        log.append(
            *pairs,
            codec=random.choice([Codec.NONE, *Codec]),
            producer_id=producer_id,
            transactional=producer_id in log.open or (producer_id >= 0 and random.random() < 0.5),
            timestamps=times,
            attributes=LOG_APPEND_TIME if random.random() < 0.2 else 0,
        )
        if log.open and random.random() < 0.4:
            log.end(random.choice(sorted(log.open)), commit=random.random() < 0.5)
    for producer_id in sorted(log.open):
        log.end(producer_id, commit=random.random() < 0.5)
    if random.random() < 0.5:
        log.last.clear()


def alike(ours: bytes, theirs: bytes, *, one_time: bool) -> None:
    """Check two batches: bytes, or what a reader sees where compressors or base times differ."""
    mine, other = read_header(ours), read_header(theirs)
    assert list(iter_records(ours)) == list(iter_records(theirs))
    free = {"crc": 0, "batch_length": 0}
    if not one_time and not mine.attributes & 0x40 and mine.record_count:
        free["base_timestamp"] = 0  # Kafka's is the first record's that is left
    assert mine._replace(**free) == other._replace(**free)
    if "base_timestamp" not in free:
        assert bytes(payload_of(ours)[1]) == bytes(payload_of(theirs)[1])
    if "base_timestamp" not in free and mine.codec == Codec.NONE:
        assert ours == theirs


@pytest.mark.parametrize("one_time", [True, False])
def test_what_is_left_is_what_kafka_leaves(peer: FilterPeer, one_time: bool) -> None:
    rebuilt = 0
    for seed in range(LOGS):
        random = Random(seed)
        log = FakeLog(delete_retention_ms=RETENTION_MS)
        for _ in range(PASSES):
            fill(log, random, one_time=one_time)
            log.roll()
            before = set(log.batches())
            theirs = peer.filter(log)
            log.clean(block=random.randrange(1, 5))
            ours = log.batches()
            assert len(ours) == len(theirs), seed
            for mine, other in zip(ours, theirs, strict=True):
                alike(mine, other, one_time=one_time)
            rebuilt += len(set(ours) - before)
            log.now_ms += random.choice([0, RETENTION_MS - 1, RETENTION_MS])
    assert rebuilt > LOGS
