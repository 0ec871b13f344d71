"""Which produced batches are taken, and how they are stored, against Kafka 4.3.1's LogValidator."""

import struct
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from tailrace.protocol.compression import Codec
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.records.batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    is_headed,
    stamp,
    stamp_crc,
    stamp_log_append_time,
    with_header,
)
from tailrace.protocol.records.record import Record, build_batch
from tailrace.protocol.records.validate import UNBOUNDED_MS, InvalidBatch, ProduceRules, check_batch
from tests.java.peers import LinePeer
from tests.malformed import CASES, TIME_MS

pytestmark = pytest.mark.java

HOUR_MS = 3_600_000
MAX_TIMESTAMP_AT = 35
RULES = ProduceRules(1 << 20, False, UNBOUNDED_MS, HOUR_MS, False, True)


class ValidatorPeer(LinePeer):
    """One JVM with Kafka's validator; see validator/ValidatorPeer.java."""

    def __init__(self) -> None:
        super().__init__("validator", "ValidatorPeer")

    def judge(self, batch: bytes, rules: ProduceRules, now_ms: int) -> tuple[int, str]:
        """Return the error code and the indexes of refused records; 0 and the stored batch."""
        words = [
            now_ms,
            int(rules.compacted),
            int(rules.log_append_time),
            rules.timestamp_before_max_ms,
            rules.timestamp_after_max_ms,
            batch.hex(),
        ]
        answer = self.line(" ".join(map(str, words)))
        if answer.startswith("="):
            return 0, answer[1:]
        code, _, indexes = answer[1:].partition(" ")
        return int(code), indexes


@pytest.fixture(scope="module")
def peer() -> Iterator[ValidatorPeer]:
    peer = ValidatorPeer()
    yield peer
    peer.close()


def test_what_kafka_makes_of_malformed_batches(peer: ValidatorPeer) -> None:
    """The table that the other tests of malformed batches go by is Kafka's own word."""
    said = {each.name: peer.judge(each.batch, RULES, TIME_MS)[0] for each in CASES}
    assert {name: not code for name, code in said.items()} == {
        each.name: each.is_taken for each in CASES
    }


def ours(batch: bytes, rules: ProduceRules) -> tuple[int, str]:
    """Return what a partition answers and stores, as the peer does."""
    try:
        header = check_batch(memoryview(batch), rules, TIME_MS)
    except InvalidBatch as error:
        return error.code, ",".join(str(index) for index, _ in error.record_errors)
    stored = bytearray(batch)
    stamp(stored, 0, 0)
    if rules.log_append_time:
        stamp_log_append_time(stored, TIME_MS)
    elif not is_headed(stored, header):
        stored = bytearray(with_header(memoryview(stored), header))
        stamp(stored, 0, 0)
    return 0, stored.hex()


def theirs(peer: ValidatorPeer, batch: bytes, rules: ProduceRules) -> tuple[int, str]:
    code, said = peer.judge(batch, rules, TIME_MS)
    if code == ErrorCode.UNKNOWN_SERVER_ERROR:  # what Kafka did not foresee
        code = ErrorCode.INVALID_RECORD
    return code, said


def test_malformed_batches_get_kafkas_codes_or_are_stored_alike(peer: ValidatorPeer) -> None:
    for rules in (RULES, RULES._replace(compacted=True)):
        for each in CASES:
            assert ours(each.batch, rules) == theirs(peer, each.batch, rules), each.name


def padded(codec: Codec, padding: bytes) -> bytes:
    batch = build_batch([Record(at, TIME_MS, value=b"v" * 60) for at in range(5)], codec)
    batch += padding
    struct.pack_into(">i", batch, 8, len(batch) - LOG_OVERHEAD)
    stamp_crc(batch)
    return bytes(batch)


@pytest.mark.parametrize("codec", list(Codec))
def test_padding_behind_what_is_compressed(peer: ValidatorPeer, codec: Codec) -> None:
    for padding in (bytes(1), bytes(8), bytes(40), b"abc", b"abc" * 20):
        batch = padded(codec, padding)
        (code, stored), (kafkas, _) = ours(batch, RULES), theirs(peer, batch, RULES)
        if codec == Codec.SNAPPY and len(padding) < 4:  # librdkafka does not read it
            assert (code, kafkas) == (ErrorCode.INVALID_RECORD, 0)
        else:
            assert code == kafkas, padding
        assert (code == 0) == (codec in (Codec.GZIP, Codec.LZ4)), padding
        if codec == Codec.LZ4:
            assert len(stored) // 2 == len(padded(codec, b"")), "nor this: it is cut off"


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_streams_that_are_cut_or_wrong(peer: ValidatorPeer, codec: Codec) -> None:
    whole = padded(codec, b"")
    for at in range(HEADER_SIZE, len(whole), 3):
        cut, changed = bytearray(whole[:at]), bytearray(whole)
        struct.pack_into(">i", cut, 8, len(cut) - LOG_OVERHEAD)
        changed[at] ^= 0x55
        for batch in (cut, changed):
            stamp_crc(batch)
            assert ours(bytes(batch), RULES)[0] == theirs(peer, bytes(batch), RULES)[0], at


def test_random_batches_get_kafkas_codes_or_are_stored_alike(peer: ValidatorPeer) -> None:
    random = Random(21)
    times = [-1, -7, 0, TIME_MS - 2 * HOUR_MS, TIME_MS, TIME_MS + HOUR_MS, TIME_MS + HOUR_MS + 1]
    outcomes: Counter[int] = Counter()
    for _ in range(800):
        rules = RULES._replace(
            compacted=random.random() < 0.3,
            log_append_time=random.random() < 0.2,
            timestamp_before_max_ms=random.choice([UNBOUNDED_MS, UNBOUNDED_MS, HOUR_MS]),
        )
        records = [
            Record(
                at, random.choice(times[2:] if at else times), key=random.choice([b"k", b"k", None])
            )
            for at in range(random.randrange(1, 5))
        ]
        batch = build_batch(records, random.choice(list(Codec)))
        struct.pack_into(">q", batch, MAX_TIMESTAMP_AT, random.choice([*times, 1 << 62]))
        batch[22] |= random.choice([0, 0, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, 0x40, 0x80])
        stamp_crc(batch)
        found = ours(batch, rules)
        outcomes[found[0]] += 1
        assert found == theirs(peer, batch, rules), (records, rules)
    assert set(outcomes) == {0, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP}
