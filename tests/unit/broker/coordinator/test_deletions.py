"""OffsetDelete and DeleteGroups, situation by situation (reference 6.5)."""

import pytest

from tailrace.broker.replicated.record_log import size_of
from tailrace.broker.replicated.runner import BATCH_BYTES_MAX
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tests.unit.broker.coordinator.support import GROUP, Driver, subscription

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
SUBSCRIBED = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def delete(driver: Driver, *names: tuple[str, int]) -> int:
    """Ask for offsets to be deleted; return the ticket."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
        )
        for topic, partition in names
    ]
    request = OffsetDeleteRequest(group_id=GROUP, topics=topics)
    ticket = driver.ticket()
    count = driver.partitions
    driver.act(driver.shard.delete_offsets(request, lambda topic: count.get(topic, 0), ticket))
    return ticket


def answers(driver: Driver, ticket: int) -> list[ErrorCode]:
    response = driver.replies[ticket]
    assert isinstance(response, OffsetDeleteResponse)
    codes = [ErrorCode(p.error_code) for t in response.topics for p in t.partitions]
    return codes or [ErrorCode(response.error_code)]


def delete_group(driver: Driver) -> int:
    ticket = driver.ticket()
    driver.act(driver.shard.delete_group(GROUP, ticket))
    return ticket


# OffsetDelete


def test_offsets_of_an_empty_group_are_deleted() -> None:
    driver = Driver()
    driver.commit(offsets={("t", 0): 1, ("t", 1): 2})
    ticket = delete(driver, ("t", 0), ("t", 2), ("t", 3), ("nowhere", 0))
    assert answers(driver, ticket) == [NONE, NONE, UNKNOWN, UNKNOWN]
    for each in (driver, driver.reloaded()):
        assert (each.committed("t", 0), each.committed("t", 1)) == (None, 2)


def test_what_was_never_committed_needs_no_tombstone() -> None:
    driver = Driver(confirm=False)
    driver.commit()
    driver.confirm_all()
    assert answers(driver, delete(driver, ("t", 2))) == [NONE]
    assert not driver.unconfirmed


def test_the_answer_waits_for_the_tombstone() -> None:
    driver = Driver(confirm=False)
    driver.commit()
    driver.confirm_all()
    ticket = delete(driver, ("t", 0))
    assert ticket not in driver.replies
    assert driver.committed() == 1
    driver.confirm_all()
    assert answers(driver, ticket) == [NONE]
    assert driver.committed() is None


def test_a_commit_under_way_is_deleted_as_well() -> None:
    driver = Driver(confirm=False)
    driver.commit()
    delete(driver, ("t", 0))
    driver.confirm_all()
    assert driver.committed() is None
    assert driver.reloaded().committed() is None


def test_members_keep_what_they_read() -> None:
    driver = Driver()
    (member,) = driver.stable()
    driver.commit(member, 1, offsets={("t", 0): 1, ("other", 0): 2})
    assert answers(driver, delete(driver, ("t", 0), ("other", 0))) == [SUBSCRIBED, NONE]
    assert (driver.committed("t", 0), driver.committed("other", 0)) == (1, None)


def test_members_whose_subscription_cannot_be_read_keep_everything() -> None:
    driver = Driver()
    driver.stable(protocols=(("range", b"?"),))
    assert answers(driver, delete(driver, ("t", 0))) == [SUBSCRIBED]


def test_members_that_are_no_consumers_keep_everything() -> None:
    driver = Driver()
    ids = driver.stable(protocol_type="connect")
    assert answers(driver, delete(driver, ("t", 0))) == [ErrorCode.NON_EMPTY_GROUP]
    driver.leave((ids[0], None))
    assert answers(driver, delete(driver, ("t", 0))) == [NONE]


def test_after_the_last_member_nothing_is_read() -> None:
    driver = Driver()
    (member,) = driver.stable(protocols=(("range", subscription("t")),))
    driver.commit(member, 1)
    driver.leave((member, None))
    assert answers(driver, delete(driver, ("t", 0))) == [NONE]
    assert driver.committed() is None


def test_an_absent_group_is_an_error_whatever_is_asked_of_it() -> None:
    """As Kafka 4.3.1 answers, also where none of the topics is there."""
    driver = Driver()
    for names in ([("t", 0)], [("nowhere", 0)], []):
        ticket = delete(driver, *names)
        assert answers(driver, ticket) == [ErrorCode.GROUP_ID_NOT_FOUND]
        assert not driver.replies[ticket].topics


# DeleteGroups


def test_a_group_goes_with_its_offsets() -> None:
    driver = Driver()
    (member,) = driver.stable()
    driver.leave((member, None))
    driver.commit(offsets={("t", 0): 1, ("other", 0): 2})
    driver.confirm = False
    ticket = delete_group(driver)
    assert ticket not in driver.replies
    driver.confirm_all()
    assert driver.replies[ticket] is NONE
    for each in (driver, driver.reloaded()):
        assert each.shard.groups == {}
        assert list(each.shard.commits.offsets) == []


def test_a_group_with_members_stays() -> None:
    driver = Driver()
    ids = [driver.new_id()]
    driver.join(ids[0])
    assert driver.replies[delete_group(driver)] is ErrorCode.NON_EMPTY_GROUP  # preparing
    driver.advance(10_000)
    assert driver.replies[delete_group(driver)] is ErrorCode.NON_EMPTY_GROUP  # completing
    driver.sync_all(ids)
    assert driver.replies[delete_group(driver)] is ErrorCode.NON_EMPTY_GROUP  # stable
    driver.leave((ids[0], None))
    assert driver.replies[delete_group(driver)] is NONE
    assert driver.reloaded().shard.groups == {}


def test_an_absent_group() -> None:
    driver = Driver()
    assert driver.replies[delete_group(driver)] is ErrorCode.GROUP_ID_NOT_FOUND


def test_commits_under_way_go_with_their_group() -> None:
    driver = Driver(confirm=False)
    driver.commit()
    delete_group(driver)
    driver.confirm_all()
    assert driver.shard.groups == {}
    assert driver.reloaded().shard.groups == {}
    assert driver.committed() is None


def test_a_group_that_is_made_anew_at_once_stays() -> None:
    driver = Driver(confirm=False)
    driver.commit()
    driver.confirm_all()
    delete_group(driver)
    driver.commit(offsets={("t", 1): 7})
    driver.confirm_all()
    for each in (driver, driver.reloaded()):
        assert list(each.shard.groups) == [GROUP]
        assert (each.committed("t", 0), each.committed("t", 1)) == (None, 7)


def test_a_member_whose_id_was_handed_out_must_begin_anew() -> None:
    driver = Driver()
    member = driver.new_id()
    assert driver.replies[delete_group(driver)] is NONE
    assert driver.joined(driver.join(member)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("count", [499, 500, 501, 1200])
def test_many_offsets_go_in_several_writes(count: int) -> None:
    driver = Driver(confirm=False)
    driver.partitions["big"] = count
    driver.commit(offsets={("big", n): n for n in range(count)})
    driver.confirm_all()
    ticket = delete_group(driver)
    assert max(len(write.records) for write in driver.unconfirmed) <= 500
    driver.confirm_all()
    assert driver.replies[ticket] is NONE
    assert list(driver.shard.commits.offsets) == []


def test_offsets_of_a_group_with_a_long_name_go_in_writes_that_can_be_stored() -> None:
    driver = Driver(confirm=False)
    group_id = "g" * 32_000
    partitions = 100
    driver.partitions["big"] = partitions
    for start in range(0, partitions, 20):
        driver.commit(group_id=group_id, offsets={("big", n): n for n in range(start, start + 20)})
    driver.confirm_all()
    driver.act(driver.shard.delete_group(group_id, driver.ticket()))
    assert max(size_of(write.records) for write in driver.unconfirmed) <= BATCH_BYTES_MAX
    driver.confirm_all()
    assert list(driver.shard.commits.offsets) == []
