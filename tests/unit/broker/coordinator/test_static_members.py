"""JoinGroup of static members: takeover, fencing, and when it costs a rebalance (reference 6.3)."""

import pytest

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.coordinator.support import DELAY_MS, Driver, subscription

NONE = ErrorCode.NONE
OTHER_TOPICS = (("range", subscription("t", "other")),)
OTHER_OWNED = (("range", subscription("t", extra=b"owned")),)


def code(driver: Driver, ticket: int) -> ErrorCode:
    return ErrorCode(driver.joined(ticket).error_code)


def static_group(driver: Driver) -> tuple[str, str]:
    """Return (leader's, follower's) member ids of a stable group of the instances i and j."""
    tickets = [driver.join(group_instance_id=i) for i in "ij"]
    driver.advance(DELAY_MS * 2)
    leader, follower = (driver.joined(t).member_id for t in tickets)
    driver.sync_all([leader, follower])
    return leader, follower


def test_an_unknown_instance_is_admitted_at_once() -> None:
    driver = Driver()
    ticket = driver.join(group_instance_id="i")
    driver.advance(DELAY_MS)
    assert driver.joined(ticket).member_id == "i-u1"
    assert driver.joined(ticket).members[0].group_instance_id == "i"


def test_a_known_instance_with_another_member_id_is_fenced() -> None:
    driver = Driver()
    static_group(driver)
    ticket = driver.join("i-of-old", group_instance_id="i")
    assert code(driver, ticket) == ErrorCode.FENCED_INSTANCE_ID


def test_an_unknown_instance_with_a_member_id_is_unknown() -> None:
    driver = Driver()
    leader, _ = static_group(driver)
    ticket = driver.join(leader, group_instance_id="nobody")
    assert code(driver, ticket) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_follower_comes_back_without_a_rebalance() -> None:
    driver = Driver(confirm=True)
    leader, follower = static_group(driver)
    driver.confirm = False
    ticket = driver.join(group_instance_id="j", version=9)
    assert ticket not in driver.replies  # not before the new id is on the stream
    driver.confirm_all()
    response = driver.joined(ticket)
    assert (response.error_code, response.generation_id, response.leader) == (NONE, 1, leader)
    assert response.member_id not in (follower, leader)
    assert not response.skip_assignment
    assert list(response.members) == []
    driver.confirm = True
    assert driver.group.state == "Stable"
    assert driver.heartbeat(follower, group_instance_id="j") == ErrorCode.FENCED_INSTANCE_ID
    assert driver.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID
    given = driver.synced(driver.sync(response.member_id, group_instance_id="j"))
    assert given.assignment == b"for " + follower.encode()


def test_a_static_leader_that_comes_back_is_told_to_skip_the_assignment() -> None:
    driver = Driver()
    old, follower = static_group(driver)
    response = driver.joined(driver.join(group_instance_id="i", version=9))
    assert response.skip_assignment
    assert response.leader == response.member_id != old
    assert [m.member_id for m in response.members] == [response.member_id, follower]
    assert driver.group.state == "Stable"


def test_a_static_leader_of_an_older_client_is_not_told_that_it_leads() -> None:
    driver = Driver()
    old, _ = static_group(driver)
    response = driver.joined(driver.join(group_instance_id="i", version=8))
    assert not response.skip_assignment
    assert (response.leader, list(response.members)) == (old, [])
    assert driver.group.roster.leader == response.member_id


def test_owned_partitions_in_the_metadata_do_not_cost_a_rebalance() -> None:
    driver = Driver()
    static_group(driver)
    ticket = driver.join(group_instance_id="j", protocols=OTHER_OWNED)
    assert code(driver, ticket) == NONE
    assert driver.group.state == "Stable"


@pytest.mark.parametrize(
    "protocols", [OTHER_TOPICS, (("range", b"unreadable"),)], ids=["topics", "unreadable"]
)
def test_a_static_member_with_another_subscription_makes_the_group_rebalance(
    protocols: tuple[tuple[str, bytes], ...],
) -> None:
    driver = Driver()
    static_group(driver)
    ticket = driver.join(group_instance_id="j", protocols=protocols)
    assert ticket not in driver.replies
    assert driver.group.state == "PreparingRebalance"


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("connect", b"1", b"2"),
        ("connect", subscription("t"), subscription("t", "other")),
        ("consumer", b"1", b"2"),
    ],
    ids=["connect", "connect that looks like a subscription", "no subscription"],
)
def test_what_is_no_subscription_is_opaque(kind: str, before: bytes, after: bytes) -> None:
    """As to Kafka: the name of the protocol decides."""
    driver = Driver(GroupConfig(initial_rebalance_delay_ms=0))
    fields = {"group_instance_id": "i", "protocol_type": kind}
    one = driver.join(protocols=(("p", before),), **fields)
    driver.advance(0)
    driver.sync_all([driver.joined(one).member_id])
    ticket = driver.join(protocols=(("p", after),), **fields)
    assert code(driver, ticket) == NONE
    assert (driver.group.state, driver.joined(ticket).generation_id) == ("Stable", 1)


def test_a_static_member_that_changes_the_chosen_protocol_makes_the_group_rebalance() -> None:
    driver = Driver(GroupConfig(initial_rebalance_delay_ms=0))
    both = (("range", b""), ("sticky", b""))
    one = driver.join(group_instance_id="i", protocols=both)
    driver.advance(0)
    driver.sync_all([driver.joined(one).member_id])
    ticket = driver.join(group_instance_id="i", protocols=both[::-1])
    assert driver.joined(ticket).protocol_name == "sticky"
    assert driver.joined(ticket).generation_id == 2


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_a_static_takeover_fences_what_the_old_one_waits_for(state: str) -> None:
    driver = Driver()
    leader, follower = static_group(driver)
    waiting = driver.join(follower, group_instance_id="j", protocols=OTHER_TOPICS)
    if state == "CompletingRebalance":
        driver.join(leader, group_instance_id="i")
        waiting = driver.sync(follower, group_instance_id="j")
    assert driver.group.state == state
    ticket = driver.join(group_instance_id="j")
    assert driver.replies[waiting].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert ticket not in driver.replies
    driver.join(leader, group_instance_id="i")
    assert code(driver, ticket) == NONE


def test_a_takeover_that_is_overtaken_by_a_rebalance_is_answered_by_it() -> None:
    driver = Driver()
    leader, _ = static_group(driver)
    driver.confirm = False
    ticket = driver.join(group_instance_id="j")
    again = driver.join(leader, group_instance_id="i")
    assert driver.joined(ticket).generation_id == driver.joined(again).generation_id == 2
    driver.confirm_all()
    assert driver.joined(ticket).generation_id == 2


def test_a_takeover_is_overtaken_by_the_next_one() -> None:
    driver = Driver()
    static_group(driver)
    driver.confirm = False
    first = driver.join(group_instance_id="j")
    second = driver.join(group_instance_id="j")
    assert code(driver, first) == ErrorCode.FENCED_INSTANCE_ID
    driver.confirm_all()
    assert code(driver, second) == NONE
    assert driver.group.roster.static_id("j") == driver.joined(second).member_id
