"""OffsetCommit and the life of committed offsets, situation by situation (reference 6.5)."""

from typing import Any

import pytest

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.offsets import OffsetStore
from tailrace.broker.coordinator.records import CommittedOffset, OffsetUpdate
from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.coordinator.support import (
    DELAY_MS,
    GROUP,
    SESSION_MS,
    Driver,
    subscription,
)

NONE = ErrorCode.NONE
RETENTION_MS = 60_000
INT64_MAX = 2**63 - 1
SHORT = GroupConfig(offsets_retention_minutes=1)


def codes(driver: Driver, *args: Any, **fields: Any) -> list[ErrorCode]:
    return driver.commit_codes(driver.commit(*args, **fields))


# Who may commit


def test_outside_of_group_management_an_absent_group_is_made() -> None:
    driver = Driver()
    assert codes(driver) == [NONE]
    assert driver.committed() == 1
    assert (driver.group.state, driver.group.protocol_type) == ("Empty", None)


def test_outside_of_group_management_an_empty_group_accepts() -> None:
    driver = Driver()
    (member,) = driver.stable()
    driver.leave((member, None))
    assert codes(driver) == [NONE]


def test_outside_of_group_management_a_group_with_members_refuses() -> None:
    driver = Driver()
    driver.stable()
    assert codes(driver) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert driver.committed() is None


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (2, ErrorCode.ILLEGAL_GENERATION),
        (8, ErrorCode.ILLEGAL_GENERATION),
        (9, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_generation_of_an_absent_group(version: int, expected: ErrorCode) -> None:
    driver = Driver()
    assert codes(driver, "a", 1, version=version) == [expected]
    assert driver.shard.groups == {}


@pytest.mark.parametrize(
    ("member_id", "generation", "instance_id", "expected"),
    [
        ("<member>", 1, None, NONE),
        ("<member>", 1, "i", NONE),
        ("<member>", 0, None, ErrorCode.ILLEGAL_GENERATION),
        ("<member>", 2, None, ErrorCode.ILLEGAL_GENERATION),
        ("<member>", -1, None, ErrorCode.ILLEGAL_GENERATION),
        ("nobody", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", 1, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("nobody", 1, "i", ErrorCode.FENCED_INSTANCE_ID),
        ("nobody", -1, "i", ErrorCode.FENCED_INSTANCE_ID),
        ("<member>", 1, "j", ErrorCode.UNKNOWN_MEMBER_ID),
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
    assert codes(driver, given, generation, group_instance_id=instance_id) == [expected]
    assert driver.committed() == (1 if expected is NONE else None)


def test_members_of_a_rebalancing_group() -> None:
    driver = Driver()
    first, second = driver.stable(2)
    driver.join(first)
    assert driver.group.state == "PreparingRebalance"
    assert codes(driver, second, 1) == [NONE]  # the last chance before partitions move
    driver.join(second)
    assert driver.group.state == "CompletingRebalance"
    assert codes(driver, second, 2) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert codes(driver, second, 1) == [ErrorCode.ILLEGAL_GENERATION]


# What may be committed


def test_each_partition_has_its_own_answer() -> None:
    driver = Driver()
    offsets = {("t", 0): 5, ("t", 3): 6, ("t", -1): 7, ("nowhere", 0): 8, ("other", 0): 9}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(driver, offsets=offsets) == [NONE, unknown, unknown, unknown, NONE]
    assert driver.committed("t", 0) == 5
    assert driver.committed("other", 0) == 9
    assert driver.committed("t", 3) is None


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (None, NONE),
        ("x" * 4_096, NONE),
        ("x" * 4_097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_metadata(metadata: str | None, expected: ErrorCode) -> None:
    driver = Driver()
    assert codes(driver, metadata=metadata) == [expected]
    if expected is NONE:
        stored = driver.shard.commits.offsets.of_group(GROUP)["t"][0]
        assert stored.metadata == (metadata or "")
        assert stored.commit_timestamp_ms == driver.now.wall_ms


def test_a_commit_that_stores_nothing_writes_nothing_and_makes_no_group() -> None:
    driver = Driver()
    codes(driver, offsets={("nowhere", 0): 1})
    assert codes(driver, metadata="x" * 5_000) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert driver.stream == []
    assert GROUP not in driver.shard.groups


def test_a_commit_too_large_to_store() -> None:
    driver = Driver(confirm=False)
    ticket = driver.commit(offsets={("t", 0): 1, ("t", 9): 1})
    driver.act(driver.shard.on_refused(driver.unconfirmed.popleft(), driver.now))
    assert driver.commit_codes(ticket) == [
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert driver.committed() is None


def test_a_commit_is_answered_and_seen_when_it_is_on_the_stream() -> None:
    driver = Driver(confirm=False)
    first = driver.commit(offsets={("t", 0): 1})
    second = driver.commit(offsets={("t", 0): 2})
    assert first not in driver.replies
    assert driver.committed() is None
    driver.confirm_one()
    assert first in driver.replies
    assert second not in driver.replies
    assert driver.committed() == 1
    driver.confirm_one()
    assert driver.committed() == 2


# How long offsets live


def cleaned(driver: Driver) -> bool:
    driver.act(driver.shard.clean(driver.now))
    return driver.committed() is None


def test_offsets_of_a_simple_group_count_from_their_commit() -> None:
    driver = Driver(SHORT)
    codes(driver)
    driver.advance(RETENTION_MS - 1)
    assert not cleaned(driver)
    driver.advance(1)
    assert cleaned(driver)
    assert driver.shard.groups == {}
    assert driver.reloaded().shard.groups == {}


def test_offsets_of_an_emptied_group_count_from_when_the_last_member_went() -> None:
    driver = Driver(SHORT)
    (member,) = driver.stable()
    codes(driver, member, 1)
    driver.advance(SESSION_MS // 2)
    driver.leave((member, None))
    driver.advance(RETENTION_MS - 1)
    assert not cleaned(driver)
    assert not cleaned(driver.reloaded())
    driver.advance(1)
    assert cleaned(driver.reloaded())
    assert cleaned(driver)
    assert driver.shard.groups == {}


@pytest.mark.parametrize(
    ("topics", "is_kept"), [(("t",), True), (("other",), False), (("other", "t"), True)]
)
def test_offsets_of_a_stable_group_live_while_somebody_reads_the_topic(
    topics: tuple[str, ...], is_kept: bool
) -> None:
    driver = Driver(SHORT)
    (member,) = driver.stable(protocols=(("range", subscription(*topics)),))
    codes(driver, member, 1)
    for _ in range(RETENTION_MS // 5_000):
        driver.advance(5_000)
        driver.heartbeat(member)
    assert cleaned(driver) is not is_kept
    assert driver.group.state == "Stable"


@pytest.mark.parametrize(
    "fields",
    [
        {"protocols": (("range", b"unreadable"),)},
        {"protocol_type": "connect", "protocols": (("default", subscription("other")),)},
    ],
)
def test_offsets_of_members_with_an_unknown_subscription_are_kept(fields: dict[str, Any]) -> None:
    driver = Driver(SHORT)
    (member,) = driver.stable(session_timeout_ms=RETENTION_MS * 2, **fields)
    codes(driver, member, 1)
    driver.advance(RETENTION_MS)
    assert not cleaned(driver)


def test_a_rebalancing_group_keeps_all() -> None:
    driver = Driver(SHORT)
    long_ms = RETENTION_MS * 3
    first, second = driver.stable(2, session_timeout_ms=long_ms, rebalance_timeout_ms=long_ms)
    codes(driver, first, 1, offsets={("other", 0): 1})
    driver.join(first, session_timeout_ms=long_ms, rebalance_timeout_ms=long_ms)
    driver.join(second, session_timeout_ms=long_ms, rebalance_timeout_ms=long_ms)
    assert driver.group.state == "CompletingRebalance"
    driver.advance(RETENTION_MS)
    driver.act(driver.shard.clean(driver.now))
    assert driver.committed("other") == 1


def test_a_retention_time_of_the_commit_itself_counts() -> None:
    driver = Driver(SHORT)
    codes(driver, version=4, retention_time_ms=1_000)
    driver.advance(999)
    assert not cleaned(driver)
    assert not cleaned(driver.reloaded())
    driver.advance(1)
    assert cleaned(driver)


def test_a_retention_time_beyond_the_end_of_time_keeps_the_offset_until_then() -> None:
    driver = Driver(SHORT)
    assert codes(driver, version=4, retention_time_ms=INT64_MAX) == [NONE]
    driver.advance(RETENTION_MS)
    assert not cleaned(driver)
    assert not cleaned(driver.reloaded())


def test_a_group_without_offsets_and_members_goes() -> None:
    driver = Driver()
    (member,) = driver.stable()
    driver.act(driver.shard.clean(driver.now))
    assert GROUP in driver.shard.groups
    driver.leave((member, None))
    pending = driver.new_id()
    driver.act(driver.shard.clean(driver.now))
    assert GROUP in driver.shard.groups  # somebody is about to join
    driver.leave((pending, None))
    driver.act(driver.shard.clean(driver.now))
    assert driver.shard.groups == {}
    assert driver.reloaded().shard.groups == {}


def test_a_group_whose_first_commit_is_under_way_is_not_unused() -> None:
    driver = Driver(confirm=False)
    ticket = driver.commit()
    driver.act(driver.shard.clean(driver.now))
    assert list(driver.shard.groups) == [GROUP]
    driver.confirm_all()
    assert driver.commit_codes(ticket) == [NONE]
    assert driver.committed() == 1


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    driver = Driver()
    codes(driver, offsets={("t", 0): 1, ("t", 1): 2, ("other", 0): 3})
    codes(driver, offsets={("t", 0): 4}, group_id="h")
    driver.act(driver.shard.drop_topic("t"))
    for each in (driver, driver.reloaded()):
        assert each.committed("t", 0) is None
        assert each.committed("t", 1) is None
        assert each.committed("t", 0, group="h") is None
        assert each.committed("other", 0) == 3


def test_a_load_deletes_the_offsets_of_topics_that_are_gone() -> None:
    driver = Driver()
    codes(driver, offsets={("t", 0): 1, ("other", 0): 3})
    driver.topics.delete("t")  # and the broker dies before the tombstones
    loaded = driver.reloaded()
    assert loaded.committed("t", 0) is None
    assert loaded.committed("other", 0) == 3
    loaded.topics.create("t", 3)
    assert loaded.reloaded().committed("t", 0) is None


def test_many_tombstones_go_out_in_several_writes() -> None:
    driver = Driver(confirm=False)
    driver.partitions["t"] = 1_200
    driver.commit(offsets={("t", partition): 1 for partition in range(1_200)})
    driver.confirm_all()
    driver.act(driver.shard.drop_topic("t"))
    assert [len(write.records) for write in driver.unconfirmed] == [500, 500, 200]
    driver.confirm_all()
    assert list(driver.shard.commits.offsets) == []


def test_a_store_forgets_what_is_empty() -> None:
    store = OffsetStore()
    store.apply(OffsetUpdate("g", "t", 0, None))
    store.apply(OffsetUpdate("g", "t", 0, CommittedOffset(1, -1, "", 0)))
    store.apply(OffsetUpdate("g", "t", 1, CommittedOffset(1, -1, "", 0)))
    assert "g" in store
    store.apply(OffsetUpdate("g", "t", 0, None))
    store.apply(OffsetUpdate("g", "t", 1, None))
    assert "g" not in store
    assert store.of_group("g") == {}
