"""Records of a generation that are confirmed late: they mean what they were written for."""

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.leave_group import MemberIdentity
from tests.unit.broker.coordinator.support import GROUP, Driver

EAGER = GroupConfig(initial_rebalance_delay_ms=0)


def joined(driver: Driver) -> str:
    """Return the only member of a generation that waits for its assignment."""
    member_id = driver.new_id()
    joining = driver.join(member_id)
    driver.advance(0)
    assert driver.joined(joining).error_code == ErrorCode.NONE
    return member_id


def test_a_leader_that_syncs_again_does_not_change_what_is_under_way() -> None:
    driver = Driver(EAGER, confirm=False)
    leader = joined(driver)
    first = driver.sync(leader, {leader: b"first"})
    again = driver.sync(leader, {leader: b"again"})
    driver.confirm_all()
    assert driver.synced(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.synced(again).assignment == b"first"
    for each in (driver, driver.reloaded()):
        assert each.group.roster[leader].assignment == b"first"


def test_a_record_of_a_deleted_group_says_nothing_of_the_next_one() -> None:
    driver = Driver(EAGER, confirm=False)
    old = joined(driver)
    driver.sync(old, {old: b"old"})
    leaving = [MemberIdentity(member_id=old)]
    driver.act(driver.shard.leave(GROUP, leaving, driver.ticket(), driver.now))
    driver.act(driver.shard.delete_group(GROUP, driver.ticket()))
    new = joined(driver)
    assert driver.group.generation == 1  # as the old group's, whose record is confirmed only now
    driver.confirm_all()
    syncing = driver.sync(new, {new: b"new"})
    driver.confirm_all()
    assert driver.synced(syncing).assignment == b"new"
