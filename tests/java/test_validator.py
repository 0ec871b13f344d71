"""Which produced batches are taken, and how they are stored, against Kafka 4.3.1's LogValidator."""

from collections.abc import Iterator

import pytest

from protocol.errors import ErrorCode
from protocol.records.validate import UNBOUNDED_MS, InvalidBatch, ProduceRules, check_batch
from tests.java.peers import LinePeer
from tests.malformed import CASES, TIME_MS

pytestmark = pytest.mark.java

HOUR_MS = 3_600_000
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


def ours(batch: bytes, rules: ProduceRules) -> int:
    try:
        check_batch(memoryview(batch), rules, TIME_MS)
    except InvalidBatch as error:
        return error.code
    return 0


def test_codes_are_kafkas(peer: ValidatorPeer) -> None:
    for each in CASES:
        code, _ = peer.judge(each.batch, RULES, TIME_MS)
        if code == ErrorCode.UNKNOWN_SERVER_ERROR:  # what Kafka did not foresee
            code = ErrorCode.INVALID_RECORD
        assert ours(each.batch, RULES) == code, each.name
