"""Whatever is sent, in both protocols: an answer, never an exception, and a state that loads."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.coordinator.consumer.group import ConsumerGroup
from tailrace.broker.coordinator.consumer.request_checks import check_request
from tailrace.broker.coordinator.effects import Caller
from tailrace.broker.errors import KafkaError
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.unit.broker.coordinator.consumer.support import ConsumerDriver, consumer_config, lasting
from tests.unit.broker.coordinator.consumer.test_migration import protocols
from tests.unit.broker.coordinator.support import GROUP

MEMBER = st.sampled_from(["", "a", "b", "c"])
INSTANCE = st.sampled_from([None, None, "i", "j"])
EPOCH = st.one_of(st.integers(-3, 8), st.sampled_from([-(1 << 31), (1 << 31) - 1]))
OWNED = st.lists(
    st.builds(
        TopicPartitions,
        topic_id=st.sampled_from([bytes(16), bytes(15) + b"\1", bytes(15) + b"\2"]),
        partitions=st.lists(st.integers(-2, 4), max_size=4),
    ),
    max_size=3,
)
HEARTBEAT = st.builds(
    ConsumerGroupHeartbeatRequest,
    group_id=st.just(GROUP),
    member_id=MEMBER,
    member_epoch=EPOCH,
    instance_id=INSTANCE,
    rack_id=st.sampled_from([None, "r"]),
    rebalance_timeout_ms=st.sampled_from([-5, -1, 0, 10_000, (1 << 31) - 1]),
    subscribed_topic_names=st.none() | st.lists(st.sampled_from(["t", "other", "x", ""])),
    subscribed_topic_regex=st.sampled_from([None, "", ".*", "t|x", "("]),
    server_assignor=st.sampled_from([None, "uniform", "range"]),
    topic_partitions=st.none() | st.just([]) | OWNED,
)
CLASSIC = st.sampled_from([protocols(), protocols([0, 1]), (("range", b"\0"),), ()])


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_anything_is_answered(data: st.DataObject) -> None:
    driver = ConsumerDriver(consumer_config(group_size_max=3))
    for _ in range(data.draw(st.integers(1, 25))):
        what = data.draw(st.sampled_from(["beat", "beat", "beat", "join", "sync", "leave", "wait"]))
        member_id, instance_id = data.draw(MEMBER), data.draw(INSTANCE)
        if what == "beat":
            _beat(driver, data.draw(HEARTBEAT))
        elif what == "join":
            chosen = data.draw(CLASSIC)
            driver.join(member_id, group_instance_id=instance_id, protocols=chosen)
        elif what == "sync":
            _sync(driver, member_id, instance_id, data.draw(EPOCH))
        elif what == "leave":
            driver.leave((member_id, instance_id))
        else:
            driver.advance(data.draw(st.sampled_from([1, 3_000, 44_000])))
    group = driver.shard.groups.get(GROUP)
    if isinstance(group, ConsumerGroup):
        assert driver.asked == driver.replies.keys(), "nobody waits in a consumer group"
        assert lasting(_loaded(driver)) == lasting(group)


def _beat(driver: ConsumerDriver, request: ConsumerGroupHeartbeatRequest) -> None:
    try:
        check_request(request, 0, driver.config.consumer)
    except KafkaError:
        return
    ticket = driver.ticket()
    caller = Caller("c", "/h", 0)
    driver.act(driver.shard.consumer_heartbeat(request, caller, ticket, driver.now))
    assert ticket in driver.replies


def _sync(driver: ConsumerDriver, member_id: str, instance_id: Any, generation: int) -> None:
    fields = {"generation_id": generation, "group_instance_id": instance_id}
    driver.sync(member_id, **fields)
    driver.heartbeat(member_id, **fields)


def _loaded(driver: ConsumerDriver) -> ConsumerGroup:
    group = driver.reloaded().shard.groups[GROUP]
    assert isinstance(group, ConsumerGroup)
    return group
