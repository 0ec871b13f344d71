"""TxnOffsetCommit and the ends of transactions, situation by situation (reference 4.4, 6.5)."""

from typing import Any

import pytest

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.records import OffsetName
from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.coordinator.support import DELAY_MS, GROUP, SESSION_MS, Driver

NONE = ErrorCode.NONE
A, B = 1, 2
SHORT = GroupConfig(offsets_retention_minutes=1)
T0 = OffsetName(GROUP, "t", 0)


def codes(driver: Driver, producer_id: int = A, **fields: Any) -> list[ErrorCode]:
    return driver.commit_codes(driver.commit_in_transaction(producer_id, **fields))


def end(driver: Driver, *, is_commit: bool, producer_id: int = A) -> None:
    assert driver.replies[driver.end_transaction(producer_id, is_commit=is_commit)] is NONE


# What becomes of it


@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_are_pending_until_the_marker(is_commit: bool) -> None:
    driver = Driver()
    driver.commit(offsets={("t", 0): 1})
    assert codes(driver, offsets={("t", 0): 5}) == [NONE]
    for each in (driver, driver.reloaded()):
        assert each.committed() == 1
        assert each.shard.commits.pending.of_group(GROUP) == [T0]
        end(each, is_commit=is_commit)
        assert each.committed() == (5 if is_commit else 1)
        assert GROUP not in each.shard.commits.pending
        assert each.reloaded().committed() == (5 if is_commit else 1)


def test_nothing_is_seen_before_it_is_confirmed() -> None:
    driver = Driver(confirm=False)
    ticket = driver.commit_in_transaction(A)
    assert ticket not in driver.replies
    assert GROUP not in driver.shard.commits.pending
    marker = driver.end_transaction(A, is_commit=True)
    driver.confirm_one()
    assert driver.commit_codes(ticket) == [NONE]
    assert driver.committed() is None
    assert marker not in driver.replies
    driver.confirm_one()
    assert driver.replies[marker] is NONE
    assert driver.committed() == 1


def test_the_last_of_a_transaction_counts() -> None:
    driver = Driver()
    for offset in (5, 9, 7):
        codes(driver, offsets={("t", 0): offset})
    end(driver, is_commit=True)
    assert driver.committed() == driver.reloaded().committed() == 7


def test_a_plain_commit_that_came_later_is_not_replaced() -> None:
    driver = Driver()
    codes(driver, offsets={("t", 0): 5})
    driver.commit(offsets={("t", 0): 6})
    reloaded = driver.reloaded()
    for each in (driver, reloaded):
        end(each, is_commit=True)
        assert each.committed() == each.reloaded().committed() == 6


def test_transactions_that_cross() -> None:
    driver = Driver()
    codes(driver, A, offsets={("t", 0): 5})
    codes(driver, B, offsets={("t", 0): 6})
    end(driver, is_commit=True, producer_id=B)
    assert driver.committed() == 6
    end(driver, is_commit=True, producer_id=A)
    assert driver.committed() == driver.reloaded().committed() == 6


def test_a_marker_without_offsets_or_again_changes_nothing() -> None:
    driver = Driver()
    end(driver, is_commit=True)
    codes(driver)
    end(driver, is_commit=True)
    driver.commit(offsets={("t", 0): 8})
    end(driver, is_commit=False)
    assert driver.committed() == driver.reloaded().committed() == 8


# Who may commit


def test_an_absent_group_is_made() -> None:
    driver = Driver()
    assert codes(driver) == [NONE]
    assert driver.group.protocol_type is None
    assert GROUP in driver.reloaded().shard.groups


def test_what_is_refused_whole_makes_no_group() -> None:
    driver = Driver()
    assert codes(driver, metadata="x" * 5_000) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert GROUP not in driver.shard.groups


def test_a_generation_of_an_absent_group() -> None:
    driver = Driver()
    assert codes(driver, member_id="a", generation_id=1) == [ErrorCode.ILLEGAL_GENERATION]
    assert driver.shard.groups == {}


@pytest.mark.parametrize(
    ("member_id", "generation", "instance_id", "expected"),
    [
        ("<member>", 1, None, NONE),
        ("<member>", 1, "i", NONE),
        ("<member>", 0, None, ErrorCode.ILLEGAL_GENERATION),
        ("<member>", -1, None, ErrorCode.ILLEGAL_GENERATION),
        ("nobody", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("nobody", 1, "i", ErrorCode.FENCED_INSTANCE_ID),
        ("", -1, "j", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, None, NONE),  # before v3 there was no place for it
    ],
)
def test_members_of_a_stable_group(
    member_id: str, generation: int, instance_id: str | None, expected: ErrorCode
) -> None:
    driver = Driver()
    ticket = driver.join(group_instance_id="i")
    driver.advance(DELAY_MS)
    member = driver.joined(ticket).member_id
    driver.sync_all([member])
    given = member_id.replace("<member>", member)
    fields = {"member_id": given, "generation_id": generation, "group_instance_id": instance_id}
    assert codes(driver, **fields) == [expected]
    assert (GROUP in driver.shard.commits.pending) == (expected is NONE)


def test_a_group_that_assigns_takes_the_offsets_of_the_generation_before() -> None:
    driver = Driver()
    (member,) = driver.stable()
    driver.join(member)
    assert driver.group.state == "CompletingRebalance"
    assert codes(driver, member_id=member, generation_id=2) == [NONE]
    assert codes(driver, member_id=member, generation_id=1) == [ErrorCode.ILLEGAL_GENERATION]


def test_it_is_no_sign_of_life() -> None:
    driver = Driver()
    (member,) = driver.stable()
    driver.advance(SESSION_MS - 1)
    codes(driver, member_id=member, generation_id=1)
    driver.advance(1)
    assert driver.group.state == "Empty"


def test_each_partition_has_its_own_answer() -> None:
    driver = Driver()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(driver, offsets={("t", 0): 1, ("t", 9): 1, ("nowhere", 0): 1}) == [
        NONE,
        unknown,
        unknown,
    ]


# Between the coordinator's yes and the write


def test_a_marker_that_comes_in_between_breaks_the_guard() -> None:
    driver = Driver()
    guards = driver.shard.commits.guards
    guard, other = guards.begin(A), guards.begin(B)
    end(driver, is_commit=False)
    assert codes(driver, guard=guard) == [ErrorCode.INVALID_TXN_STATE]
    assert codes(driver, B, guard=other) == [NONE]
    assert len(guards) == 0


def test_a_guard_is_good_for_one_commit() -> None:
    driver = Driver()
    guard = driver.shard.commits.guards.begin(A)
    assert codes(driver, guard=guard) == [NONE]
    assert codes(driver, guard=guard) == [ErrorCode.INVALID_TXN_STATE]


# Deletion and expiry


def test_a_group_with_pending_offsets_is_neither_unused_nor_lapsed() -> None:
    driver = Driver(SHORT)
    driver.commit(offsets={("t", 0): 1, ("t", 1): 2})
    codes(driver, offsets={("t", 0): 5})
    driver.advance(60_000)
    driver.act(driver.shard.clean(driver.now))
    assert (driver.committed("t", 0), driver.committed("t", 1)) == (1, None)
    end(driver, is_commit=False)
    driver.act(driver.shard.clean(driver.now))
    assert driver.shard.groups == driver.reloaded().shard.groups == {}


def test_a_group_that_has_only_pending_offsets_stays() -> None:
    driver = Driver(SHORT)
    codes(driver)
    driver.advance(60_000)
    driver.act(driver.shard.clean(driver.now))
    assert GROUP in driver.shard.groups


@pytest.mark.parametrize("how", ["group", "topic"])
def test_deletion_takes_pending_offsets_along(how: str) -> None:
    driver = Driver(confirm=False)
    driver.commit_in_transaction(A)
    driver.confirm_all()
    driver.commit_in_transaction(B)  # under way
    if how == "group":
        driver.act(driver.shard.delete_group(GROUP, driver.ticket()))
    else:
        driver.act(driver.shard.drop_topic("t"))
    driver.confirm_all()
    reloaded = driver.reloaded()
    for each in (driver, reloaded):
        assert GROUP not in each.shard.commits.pending
        for producer_id in (A, B):
            each.end_transaction(producer_id, is_commit=True)
        each.confirm_all()
        assert each.committed() is None
