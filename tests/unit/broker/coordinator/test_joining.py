"""JoinGroup, situation by situation (reference 6.3)."""

from typing import Any

import pytest

from tailrace.broker.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupConfig
from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.coordinator.support import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    Driver,
    subscription,
)

NONE = ErrorCode.NONE
OTHER_TOPICS = (("range", subscription("t", "other")),)


def code(driver: Driver, ticket: int) -> ErrorCode:
    return ErrorCode(driver.joined(ticket).error_code)


# Refusals


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001, -1, 0])
def test_session_timeout_outside_of_the_bounds(timeout_ms: int) -> None:
    driver = Driver()
    ticket = driver.join(session_timeout_ms=timeout_ms)
    assert code(driver, ticket) == ErrorCode.INVALID_SESSION_TIMEOUT
    assert driver.shard.groups == {}


@pytest.mark.parametrize("timeout_ms", [6_000, 1_800_000])
def test_session_timeout_on_the_bounds(timeout_ms: int) -> None:
    driver = Driver()
    assert code(driver, driver.join(session_timeout_ms=timeout_ms)) == ErrorCode.MEMBER_ID_REQUIRED


def test_member_id_in_an_unknown_group() -> None:
    driver = Driver()
    ticket = driver.join("somebody")
    assert code(driver, ticket) == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.joined(ticket).member_id == "somebody"
    assert driver.shard.groups == {}


def test_unknown_member_id_in_a_known_group() -> None:
    driver = Driver()
    driver.stable()
    assert code(driver, driver.join("somebody")) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "fields",
    [
        {"protocols": ()},
        {"protocol_type": ""},
    ],
)
def test_no_protocol_in_an_empty_group(fields: dict[str, Any]) -> None:
    driver = Driver()
    ticket = driver.join(**fields)
    assert code(driver, ticket) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    "fields",
    [
        {"protocols": ()},
        {"protocol_type": "connect"},
        {"protocols": (("roundrobin", b""),)},
    ],
)
@pytest.mark.parametrize("knows_id", [False, True])
def test_protocols_that_do_not_fit_the_members(fields: dict[str, Any], knows_id: bool) -> None:
    driver = Driver()
    ids = driver.stable(2)
    ticket = driver.join(ids[1] if knows_id else "", **fields)
    assert code(driver, ticket) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert driver.group.state == "Stable"


def test_an_empty_group_may_change_its_protocol_type() -> None:
    driver = Driver()
    (member,) = driver.stable()
    driver.leave((member, None))
    driver.stable(protocol_type="connect", protocols=(("default", b""),))
    assert driver.group.protocol_type == "connect"


# Dynamic members


def test_a_dynamic_member_gets_its_id_first_since_v4() -> None:
    driver = Driver()
    ticket = driver.join(version=4, client_id="app")
    assert code(driver, ticket) == ErrorCode.MEMBER_ID_REQUIRED
    assert driver.joined(ticket).member_id == "app-u1"
    assert driver.joined(ticket).generation_id == -1
    assert len(driver.group.roster) == 0
    assert "app-u1" in driver.group.roster.pending


def test_a_dynamic_member_is_admitted_at_once_before_v4() -> None:
    driver = Driver()
    ticket = driver.join(version=3)
    assert ticket not in driver.replies
    driver.advance(DELAY_MS)
    response = driver.joined(ticket)
    assert (response.error_code, response.generation_id) == (NONE, 1)
    assert response.member_id == response.leader == "c-u1"
    assert [m.member_id for m in response.members] == ["c-u1"]
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")


def test_v0_takes_the_session_timeout_for_the_rebalance_timeout() -> None:
    driver = Driver()
    driver.join(version=0, rebalance_timeout_ms=-1)
    assert driver.group.roster.rebalance_timeout_ms == SESSION_MS


def test_a_pending_id_lapses_with_its_session_timeout() -> None:
    driver = Driver()
    pending = driver.new_id()
    driver.advance(SESSION_MS)
    assert code(driver, driver.join(pending)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_cannot_be_claimed_by_a_static_member() -> None:
    driver = Driver()
    pending = driver.new_id()
    ticket = driver.join(pending, group_instance_id="i")
    assert code(driver, ticket) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_waits_at_most_five_minutes_for_its_first_answer() -> None:
    driver = Driver(GroupConfig(session_timeout_ms_max=NEW_MEMBER_JOIN_TIMEOUT_MS * 4))
    long_ms = NEW_MEMBER_JOIN_TIMEOUT_MS * 3
    driver.stable(session_timeout_ms=long_ms, rebalance_timeout_ms=long_ms)
    ticket = driver.join(version=3, session_timeout_ms=long_ms, rebalance_timeout_ms=long_ms)
    driver.advance(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert ticket not in driver.replies
    driver.advance(1)
    assert code(driver, ticket) == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(driver.group.roster) == 1


# The initial delay


def test_the_first_rebalance_waits_for_more_members() -> None:
    driver = Driver()
    first, second = driver.new_id(), driver.new_id()
    one = driver.join(first)
    driver.advance(DELAY_MS - 1)
    two = driver.join(second)  # extends the delay once
    driver.advance(1)
    assert one not in driver.replies
    driver.advance(DELAY_MS)
    assert {driver.joined(t).generation_id for t in (one, two)} == {1}
    assert len(driver.joined(one).members) == 2
    assert len(driver.joined(two).members) == 0
    assert driver.joined(two).leader == first


def test_the_initial_delay_is_capped_by_the_rebalance_timeout() -> None:
    driver = Driver()
    tickets = []
    for _ in range(20):
        tickets.append(driver.join(version=3, rebalance_timeout_ms=DELAY_MS * 2 + 500))
        driver.advance(DELAY_MS - 1)
        if tickets[0] in driver.replies:
            break
    assert driver.mono_ms < DELAY_MS * 2 + 500 + DELAY_MS
    assert code(driver, tickets[0]) == NONE


def test_without_a_delay_the_first_rebalance_is_over_at_once() -> None:
    driver = Driver(GroupConfig(initial_rebalance_delay_ms=0))
    ticket = driver.join(version=3)
    driver.advance(0)
    assert code(driver, ticket) == NONE


# Later rebalances


def test_a_new_member_makes_a_stable_group_rebalance() -> None:
    driver = Driver()
    (leader,) = driver.stable()
    ticket = driver.join(driver.new_id())
    assert driver.group.state == "PreparingRebalance"
    assert driver.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    again = driver.join(leader)
    assert code(driver, ticket) == code(driver, again) == NONE
    assert driver.joined(ticket).generation_id == 2
    assert driver.joined(ticket).leader == leader


def test_members_that_do_not_rejoin_in_time_are_dropped() -> None:
    driver = Driver()
    first, second = driver.stable(2)
    ticket = driver.join(first)
    for _ in range(REBALANCE_MS // 5_000 - 1):
        driver.advance(5_000)
        assert driver.heartbeat(second) == ErrorCode.REBALANCE_IN_PROGRESS
    driver.advance(5_000)
    assert code(driver, ticket) == NONE
    assert [m.member_id for m in driver.joined(ticket).members] == [first]
    assert driver.heartbeat(second) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_is_away_stays_until_its_session_ends() -> None:
    driver = Driver()
    static = driver.join(group_instance_id="i", session_timeout_ms=REBALANCE_MS * 3)
    dynamic = driver.join(version=3)
    driver.advance(DELAY_MS * 2)
    static_id, dynamic_id = driver.joined(static).member_id, driver.joined(dynamic).member_id
    driver.sync_all([static_id, dynamic_id])
    ticket = driver.join(dynamic_id, protocols=OTHER_TOPICS)
    driver.advance(REBALANCE_MS)
    assert code(driver, ticket) == NONE
    assert driver.joined(ticket).leader == dynamic_id  # a leader has to be there
    assert {m.member_id for m in driver.joined(ticket).members} == {static_id, dynamic_id}


def test_a_barrier_that_no_one_reached_waits_for_the_sessions_to_end() -> None:
    driver = Driver()
    tickets = [
        driver.join(group_instance_id=i, session_timeout_ms=s, rebalance_timeout_ms=10)
        for i, s in (("i", REBALANCE_MS), ("j", 6_000))
    ]
    driver.advance(DELAY_MS)
    ids = [driver.joined(t).member_id for t in tickets]
    driver.sync_all(ids)
    driver.advance(6_000)  # j is gone: i would have to rejoin, and does not
    assert driver.group.state == "PreparingRebalance"
    driver.advance(REBALANCE_MS - 6_000)
    assert (driver.group.state, len(driver.group.roster)) == ("Empty", 0)
    assert driver.group.generation == 2


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_a_repeated_join_takes_the_place_of_the_earlier_one(state: str) -> None:
    driver = Driver()
    first, second = driver.stable(2)
    earlier = driver.join(first)
    if state == "CompletingRebalance":
        driver.join(second)
        assert driver.group.state == state
        again = driver.join(first)  # its answer was lost
        assert driver.joined(again) == driver.joined(earlier)
        assert driver.group.generation == 2
        return
    later = driver.join(first)
    assert code(driver, earlier) == ErrorCode.REBALANCE_IN_PROGRESS
    assert later not in driver.replies
    driver.join(second)
    assert code(driver, later) == NONE


def test_in_completing_rebalance_a_changed_member_makes_it_begin_again() -> None:
    driver = Driver()
    first, second = driver.stable(2)
    driver.join(first)
    driver.join(second)
    waiting = driver.sync(second)
    ticket = driver.join(first, protocols=OTHER_TOPICS)
    assert driver.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    driver.join(second)
    assert driver.joined(ticket).generation_id == 3


def test_a_stable_leader_that_rejoins_makes_the_group_rebalance() -> None:
    driver = Driver()
    leader, _ = driver.stable(2)
    driver.join(leader)
    assert driver.group.state == "PreparingRebalance"


def test_a_stable_follower_that_rejoins_unchanged_gets_the_current_generation() -> None:
    driver = Driver()
    leader, follower = driver.stable(2)
    response = driver.joined(driver.join(follower))
    assert (response.error_code, response.generation_id) == (NONE, 1)
    assert (response.leader, list(response.members)) == (leader, [])
    assert driver.group.state == "Stable"


def test_a_stable_follower_with_other_metadata_makes_the_group_rebalance() -> None:
    driver = Driver()
    _, follower = driver.stable(2)
    driver.join(follower, protocols=OTHER_TOPICS)
    assert driver.group.state == "PreparingRebalance"


def test_a_known_member_in_an_emptied_group_is_unknown() -> None:
    driver = Driver()
    (member,) = driver.stable()
    driver.leave((member, None))
    assert code(driver, driver.join(member)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_protocol_by_votes_goes_into_every_answer() -> None:
    driver = Driver(GroupConfig(initial_rebalance_delay_ms=0))
    first = driver.join(version=3, protocols=(("range", b"1"), ("sticky", b"2")))
    driver.advance(0)
    driver.sync_all([driver.joined(first).member_id])
    others = [
        driver.join(version=3, protocols=(("sticky", b"s"), ("range", b"r"))) for _ in range(2)
    ]
    again = driver.join(
        driver.joined(first).member_id, protocols=(("range", b"1"), ("sticky", b"2"))
    )
    assert {driver.joined(t).protocol_name for t in (again, *others)} == {"sticky"}
    assert [m.metadata for m in driver.joined(again).members] == [b"2", b"s", b"s"]


# Size


def test_a_full_group_refuses_newcomers() -> None:
    driver = Driver(GroupConfig(group_size_max=2))
    driver.stable(2)
    assert code(driver, driver.join()) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.group.state == "Stable"


def test_a_full_group_still_takes_its_own_members_back() -> None:
    driver = Driver(GroupConfig(group_size_max=2))
    first, second = driver.stable(2)
    tickets = [driver.join(first), driver.join(second)]
    assert [code(driver, t) for t in tickets] == [NONE, NONE]


def test_with_a_lowered_limit_the_last_to_rejoin_must_go() -> None:
    driver = Driver()
    ids = driver.stable(3)
    driver.config = GroupConfig(group_size_max=2)
    driver = driver.reloaded()
    assert driver.group.state == "PreparingRebalance"
    tickets = [driver.join(id_) for id_ in ids]
    codes = [code(driver, t) for t in tickets]
    assert codes == [NONE, NONE, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert driver.joined(tickets[2]).member_id == ""
    assert [m.member_id for m in driver.group.roster] == ids[:2]
