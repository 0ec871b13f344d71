"""What tests of several brokers do and ask, by one bootstrap at a time."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic

from tests.cluster.three_bookies import ClusterBroker, ThreeBookies

TOPIC: Final = "spread"
PARTITIONS: Final = 6
_WITHIN_S: Final = 60
_PAUSE_S: Final = 0.05
CLIENT: Final = {"metadata.recovery.strategy": "none", "topic.metadata.refresh.interval.ms": 5_000}


def until(holds: Callable[[], Any]) -> None:
    """Return once something holds; half of the time at most is spent with asking."""
    asked = time.monotonic()
    deadline = asked + _WITHIN_S
    while not holds():
        answered = time.monotonic()
        assert answered < deadline
        time.sleep(max(_PAUSE_S, answered - asked))
        asked = time.monotonic()


def start(cluster: ThreeBookies, *node_ids: int, more: Sequence[str] = ()) -> list[ClusterBroker]:
    """Start brokers, with `more` arguments; return once each sees all that run."""
    started = [cluster.broker("--set", f"node.id={node_id}", *more).start() for node_id in node_ids]
    running = [each for each in cluster.brokers if each.is_running]
    for broker in running:
        until(lambda at=broker: len(seen(at).brokers) == len(running))
    return started


def create(
    broker: ClusterBroker, name: str = TOPIC, replication_factor: int = 3, **more: Any
) -> None:
    """Create a topic by one broker."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **CLIENT})
    topic = NewTopic(name, PARTITIONS, replication_factor, **more)
    admin.create_topics([topic])[name].result(30)


def seen(broker: ClusterBroker) -> ClusterMetadata:
    """Return what one broker says of the cluster."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **CLIENT})
    return admin.list_topics(timeout=30)


def leaders(broker: ClusterBroker, name: str = TOPIC) -> list[int]:
    """Return who leads each partition, as one broker says; nothing of an unknown topic."""
    topic = seen(broker).topics.get(name)
    if topic is None:
        return []
    return [topic.partitions[index].leader for index in sorted(topic.partitions)]


def produce(broker: ClusterBroker, prefix: str, name: str = TOPIC) -> None:
    """Produce one record to each partition."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, **CLIENT})
    for partition in range(PARTITIONS):
        producer.produce(
            name,
            f"{prefix}{partition}".encode(),
            partition=partition,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert not failed


@contextmanager
def group_member(bootstrap: str, group: str, name: str = TOPIC) -> Iterator[Consumer]:
    """Join a group that begins at the start of a topic."""
    member = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **CLIENT,
        }
    )
    member.subscribe([name])
    try:
        yield member
    finally:
        member.close()


def read(member: Consumer, count: int) -> list[bytes]:
    """Return the values of the next records that a member reads, sorted."""
    found: list[bytes] = []
    while len(found) < count:
        found += values(member.consume(count, timeout=60)) or pytest.fail(f"nothing after {found}")
    return sorted(found)


def consume(broker: ClusterBroker, group: str, count: int) -> set[bytes]:
    """Return the first records that a group of one member reads."""
    with group_member(broker.bootstrap, group) as member:
        found = read(member, count)
    assert len(set(found)) == len(found)
    return set(found)


def values(messages: Sequence[Any]) -> list[bytes]:
    """Return the values of what was consumed. Errors: AssertionError for an error in it."""
    for message in messages:
        assert not message.error(), message.error()
    return [message.value() or b"" for message in messages]
