"""Which fetch sessions are kept: the cases of Kafka's FetchSessionTest."""

from itertools import count

import pytest

from tailrace.broker.fetching import session_cache
from tailrace.broker.fetching.session_cache import EVICTION_MS, FetchSessionCache
from tailrace.broker.fetching.sessions import (
    EPOCH_MAX,
    FetchSession,
    SessionKind,
    Updates,
    next_epoch,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

CONSUMER = SessionKind(privileged=False, uses_topic_ids=False, reads_committed=False)
FOLLOWER = CONSUMER._replace(privileged=True)


def cache_of(slots: int) -> FetchSessionCache:
    numbers = count(1)
    return FetchSessionCache(slots, lambda: next(numbers))


def created(
    cache: FetchSessionCache, size: int, now_ms: int, kind: SessionKind = CONSUMER
) -> FetchSession | None:
    session = cache.create(size, kind, now_ms)
    if session is not None:
        for index in range(size):
            session.add(("t", index), FetchPartition(partition=index))
        cache.touch(session, now_ms)
    return session


def present(cache: FetchSessionCache, *sessions: FetchSession | None) -> bool:
    ids = {session.id for session in sessions if session is not None}
    return len(cache) == len(ids) and all(cache.get(each) is not None for each in ids)


def test_an_id_that_is_taken_is_drawn_again() -> None:
    numbers = iter([7, 7, 7, 9])
    cache = FetchSessionCache(3, lambda: next(numbers))
    first, second = created(cache, 1, 0), created(cache, 1, 0)
    assert first is not None
    assert second is not None
    assert (first.id, second.id) == (7, 9)


def test_who_gives_way_to_whom() -> None:
    """testSessionCache, with its 100 ms stretched to the real time."""
    cache = cache_of(3)
    unit = EVICTION_MS // 100
    first = created(cache, 10, 0)
    second = created(cache, 20, 10 * unit)
    third = created(cache, 30, 20 * unit)
    assert created(cache, 40, 30 * unit) is None
    assert created(cache, 5, 40 * unit) is None
    assert present(cache, first, second, third)
    assert first is not None
    cache.touch(first, 200 * unit)
    fourth = created(cache, 11, 210 * unit)
    assert present(cache, first, third, fourth)
    assert third is not None
    assert fourth is not None
    cache.touch(third, 390 * unit)
    cache.touch(first, 400 * unit)
    cache.touch(fourth, 400 * unit)
    fifth = created(cache, 50, 410 * unit)
    assert present(cache, third, fourth, fifth)
    assert created(cache, 5, 410 * unit) is None
    assert present(cache, third, created(cache, 5, 410 * unit, FOLLOWER), fifth)
    assert (cache.metrics.evictions_total, cache.metrics.refusals_total) == (3, 3)


def test_sizes_are_counted_and_follow_their_sessions() -> None:
    """testResizeCachedSessions."""
    cache = cache_of(2)
    first, second = created(cache, 2, 0), created(cache, 4, 0)
    assert first is not None
    assert second is not None
    assert cache.metrics.partitions == 6
    later = 2 * EVICTION_MS
    cache.touch(first, later)
    cache.touch(second, later)
    third = created(cache, 5, later)
    assert third is not None
    assert (present(cache, second, third), cache.metrics.partitions) == (True, 9)
    cache.remove(third.id)
    assert (present(cache, second), cache.metrics.partitions) == (True, 4)
    forget = Updates((), [ForgottenTopic(topic="t", partitions=[0])])
    assert cache.update(second, forget, later)
    assert cache.metrics.partitions == 3
    cache.remove(second.id)
    assert (len(cache), cache.metrics.partitions, cache.metrics.sessions) == (0, 0, 0)
    cache.remove(second.id)


def test_a_follower_outlasts_consumers_but_not_its_own_silence() -> None:
    """testPrivilegedSessionHandling."""
    cache = cache_of(2)
    follower = created(cache, 2, 0, FOLLOWER)
    created(cache, 2, EVICTION_MS // 2)
    second_follower = created(cache, 2, EVICTION_MS, FOLLOWER)
    assert present(cache, follower, second_follower)
    third_follower = created(cache, 2, EVICTION_MS + 1, FOLLOWER)
    assert present(cache, second_follower, third_follower)


def test_a_new_session_takes_no_place_from_an_equal_one() -> None:
    cache = cache_of(1)
    old = created(cache, 5, 0)
    assert old is not None
    cache.touch(old, EVICTION_MS + 1)
    assert created(cache, 5, EVICTION_MS + 2) is None
    assert created(cache, 6, EVICTION_MS + 2) is not None
    assert cache_of(0).create(1, CONSUMER, 0) is None


def test_the_partitions_of_all_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_cache, "PARTITIONS_MAX", 10)
    cache = cache_of(5)
    session = created(cache, 8, 0)
    assert session is not None
    assert created(cache, 3, 0) is None
    more = [FetchTopic(topic="t", partitions=[FetchPartition(partition=i) for i in (8, 9)])]
    assert cache.update(session, Updates(more, ()), 0)
    more[0].partitions = [FetchPartition(partition=10)]
    assert not cache.update(session, Updates(more, ()), 0)
    assert (len(cache), cache.metrics.partitions) == (0, 0)


def test_epochs_wrap_to_one() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, EPOCH_MAX - 1, EPOCH_MAX)] == [1, 2, EPOCH_MAX, 1]


def test_a_session_that_forgets_everything_is_removed() -> None:
    """testZeroSizeFetchSession."""
    cache = cache_of(2)
    session = created(cache, 2, 0)
    assert session is not None
    everything = Updates((), [ForgottenTopic(topic="t", partitions=[0, 1, 5])])
    assert not cache.update(session, everything, 0)
    assert len(cache) == 0


@pytest.mark.parametrize("by_id", [False, True])
def test_what_a_request_has_to_say_to_go_on(by_id: bool) -> None:
    """testFetchRequests, testIncrementalFetchSessionWithIdsWhenSessionDoesNotUseIds."""
    cache = cache_of(2)
    session = created(cache, 2, 0, CONSUMER._replace(uses_topic_ids=by_id))
    assert session is not None
    assert cache.resume(session.id, 1, uses_topic_ids=by_id) is session
    for given, code in [
        ((session.id + 1, 1, by_id), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ((session.id, 5, by_id), ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ((session.id, 1, not by_id), ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ]:
        assert cache.resume(given[0], given[1], uses_topic_ids=given[2]) is code
    assert session.begin(reads_committed=False) == 2
    assert cache.resume(session.id, 1, uses_topic_ids=by_id) is (
        ErrorCode.INVALID_FETCH_SESSION_EPOCH
    )
