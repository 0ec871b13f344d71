"""Subscriptions by regular expression: what matches, and when it is looked at again."""

import pytest

from tailrace.broker.coordinator.consumer import assigning
from tailrace.broker.coordinator.consumer.topic_regex import matching, regex_fault
from tailrace.core.runtime.expressions import CLASSES_MAX, LENGTH_MAX, PROGRAM_MAX, expression
from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.coordinator.consumer.support import Client, ConsumerDriver, lasting
from tests.unit.broker.coordinator.support import KnownTopics


@pytest.mark.parametrize(
    ("regex", "expected"),
    [
        ("orders", {"orders"}),
        ("order", set()),
        ("orders.*", {"orders", "orders.eu"}),
        ("(?i)ORDERS", {"orders"}),
        (".*eu", {"orders.eu"}),
        ("[^o].*", {"users"}),
        (r"\w+", {"orders", "users"}),
        ("orders|users", {"orders", "users"}),
        ("", set()),
    ],
)
def test_a_whole_name_matches(regex: str, expected: set[str]) -> None:
    assert matching(regex, ["orders", "orders.eu", "users"]) == expected


@pytest.mark.parametrize("regex", ["(a", "a**", r"(a)\1", "a(?=b)", "[", "x" * 5_000])
def test_what_re2_does_not_read_is_refused(regex: str) -> None:
    assert regex_fault(regex)
    assert matching(regex, ["a", "aa"]) == set()


def test_an_expression_cannot_backtrack() -> None:
    assert regex_fault("(a+)+$") is None
    assert matching("(a+)+b", ["a" * 249]) == set()  # 2 ** 249 steps for Python's re


@pytest.mark.parametrize(
    "regex",
    ["(.?){1000}", r"(\w?){700}", "[a-z]{0,1000}" * 3, r"(?i)\pL" * (CLASSES_MAX + 1), ".{0,1000}"],
)
def test_what_costs_milliseconds_a_name_is_refused(regex: str) -> None:
    """RE2 is linear in the name, times its program where an automaton does not fit its memory."""
    assert regex_fault(regex)


@pytest.mark.parametrize(
    "regex",
    ["x" * 1000, r"\pL+", "orders-.{1,100}", "(a|b).*(c|d)-[0-9]+",
     "|".join(f"topic-{n}" for n in range(400))],
)  # fmt: skip
def test_what_people_write_fits(regex: str) -> None:
    assert regex_fault(regex) is None


def test_the_longest_and_the_largest() -> None:
    assert regex_fault("|" * LENGTH_MAX) is None
    assert regex_fault("|" * (LENGTH_MAX + 1))
    assert regex_fault("x" * (PROGRAM_MAX - 10)) is None
    assert regex_fault("x" * PROGRAM_MAX)


def test_nothing_is_captured() -> None:
    """What captures cannot be done by an automaton: it took a thousand times as long."""
    assert expression("(a)(b)").groups == 0


def driver_with(*names: str) -> ConsumerDriver:
    return ConsumerDriver(topics=KnownTopics(dict.fromkeys(names, 2)))


def by_regex(member_id: str, regex: str) -> Client:
    return Client(member_id, topics=None, regex=regex)


def test_consumer_group_member_joins_with_new_regex() -> None:
    driver = driver_with("foo", "bar")
    a = by_regex("a", "fo.*")
    driver.turn(a)
    assert a.owned == {driver.topic_id("foo"): {0, 1}}
    assert driver.consumers.resolved["fo.*"].topics == {"foo"}
    assert lasting(driver.reloaded().consumers) == lasting(driver.consumers)


def test_consumer_group_member_joins_with_updated_regex() -> None:
    driver = driver_with("foo", "bar")
    a = by_regex("a", "fo.*")
    driver.turn(a)
    driver.settle(a, turns=1)
    driver.turn(a, subscribed_topic_regex="b.*")
    driver.settle(a)
    assert a.owned == {driver.topic_id("bar"): {0, 1}}
    assert list(driver.consumers.resolved) == ["b.*"]


def test_regex_and_names_add_up() -> None:
    driver = driver_with("foo", "bar")
    a = Client("a", topics=("bar",), regex="fo.*")
    driver.settle(a)
    assert a.owned.keys() == {driver.topic_id("foo"), driver.topic_id("bar")}
    driver.turn(a, subscribed_topic_regex="")
    driver.settle(a)
    assert a.owned.keys() == {driver.topic_id("bar")}
    assert driver.consumers.resolved == {}


def test_members_with_the_same_regex_share_it() -> None:
    driver = driver_with("foo", "bar")
    a, b = by_regex("a", "fo.*"), by_regex("b", "fo.*")
    driver.settle(a, b)
    assert (a.partitions, b.partitions) == ([0], [1])
    driver.leave_group(a)
    assert list(driver.consumers.resolved) == ["fo.*"]
    driver.leave_group(b)
    assert driver.consumers.resolved == {}
    assert driver.reloaded().consumers.resolved == {}


def test_invalid_regex_changes_nothing() -> None:
    driver = driver_with("foo")
    a = by_regex("a", "fo.*")
    driver.turn(a)
    before = len(driver.stream)
    response = driver.turn(a, subscribed_topic_regex="(")
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(driver.stream) == before
    assert driver.turn(by_regex("b", "[")).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert list(driver.consumers.members) == ["a"]


def test_consumer_group_regex_refresh_when_topics_come_and_go() -> None:
    driver = driver_with("foo")
    a = by_regex("a", "fo.*")
    driver.turn(a)
    driver.topics.create("fox", 1)
    driver.notice("fox")
    driver.settle(a)
    assert a.owned.keys() == {driver.topic_id("foo"), driver.topic_id("fox")}
    fox = driver.topic_id("fox")
    driver.topics.delete("fox")
    driver.notice("fox")
    driver.settle(a)
    assert fox not in a.owned
    assert driver.consumers.resolved["fo.*"].topics == {"foo"}


def test_topics_that_came_while_nobody_listened_are_found_after_a_load() -> None:
    driver = driver_with("foo")
    a = by_regex("a", "fo.*")
    driver.turn(a)
    driver.topics.create("fox", 1)
    other = driver.reloaded()
    other.settle(a)
    assert a.owned.keys() == {driver.topic_id("foo"), driver.topic_id("fox")}


def test_too_many_changed_topics_are_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assigning, "STALE_TOPICS_MAX", 2)
    driver = driver_with("foo")
    a = by_regex("a", "fo.*")
    driver.turn(a)
    for n in range(4):
        driver.topics.create(f"fo{n}", 1)
        driver.notice(f"fo{n}")
    assert driver.consumers.stale_topics is None
    driver.settle(a)
    assert len(a.owned) == 5


def test_a_topic_that_does_not_match_bumps_nothing() -> None:
    driver = driver_with("foo")
    a = by_regex("a", "fo.*")
    driver.turn(a)
    driver.topics.create("bar", 1)
    driver.notice("bar")
    before = len(driver.stream)
    driver.turn(a)
    assert len(driver.stream) == before
