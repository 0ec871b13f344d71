"""A large group is not woken for each of its members: else a flood of them costs its square."""

from collections.abc import Callable

import pytest

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.wakes import wake_ms
from tailrace.broker.replicated.effects import NEVER, Effects, Now
from tests.unit.broker.coordinator.consumer.support import ConsumerDriver
from tests.unit.broker.coordinator.support import GROUP, Driver

MEMBERS = 1_000


@pytest.mark.parametrize(
    ("deadline_ms", "members", "expected"),
    [(50, 99, 50), (50, 10_000, 110), (500, 10_000, 500), (NEVER, 10_000, NEVER)],
)
def test_the_larger_a_group_the_later_it_is_woken(
    deadline_ms: int, members: int, expected: int
) -> None:
    assert wake_ms(deadline_ms, members, Now(0, 10)) == expected


def come_classic(driver: Driver) -> None:
    driver.new_id()


def come(driver: Driver) -> None:
    assert isinstance(driver, ConsumerDriver)
    fields = {"subscribed_topic_names": ["t"], "topic_partitions": []}
    driver.beat(f"m{driver.mono_ms}", 0, rebalance_timeout_ms=1_000, **fields)


@pytest.mark.parametrize(
    ("driver", "newcomer"),
    [(Driver(), come_classic), (ConsumerDriver(GroupConfig()), come)],
    ids=["classic", "consumer"],
)
def test_members_that_came_one_by_one_go_together(
    driver: Driver, newcomer: Callable[[Driver], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(MEMBERS):
        driver.mono_ms += 1
        newcomer(driver)
    wakes = []
    expire = driver.shard.expire

    def noted(group_id: str, now: Now) -> Effects:
        wakes.append(now)
        return expire(group_id, now)

    monkeypatch.setattr(driver.shard, "expire", noted)
    driver.advance(100_000)
    assert driver.shard.groups[GROUP].is_unused
    assert len(wakes) < MEMBERS / 2
