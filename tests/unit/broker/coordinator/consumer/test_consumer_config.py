"""Settings of consumer groups: Kafka's names and defaults, and what cannot be."""

from typing import Any

import pytest

from tailrace.broker.cluster.group_configs import GroupConfigs
from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.consumer_config import ConsumerGroupConfig, MigrationPolicy
from tailrace.core.runtime.config import values_of
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.unit.broker.coordinator.runtime_support import CALLER, GROUP, running_groups
from tests.unit.broker.loops import in_loop


def test_defaults_are_kafkas() -> None:
    values = values_of(GroupConfig())
    assert {name: values[name] for name in values if name.startswith("group.consumer.")} == {
        "group.consumer.session.timeout.ms": 45_000,
        "group.consumer.min.session.timeout.ms": 45_000,
        "group.consumer.max.session.timeout.ms": 60_000,
        "group.consumer.heartbeat.interval.ms": 5_000,
        "group.consumer.min.heartbeat.interval.ms": 5_000,
        "group.consumer.max.heartbeat.interval.ms": 15_000,
        "group.consumer.assignment.interval.ms": 1_000,
        "group.consumer.min.assignment.interval.ms": 0,
        "group.consumer.max.assignment.interval.ms": 15_000,
        "group.consumer.max.size": 0x7FFF_FFFF,
        "group.consumer.assignors": "uniform,range",
        "group.consumer.migration.policy": "bidirectional",
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"assignors": ""},
        {"assignors": "uniform,uniform"},
        {"assignors": "org.example.Mine"},
        {"migration_policy": "sometimes"},
        {"session_timeout_ms": 44_999},
        {"session_timeout_ms": 60_001},
        {"heartbeat_interval_ms": 4_999},
        {"heartbeat_interval_ms": 15_001},
        {"assignment_interval_ms": 15_001},
        {"heartbeat_interval_ms_max": 50_000, "heartbeat_interval_ms": 45_000},
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"group\.consumer\."):
        ConsumerGroupConfig(**fields)


def test_policies() -> None:
    may = {policy: (policy.may_upgrade, policy.may_downgrade) for policy in MigrationPolicy}
    assert may == {
        "bidirectional": (True, True),
        "upgrade": (True, False),
        "downgrade": (False, True),
        "disabled": (False, False),
    }
    assert ConsumerGroupConfig(migration_policy="Upgrade").migration is MigrationPolicy.UPGRADE


@in_loop
async def test_a_group_may_have_times_of_its_own() -> None:
    async with running_groups() as groups:
        groups.coordinator.times_of = lambda group_id: GroupConfigs(
            50_000 if group_id == GROUP else 45_000, 7_000, 0
        )
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="m",
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        response = await groups.coordinator.consumer_heartbeat(request, CALLER)
        assert response.heartbeat_interval_ms == 7_000
        alive = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=2)
        groups.clock.advance_ms(49_999)
        groups.coordinator.fire_due()
        answer = await groups.coordinator.consumer_heartbeat(alive, CALLER)
        assert answer.error_code == ErrorCode.NONE
        groups.clock.advance_ms(50_000)
        groups.coordinator.fire_due()
        answer = await groups.coordinator.consumer_heartbeat(alive, CALLER)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
