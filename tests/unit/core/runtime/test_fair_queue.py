"""Turns of users: each one's own in order, nobody waits for another one's many."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.runtime.fair_queue import FairQueue, Named

USERS = [Named(f"h{host}", port) for host in range(3) for port in range(3)]


@given(st.lists(st.one_of(st.sampled_from(USERS), st.none())))
def test_users_take_turns_and_each_has_its_own_in_order(calls: list[Named | None]) -> None:
    """None takes one. Whoever waits is passed over no more often than there are users."""
    queue: FairQueue[tuple[Named, int]] = FairQueue(1000, 1000)
    waiting: dict[Named, list[int]] = defaultdict(list)
    skipped: dict[Named, int] = defaultdict(int)
    for number, user in enumerate([*calls, *[None] * len(calls)]):
        if user is not None:
            queue.put(user, (user, number))
            waiting[user].append(number)
            continue
        if not len(queue):
            with pytest.raises(KeyError):
                queue.take()
            continue
        taken, piece = queue.take()
        assert waiting[taken].pop(0) == piece
        skipped[taken] = 0
        for each in USERS:
            skipped[each] += bool(waiting[each]) and each != taken
            assert skipped[each] <= len(USERS)
    assert len(queue) == sum(map(len, waiting.values())) == 0


def test_one_piece_waits_for_one_of_each_other_host() -> None:
    queue: FairQueue[str] = FairQueue(1000, 1000)
    for number in range(5):
        for port in range(2):
            queue.put(Named("much", port), f"much {port} {number}")
    assert queue.take() == "much 0 0"
    queue.put(Named("other"), "other")
    assert [queue.take() for _ in range(5)] == [
        "much 1 0", "other", "much 0 1", "much 1 1", "much 0 2",
    ]  # fmt: skip


def test_room_is_bounded_for_each_and_for_all() -> None:
    queue: FairQueue[int] = FairQueue(4, 2)
    for host in range(2):
        for number in range(2):
            assert queue.has_room(Named(f"h{host}"))
            queue.put(Named(f"h{host}"), number)
        if host == 0:
            assert not queue.has_room(Named("h0"))
    assert not queue.has_room(Named("h2"))
    queue.take()
    assert queue.has_room(Named("h2"))
    assert not queue.has_room(Named("h1"))
