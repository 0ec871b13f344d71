"""SyncGroup, Heartbeat, LeaveGroup and sessions, situation by situation (reference 6.4)."""

from typing import Any

import pytest

from tailrace.broker.replicated.runner import BATCH_BYTES_MAX
from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.coordinator.support import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Driver,
    subscription,
)

NONE = ErrorCode.NONE


def completing(driver: Driver, size: int = 2) -> list[str]:
    """Return the member ids of a group that waits for its leader, the first of them."""
    ids = [driver.new_id() for _ in range(size)]
    for id_ in ids:
        driver.join(id_)
    driver.advance(DELAY_MS * 2)
    assert driver.group.state == "CompletingRebalance"
    return ids


def sync_code(driver: Driver, ticket: int) -> ErrorCode:
    return ErrorCode(driver.synced(ticket).error_code)


# SyncGroup


def test_sync_of_an_unknown_group() -> None:
    driver = Driver()
    assert sync_code(driver, driver.sync("a")) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"generation_id": 7}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "range"}, NONE),
    ],
)
def test_sync_that_does_not_fit(fields: dict[str, Any], expected: ErrorCode) -> None:
    driver = Driver()
    (member,) = driver.stable()
    assert sync_code(driver, driver.sync(**{"member_id": member, **fields})) == expected


def test_sync_of_a_fenced_instance() -> None:
    driver = Driver()
    driver.join(group_instance_id="i")
    driver.advance(DELAY_MS)
    ticket = driver.sync("i-of-old", group_instance_id="i")
    assert sync_code(driver, ticket) == ErrorCode.FENCED_INSTANCE_ID


def test_sync_in_preparing_rebalance() -> None:
    driver = Driver()
    leader, follower = driver.stable(2)
    driver.join(leader)
    assert sync_code(driver, driver.sync(follower)) == ErrorCode.REBALANCE_IN_PROGRESS


def test_followers_wait_for_the_leader_and_all_for_the_stream() -> None:
    driver = Driver()
    leader, follower = completing(driver)
    driver.confirm = False
    waiting = driver.sync(follower)
    leading = driver.sync(leader, {leader: b"L", follower: b"F"})
    assert not {waiting, leading} & driver.replies.keys()
    assert driver.group.state == "CompletingRebalance"
    driver.confirm_all()
    assert driver.synced(waiting).assignment == b"F"
    assert driver.synced(leading).assignment == b"L"
    assert driver.synced(leading).protocol_type == "consumer"
    assert driver.synced(leading).protocol_name == "range"
    assert driver.group.state == "Stable"


def test_a_member_that_the_leader_left_out_gets_an_empty_assignment() -> None:
    driver = Driver()
    leader, follower = completing(driver)
    driver.sync(leader, {leader: b"L", "stranger": b"S"})
    assert driver.synced(driver.sync(follower)).assignment == b""


def test_sync_in_a_stable_group_returns_the_stored_assignment() -> None:
    driver = Driver()
    _, follower = driver.stable(2)
    assert driver.synced(driver.sync(follower)).assignment == b"for " + follower.encode()


def test_a_repeated_sync_takes_the_place_of_the_earlier_one() -> None:
    driver = Driver()
    leader, follower = completing(driver)
    earlier, later = driver.sync(follower), driver.sync(follower)
    assert sync_code(driver, earlier) == ErrorCode.REBALANCE_IN_PROGRESS
    driver.sync(leader, {follower: b"F"})
    assert driver.synced(later).assignment == b"F"


def test_an_assignment_that_comes_too_late_is_dropped() -> None:
    driver = Driver()
    leader, follower = completing(driver)
    driver.confirm = False
    leading = driver.sync(leader, {leader: b"L"})
    driver.join(follower, protocols=(("range", subscription("other")),))
    assert sync_code(driver, leading) == ErrorCode.REBALANCE_IN_PROGRESS
    driver.confirm_all()
    assert driver.group.state == "PreparingRebalance"
    assert driver.group.roster[leader].assignment == b""


def test_a_leader_that_never_syncs_is_dropped_after_the_rebalance_timeout() -> None:
    driver = Driver()
    leader, follower = completing(driver)
    waiting = driver.sync(follower)
    for _ in range(REBALANCE_MS // 5_000):
        assert waiting not in driver.replies
        driver.heartbeat(leader)
        driver.advance(5_000)
    assert sync_code(driver, waiting) == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(leader) == ErrorCode.UNKNOWN_MEMBER_ID
    again = driver.joined(driver.join(follower))
    assert (again.leader, again.generation_id) == (follower, 2)


def test_a_follower_that_never_syncs_is_dropped_too() -> None:
    driver = Driver()
    leader, follower = completing(driver)
    driver.sync(leader, {})
    for _ in range(REBALANCE_MS // 5_000):
        assert driver.heartbeat(leader) == driver.heartbeat(follower) == NONE
        driver.advance(5_000)
    assert driver.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS


def test_when_all_have_synced_the_barrier_has_no_deadline() -> None:
    driver = Driver()
    ids = driver.stable(2)
    for _ in range(2 * REBALANCE_MS // 5_000):
        assert [driver.heartbeat(id_) for id_ in ids] == [NONE, NONE]
        driver.advance(5_000)
    assert driver.group.generation == 1


def test_an_assignment_too_large_to_store_gives_up_the_generation() -> None:
    driver = Driver()
    leader, follower = completing(driver)
    driver.confirm = False
    waiting = driver.sync(follower)
    leading = driver.sync(leader, {leader: bytes(BATCH_BYTES_MAX)})
    driver.act(driver.shard.on_refused(driver.unconfirmed.popleft(), driver.now))
    for ticket in (waiting, leading):
        assert sync_code(driver, ticket) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert driver.group.state == "PreparingRebalance"


# Heartbeat


def test_heartbeat_of_an_unknown_group() -> None:
    assert Driver().heartbeat("a") == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, NONE),
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.parametrize("state", ["Stable", "CompletingRebalance"])
def test_heartbeat(fields: dict[str, Any], expected: ErrorCode, state: str) -> None:
    driver = Driver()
    member = (completing(driver, 1) if state == "CompletingRebalance" else driver.stable())[0]
    assert driver.heartbeat(**{"member_id": member, **fields}) == expected


def test_heartbeat_in_an_emptied_group() -> None:
    driver = Driver()
    (member,) = driver.stable()
    driver.leave((member, None))
    assert driver.heartbeat(member) == ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeat_of_a_pending_id() -> None:
    driver = Driver()
    assert driver.heartbeat(driver.new_id()) == ErrorCode.UNKNOWN_MEMBER_ID


# Sessions


def test_a_silent_member_is_dropped_and_the_others_rebalance() -> None:
    driver = Driver()
    first, second = driver.stable(2)
    driver.advance(SESSION_MS - 1)
    assert driver.heartbeat(first) == NONE
    driver.advance(1)
    assert driver.heartbeat(second) == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(first) == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.joined(driver.join(first)).generation_id == 2


@pytest.mark.parametrize("sign", ["heartbeat", "sync", "join", "commit"])
def test_what_keeps_a_session_alive(sign: str) -> None:
    driver = Driver()
    first, second = driver.stable(2)
    for _ in range(3):
        driver.advance(SESSION_MS - 1)
        driver.heartbeat(first)
        if sign == "heartbeat":
            driver.heartbeat(second)
        elif sign == "sync":
            driver.sync(second)
        elif sign == "join":
            driver.join(second)
        else:
            driver.commit(second, 1)
    assert driver.group.state == "Stable"
    assert len(driver.group.roster) == 2


def test_a_member_in_a_barrier_needs_no_heartbeat() -> None:
    driver = Driver()
    first, second = driver.stable(2)
    waiting = driver.join(first)
    for _ in range(4):
        driver.advance(SESSION_MS - 1)
        driver.heartbeat(second)
    assert waiting not in driver.replies
    assert first in driver.group.roster


def test_a_member_that_was_answered_must_send_heartbeats_again() -> None:
    driver = Driver()
    first, second = driver.stable(2)
    driver.join(first)
    for _ in range(3):
        driver.advance(SESSION_MS - 1)
        driver.heartbeat(second)
    driver.join(second)
    assert driver.group.state == "CompletingRebalance"
    driver.advance(SESSION_MS)
    assert len(driver.group.roster) == 0


def test_a_static_member_that_is_sent_back_from_the_sync_barrier_must_send_heartbeats() -> None:
    driver = Driver()
    tickets = [driver.join(group_instance_id=i) for i in "ij"]
    driver.advance(DELAY_MS * 2)
    leader, follower = (driver.joined(t).member_id for t in tickets)
    waiting = driver.sync(follower)
    for _ in range(2):  # its session was over: it waited, so it lived
        driver.advance(SESSION_MS - 1)
        driver.heartbeat(leader)
    driver.leave((leader, None))
    assert sync_code(driver, waiting) == ErrorCode.REBALANCE_IN_PROGRESS
    driver.advance(SESSION_MS)
    assert driver.group.state == "Empty"


def test_the_last_session_that_ends_leaves_an_empty_group_on_the_stream() -> None:
    driver = Driver()
    driver.stable()
    driver.advance(SESSION_MS)
    assert (driver.group.state, driver.group.generation) == ("Empty", 2)
    assert driver.reloaded().group.generation == 2
    assert driver.reloaded().group.state == "Empty"


# LeaveGroup


def test_leave_of_an_unknown_group() -> None:
    codes = Driver().leave(("a", None), ("", "i"))
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_a_batch_of_leaves_answers_each() -> None:
    driver = Driver()
    tickets = [driver.join(group_instance_id=i) for i in "ijk"]
    driver.advance(DELAY_MS * 2)
    i, j, k = (driver.joined(t).member_id for t in tickets)
    driver.sync_all([i, j, k])
    codes = driver.leave(
        (i, "i"), ("", "j"), ("", "nobody"), ("", None), ("nobody", None), ("other", "k"), (i, "i")
    )
    assert codes == [
        NONE,
        NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert [m.member_id for m in driver.group.roster] == [k]
    assert driver.group.state == "PreparingRebalance"


def test_the_last_to_leave_is_answered_when_the_empty_group_is_on_the_stream() -> None:
    driver = Driver()
    (member,) = driver.stable()
    driver.confirm = False
    before = set(driver.replies)
    with pytest.raises(KeyError):
        driver.leave((member, None))
    driver.confirm_all()
    (ticket,) = driver.replies.keys() - before
    assert [m.error_code for m in driver.replies[ticket].members] == [NONE]
    assert driver.group.state == "Empty"
    assert driver.reloaded().group.state == "Empty"


def test_a_pending_id_may_leave_and_opens_the_barrier_for_the_others() -> None:
    driver = Driver()
    (member,) = driver.stable()
    pending = driver.new_id()
    ticket = driver.join(member)
    assert ticket not in driver.replies  # the pending one is waited for
    assert driver.leave((pending, None)) == [NONE]
    assert driver.joined(ticket).error_code == NONE


def test_a_pending_id_that_leaves_disturbs_nobody() -> None:
    driver = Driver()
    driver.stable()
    assert driver.leave((driver.new_id(), None)) == [NONE]
    assert driver.group.state == "Stable"


def test_a_leave_does_not_cut_the_initial_delay_short() -> None:
    driver = Driver()
    first, second = driver.new_id(), driver.new_id()
    ticket = driver.join(first)
    driver.join(second)
    driver.leave((second, None))
    assert ticket not in driver.replies
    driver.advance(DELAY_MS * 2)
    assert len(driver.joined(ticket).members) == 1


def test_who_leaves_while_its_join_waits_is_told() -> None:
    driver = Driver()
    leader, _ = driver.stable(2)
    waiting = driver.join(leader)
    driver.leave((leader, None))
    assert driver.joined(waiting).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_leaves_while_its_sync_waits_is_told() -> None:
    driver = Driver()
    _, follower = completing(driver)
    waiting = driver.sync(follower)
    driver.leave((follower, None))
    assert sync_code(driver, waiting) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_leader_leaves_and_the_next_one_leads() -> None:
    driver = Driver()
    first, second = driver.stable(2)
    driver.leave((first, None))
    response = driver.joined(driver.join(second))
    assert (response.leader, response.generation_id) == (second, 2)
