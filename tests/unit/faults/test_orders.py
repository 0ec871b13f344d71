"""What is understood, and what is refused with a cause, a place and a remedy."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.faults.orders import (
    BadOrder,
    Deed,
    DelayAnswers,
    DropNext,
    FailNext,
    LoseUnsynced,
    Rebalance,
    SkewClock,
    parse,
)
from tailrace.faults.table import FAULTS_MAX, FaultTable


def read(**given: object) -> object:
    return parse(json.dumps(given).encode())


def test_what_is_understood() -> None:
    assert read(fault="drop_next", api="Produce") == DropNext("Produce", 1, "after")
    assert read(fault="delay", api="Fetch", ms=5) == DelayAnswers("Fetch", 5)
    assert read(fault="skew_clock", seconds=-1) == SkewClock(-1.0)
    assert read(fault="rebalance", group="g") == Rebalance("g")
    assert read(fault="lose_unsynced") == LoseUnsynced()
    fail = read(fault="fail_next", api="Produce", error="NOT_LEADER_OR_FOLLOWER", topic="t")
    assert fail == FailNext("Produce", "NOT_LEADER_OR_FOLLOWER", topic="t")
    assert isinstance(fail, FailNext)
    assert fail.code == 6
    assert not isinstance(fail, Deed)


@pytest.mark.parametrize(
    ("given", "cause", "place", "remedy"),
    [
        ({}, "the fault is missing", "fault", "one of abort_transaction, cut_connections"),
        ({"fault": "drop"}, "the fault 'drop' is unknown", "fault", "did you mean drop_next?"),
        ({"fault": 1}, "the fault 1 is unknown", "fault", "one of"),
        ({"fault": "drop_next"}, "missing required field `api`", "body", "takes api, count, when"),
        ({"fault": "drop_next", "api": "produce"}, "the API 'produce'", "api", "mean Produce?"),
        ({"fault": "drop_next", "api": "###"}, "the API '###'", "api", "Kafka's own names"),
        ({"fault": "drop_next", "api": "Fetch", "cuont": 1}, "argument 'cuont'", "cuont", "count?"),
        ({"fault": "drop_next", "api": "Fetch", "count": 0}, ">= 1", "count", "takes api"),
        ({"fault": "drop_next", "api": "Fetch", "when": "now"}, "'now'", "when", "takes api"),
        ({"fault": "delay", "api": "Fetch", "ms": 10**9}, "<= 600000", "ms", "takes api, ms"),
        ({"fault": "delay", "api": "Fetch", "ms": "x"}, "Expected `int`", "ms", "takes api, ms"),
        ({"fault": "skew_clock", "seconds": 1e12}, "<= 315360000", "seconds", "takes seconds"),
        (
            {"fault": "fail_next", "api": "Fetch", "error": "NOT_LEADER"},
            "the error 'NOT_LEADER' is unknown",
            "error",
            "did you mean NOT_LEADER_OR_FOLLOWER?",
        ),
        ({"fault": "fail_next", "api": "Fetch", "error": "NONE"}, "'NONE'", "error", ""),
        (
            {"fault": "fail_next", "api": "Heartbeat", "error": "UNKNOWN_MEMBER_ID", "topic": "t"},
            "Heartbeat has no errors of topics",
            "topic",
            "leave it out",
        ),
        (
            {
                "fault": "fail_next",
                "api": "CreateTopics",
                "error": "REQUEST_TIMED_OUT",
                "partition": 0,
            },
            "CreateTopics has no errors of partitions",
            "partition",
            "leave it out",
        ),
    ],
    ids=str,
)
def test_what_is_refused(given: dict[str, object], cause: str, place: str, remedy: str) -> None:
    with pytest.raises(BadOrder) as caught:
        read(**given)
    assert cause in caught.value.cause
    assert caught.value.place == place
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", b'"drop_next"', b"[" * 50_000])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadOrder):
        parse(body)


@pytest.mark.parametrize("name", ["when", "topic"])
def test_half_a_character_is_refused(name: str) -> None:
    """JSON can say it, and no string of UTF-8 can."""
    given = {"fault": "fail_next", "api": "Produce", "error": "NETWORK_EXCEPTION", name: "\ud800"}
    body = json.dumps(given)
    with pytest.raises(BadOrder):
        parse(body.encode())


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
_ARGUMENTS = st.sampled_from(["api", "error", "count", "ms", "seconds", "topic", "group", "when"])


@given(
    st.sampled_from(["drop_next", "delay", "fail_next", "skew_clock", "rebalance", "free_disk"]),
    st.dictionaries(_ARGUMENTS, _JSON | st.sampled_from(["Produce", "NOT_COORDINATOR"])),
)
def test_nothing_but_a_refusal_comes_of_strange_values(fault: str, more: dict[str, Any]) -> None:
    refusal = None
    try:
        read(**{**more, "fault": fault})
    except BadOrder as bad:
        refusal = bad
    assert refusal is None or (refusal.cause and refusal.place and refusal.remedy)


def test_a_table_of_faults() -> None:
    table = FaultTable()
    first = table.add(DropNext("Fetch", 2))
    second = table.add(SkewClock(2.5))
    table.add(SkewClock(-1))
    assert table.next_id() == 4
    assert table.skew_s == 1.5
    assert not table.is_disk_full
    assert table.of("Fetch", DropNext) == [first]
    assert (table.has("Fetch"), table.has("Produce")) == (True, False)
    first.hits = 2
    assert not table.has("Fetch")
    assert table.of("Fetch", DropNext) == []
    assert [fault.id for fault in table] == [1, 2, 3], "what is used up can still be looked at"
    assert first.shown() == {
        "id": 1, "fault": "drop_next", "api": "Fetch", "count": 2, "when": "after", "hits": 2,
    }  # fmt: skip
    assert table.undo(lambda fault: fault is second) == [second]
    assert table.skew_s == -1
    assert len(table.undo(lambda _: True)) == 2
    assert list(table) == []


def test_a_table_has_a_bound() -> None:
    table = FaultTable()
    for _ in range(FAULTS_MAX):
        table.add(SkewClock(1))
    with pytest.raises(BadOrder, match="1000 faults are set"):
        table.add(SkewClock(1))
