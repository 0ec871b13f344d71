"""Proxies and their clients are killed: a few times here, as often as wanted by hand.

python -m tests.cluster.proxy_kills --kills 60
"""

from pathlib import Path
from random import SystemRandom

import pytest

from tailrace.protocol.distributedlog.dlsn import DLSN
from tests.cluster.proxy_kills import CLIENT, READ_PROXY, WRITE_PROXY, Plan, run
from tests.cluster.proxy_records import (
    STARTED,
    Acknowledged,
    Record,
    first_writes,
    percentile,
    problems_of_reads,
    problems_of_writes,
    read_line,
)
from tests.zookeeper import ZooKeeperServer

KILLS = (WRITE_PROXY, CLIENT, READ_PROXY)
STREAMS = 6
PAUSE_S = 0.5


@pytest.mark.crash
@pytest.mark.java
def test_nothing_acknowledged_is_lost_or_doubled(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    plan = Plan(SystemRandom().randrange(1 << 32), KILLS, STREAMS, PAUSE_S)
    report = run(zookeeper, tmp_path, plan, print)
    assert report.problems == [], report.text()
    assert len(report.kills) == len(KILLS)
    assert report.acknowledged > len(KILLS) * STREAMS


# ---------------------------------------------------------------------- what is found wrong

A = [Record(DLSN(1, n, 0), f"w.1#{n}") for n in range(3)]
B = [Record(DLSN(2, n, 0), f"w.2#{n}") for n in range(2)]
WRITTEN = {"s": [*A, *B], "t": [Record(DLSN(1, 0, 0), "w.1#0")]}


def acknowledged(stream: str, record: Record, dlsn: DLSN | None = None) -> Acknowledged:
    return Acknowledged(stream, dlsn or record.dlsn, record.payload, 0.0, 0.0)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ([A[0], A[2]], "w.1#2, not 1"),
        ([A[0], A[0], A[1]], "w.1#0, not 1"),
        ([A[1], A[0], A[2]], "w.1#1, not 0"),
        ([*A[:2], *B], "w.1#2 was acknowledged and is lost"),
        ([*A[:2], A[2]._replace(dlsn=DLSN(1, 9, 0))], "w.1#2 is at"),
    ],
)
def test_what_is_lost_twice_or_elsewhere_is_found(written: list[Record], said: str) -> None:
    problems = problems_of_writes({"s": written}, [acknowledged("s", A[2])])
    assert any(said in each for each in problems), problems


def test_what_was_not_acknowledged_may_be_there_or_not() -> None:
    first, unplaced = acknowledged("s", A[0]), acknowledged("s", A[1], DLSN(0, -1, -1))
    assert problems_of_writes(WRITTEN, [first, unplaced]) == []
    assert problems_of_writes({"s": A[:2]}, [first, unplaced]) == []


def lines(*records: Record) -> list[str]:
    return [read_line("s", each).rstrip() for each in records]


def test_a_reader_that_is_killed_goes_on_at_its_last_record() -> None:
    whole = lines(*WRITTEN["s"])
    last = [read_line("t", *WRITTEN["t"]).rstrip()]
    assert problems_of_reads(WRITTEN, [STARTED, *whole, *last]) == []
    assert problems_of_reads(WRITTEN, [STARTED, *whole[:2], STARTED, *whole[1:], *last]) == []
    for wrong in (whole[1:], [whole[1], whole[0], *whole[2:]], [whole[0], *whole], whole[:4]):
        assert problems_of_reads(WRITTEN, [STARTED, *wrong, *last]), wrong
    other = lines(WRITTEN["s"][0]._replace(payload="w.1#7"), *WRITTEN["s"][1:])
    assert problems_of_reads(WRITTEN, [STARTED, *other, *last])
    assert problems_of_reads(WRITTEN, [STARTED, *whole[:2], STARTED, *whole[2:], *last])


def test_a_stream_is_taken_over_with_the_first_record_of_a_new_segment() -> None:
    def one(stream: str, lssn: int, submitted_s: float, acknowledged_s: float) -> Acknowledged:
        return Acknowledged(stream, DLSN(lssn, 0, 0), "", submitted_s, acknowledged_s)

    seen = [
        one("s", 4, 1.0, 2.0),
        one("s", 4, 2.9, 3.1),  # the killed owner's answer
        one("s", 5, 2.5, 4.0),
        one("s", 6, 4.0, 5.0),
        one("t", 1, 4.0, 4.5),
        one("u", 7, 3.5, 3.6),
    ]
    assert first_writes(["s", "t", "v"], 3.0, seen) == {"s": 1.0, "t": 0.5}


def test_percentiles() -> None:
    assert [percentile([3.0, 1.0, 2.0], each) for each in (1, 50, 99, 100)] == [1.0, 2.0, 3.0, 3.0]
