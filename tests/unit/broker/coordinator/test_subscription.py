from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.coordinator.subscription import subscribed_topics
from tests.unit.broker.coordinator.support import subscription

NAMES = st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=5)


@given(NAMES, st.binary(max_size=20))
def test_topics_are_read_whatever_follows(topics: list[str], rest: bytes) -> None:
    assert subscribed_topics(subscription(*topics, extra=rest)) == frozenset(topics)


def test_cut_anywhere_is_no_subscription() -> None:
    whole = subscription("abc", "de")
    topics_end = len(whole) - 4  # what follows the topics is user data, and not looked at
    for end in range(topics_end):
        assert subscribed_topics(whole[:end]) is None
    assert subscribed_topics(whole[:topics_end]) == {"abc", "de"}


@given(st.binary(max_size=60))
def test_other_bytes_are_tolerated(data: bytes) -> None:
    found = subscribed_topics(data)
    assert found is None or isinstance(found, frozenset)


def test_negative_version_and_lengths_are_no_subscription() -> None:
    assert subscribed_topics(b"\xff\xff\0\0\0\0") is None
    assert subscribed_topics(b"\0\0\xff\xff\xff\xff") is None
    assert subscribed_topics(b"\0\0\0\0\0\1\xff\xff") is None
    assert subscribed_topics(b"\0\0\0\0\0\1\0\2\xff\xff") is None  # no UTF-8
