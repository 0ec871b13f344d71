"""Members with an instance id: they come back to what they had, and fence who has the same id."""

import pytest

from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.coordinator.consumer.support import (
    SESSION_MS,
    Client,
    ConsumerDriver,
    lasting,
)


def pair() -> tuple[ConsumerDriver, Client, Client]:
    driver = ConsumerDriver()
    a, b = Client("a", instance_id="i"), Client("b")
    driver.settle(a, b)
    return driver, a, b


def test_static_member_gets_back_assignment_upon_rejoin() -> None:
    driver, a, b = pair()
    assert driver.leave_group(a, epoch=-2) is ErrorCode.NONE
    away = driver.consumers.members["a"]
    assert (away.epoch, away.assigned) == (-2, {driver.topic_id(): {0: 0, 1: 0}})
    driver.turn(b)
    assert b.partitions == [2], "nothing moves while it is away"
    again = Client("a2", instance_id="i")
    response = driver.turn(again)
    assert (response.error_code, again.partitions, again.epoch) == (0, [0, 1], 3)
    assert sorted(driver.consumers.members) == ["a2", "b"]
    assert driver.consumers.static_ids == {"i": "a2"}
    assert driver.consumers.epoch == 3
    assert lasting(driver.reloaded().consumers) == lasting(driver.consumers)


def test_a_client_may_keep_its_member_id_over_the_pause() -> None:
    driver, a, _ = pair()
    driver.leave_group(a, epoch=-2)
    driver.turn(a)
    assert (a.partitions, a.epoch) == ([0, 1], 3)


def test_static_member_rejoins_with_new_subscribed_topics() -> None:
    driver, a, b = pair()
    driver.leave_group(a, epoch=-2)
    again = Client("a2", instance_id="i", topics=("t", "other"))
    driver.settle(again, b)
    assert again.owned[driver.topic_id("other")] == {0}
    assert driver.consumers.epoch == 4


def test_no_group_epoch_bump_when_static_member_temporarily_leaves() -> None:
    driver, a, _ = pair()
    driver.leave_group(a, epoch=-2)
    assert driver.consumers.epoch == 3
    assert set(driver.consumers.owners[driver.topic_id()].values()) == {"a", "b"}


def test_static_member_leaves_for_good() -> None:
    driver, a, b = pair()
    assert driver.leave_group(a, epoch=-1) is ErrorCode.NONE
    driver.settle(b)
    assert b.partitions == [0, 1, 2]


def test_static_member_that_does_not_come_back_is_put_out() -> None:
    driver, a, b = pair()
    driver.leave_group(a, epoch=-2)
    driver.advance(SESSION_MS - 1)
    driver.turn(b)
    driver.advance(1)
    driver.settle(b)
    assert b.partitions == [0, 1, 2]


def test_should_throw_unreleased_instance_id_exception() -> None:
    driver, _, _ = pair()
    response = driver.turn(Client("c", instance_id="i"))
    assert response.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert sorted(driver.consumers.members) == ["a", "b"]


@pytest.mark.parametrize("epoch", [3, -1, -2])
def test_should_throw_fenced_instance_id_exception(epoch: int) -> None:
    driver, a, _ = pair()
    response = driver.beat("c", epoch, instance_id="i")
    assert response.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert driver.turn(a).error_code == ErrorCode.NONE


@pytest.mark.parametrize("epoch", [3, -1, -2])
def test_should_throw_unknown_member_id_when_static_member_is_not_there(epoch: int) -> None:
    driver, _, _ = pair()
    response = driver.beat("a", epoch, instance_id="nobody")
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_left_for_a_while_is_fenced_until_it_joins() -> None:
    driver, a, _ = pair()
    epoch = a.epoch
    driver.leave_group(a, epoch=-2)
    assert driver.beat("a", epoch, instance_id="i").error_code == ErrorCode.FENCED_MEMBER_EPOCH
