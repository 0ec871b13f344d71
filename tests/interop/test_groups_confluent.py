"""Consumer groups of confluent-kafka (librdkafka) against a broker from the command line."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Producer,
)
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, NewTopic

from tests.process import TailraceProcess

pytestmark = pytest.mark.interop

PARTITIONS = 6
DEADLINE_S = 40


class Member:
    """One consumer and what it was given, by its own callbacks."""

    def __init__(self, broker: TailraceProcess, group: str, topic: str, **options: Any) -> None:
        self.values: list[bytes] = []
        self.assigned: list[list[int]] = []
        self.revoked = 0
        self.lost = 0
        self.errors: list[str] = []
        config = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 300,
            **options,
        }
        self.consumer = Consumer({key: value for key, value in config.items() if value is not None})
        self.consumer.subscribe(
            [topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    @property
    def partitions(self) -> set[int]:
        return {position.partition for position in self.consumer.assignment()}

    def poll(self) -> None:
        for message in self.consumer.consume(100, timeout=0.05):
            if message.error() is None:
                self.values.append(message.value())
            else:
                self.errors.append(str(message.error()))

    def close(self) -> None:
        self.consumer.close()

    def _on_assign(self, _: Consumer, positions: list[Position]) -> None:
        self.assigned.append(sorted(position.partition for position in positions))

    def _on_revoke(self, *_: object) -> None:
        self.revoked += 1

    def _on_lost(self, *_: object) -> None:
        self.lost += 1


@contextmanager
def members(
    broker: TailraceProcess, group: str, topic: str, count: int, **options: Any
) -> Iterator[list[Member]]:
    made = [Member(broker, group, topic, **options) for _ in range(count)]
    try:
        yield made
    finally:
        for member in made:
            member.close()


def poll_until(made: Sequence[Member], done: Callable[[], bool]) -> None:
    """Poll all members until something is so; an overdue test fails with what they saw."""
    until = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < until, [(m.assigned, m.errors, len(m.values)) for m in made]
        for member in made:
            member.poll()


def shared_out(made: Sequence[Member]) -> bool:
    """Every partition has one owner, and everybody owns some."""
    owned = [partition for member in made for partition in member.partitions]
    return sorted(owned) == list(range(PARTITIONS)) and all(m.partitions for m in made)


def create(broker: TailraceProcess, topic: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def produce(broker: TailraceProcess, topic: str, values: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_partitions_are_shared_out(
    broker: TailraceProcess, topic: str, count: int, strategy: str
) -> None:
    create(broker, topic)
    options = {"partition.assignment.strategy": strategy}
    with members(broker, topic, topic, count, **options) as made:
        poll_until(made, lambda: shared_out(made))
        produce(broker, topic, [f"v{n}" for n in range(60)])
        poll_until(made, lambda: sum(len(m.values) for m in made) >= 60)
        values = sorted(value for member in made for value in member.values)
        assert values == sorted(f"v{n}".encode() for n in range(60))


def test_when_one_leaves_the_others_take_over(broker: TailraceProcess, topic: str) -> None:
    create(broker, topic)
    with members(broker, topic, topic, 3) as made:
        poll_until(made, lambda: shared_out(made))
        made.pop().close()
        poll_until(made, lambda: shared_out(made))
        made.pop().close()
        poll_until(made, lambda: shared_out(made))
        assert made[0].partitions == set(range(PARTITIONS))


def test_when_one_comes_the_others_share(broker: TailraceProcess, topic: str) -> None:
    create(broker, topic)
    with members(broker, topic, topic, 1) as made:
        poll_until(made, lambda: shared_out(made))
        made.append(Member(broker, topic, topic))
        poll_until(made, lambda: shared_out(made))
        assert made[0].assigned[0] == list(range(PARTITIONS))
        assert len(made[0].partitions) == PARTITIONS / 2


def test_when_one_is_killed_the_others_take_over(broker: TailraceProcess, topic: str) -> None:
    create(broker, topic)
    script = (
        "import sys; from confluent_kafka import Consumer\n"
        "c = Consumer({'bootstrap.servers': sys.argv[1], 'group.id': sys.argv[2],"
        " 'session.timeout.ms': 6000})\n"
        "c.subscribe([sys.argv[2]])\n"
        "while True:\n"
        "    c.poll(0.1)\n"
        "    if c.assignment(): print('mine', flush=True)\n"
    )
    arguments = [sys.executable, "-c", script, broker.bootstrap, topic]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "mine\n"
        with members(broker, topic, topic, 1, **{"session.timeout.ms": 6000}) as made:
            poll_until(made, lambda: len(made[0].partitions) == PARTITIONS / 2)
            other.kill()
            poll_until(made, lambda: len(made[0].partitions) == PARTITIONS)


def test_a_group_resumes_where_it_committed(broker: TailraceProcess, topic: str) -> None:
    create(broker, topic)
    produce(broker, topic, [f"a{n}" for n in range(30)])
    with members(broker, topic, topic, 1) as made:
        poll_until(made, lambda: len(made[0].values) == 30)
        committed = made[0].consumer.commit(asynchronous=False)
        assert sorted((p.partition, p.offset) for p in committed) == [
            (partition, 5) for partition in range(PARTITIONS)
        ]
        produce(broker, topic, [f"b{n}" for n in range(12)])
        poll_until(made, lambda: len(made[0].values) == 42)  # read, but not committed
    with members(broker, topic, topic, 1) as made:
        poll_until(made, lambda: len(made[0].values) == 12)
        assert sorted(made[0].values) == sorted(f"b{n}".encode() for n in range(12))


def test_offsets_with_metadata_of_a_consumer_without_a_group_membership(
    broker: TailraceProcess, topic: str
) -> None:
    create(broker, topic)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    position = Position(topic, 3, 17, metadata="noted")
    consumer.commit(offsets=[position], asynchronous=False)
    found = consumer.committed([Position(topic, 3), Position(topic, 4)], timeout=20)
    assert [(p.partition, p.offset, p.metadata) for p in found] == [
        (3, 17, "noted"),
        (4, -1001, None),
    ]
    consumer.close()


def test_a_static_member_comes_back_without_a_rebalance(
    broker: TailraceProcess, topic: str
) -> None:
    create(broker, topic)

    def static(name: str) -> Member:
        return Member(broker, topic, topic, **{"group.instance.id": name})

    made = [static("one"), static("two")]
    try:
        poll_until(made, lambda: shared_out(made))
        before = [member.partitions for member in made]
        changes = (len(made[0].assigned), made[0].revoked)
        made[1].close()  # static members do not leave
        made[1] = static("two")
        poll_until(made, lambda: made[1].partitions == before[1])
        for _ in range(20):
            made[0].poll()
        assert made[0].partitions == before[0]
        assert (len(made[0].assigned), made[0].revoked) == changes
    finally:
        for member in made:
            member.close()


def test_a_second_consumer_with_the_same_instance_fences_the_first(
    broker: TailraceProcess, topic: str
) -> None:
    create(broker, topic)
    options = {"group.instance.id": "same"}
    first = Member(broker, topic, topic, **options)
    poll_until([first], lambda: shared_out([first]))
    second = Member(broker, topic, topic, **options)
    try:
        poll_until([second], lambda: shared_out([second]))
        poll_until([first], lambda: any("fenced" in error.lower() for error in first.errors))
    finally:
        second.close()
        first.close()


def test_groups_are_listed_and_described(broker: TailraceProcess, topic: str) -> None:
    create(broker, topic)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    with members(broker, topic, topic, 2, **{"client.id": "somebody"}) as made:
        poll_until(made, lambda: shared_out(made))
        listed = admin.list_consumer_groups(request_timeout=20).result()
        assert listed.errors == []
        states = {group.group_id: group.state for group in listed.valid}
        assert states[topic] is ConsumerGroupState.STABLE
        described = admin.describe_consumer_groups([topic], request_timeout=20)[topic].result()
        assert described.state is ConsumerGroupState.STABLE
        assert described.partition_assignor == "range"
        owned = [
            position.partition
            for member in described.members
            for position in member.assignment.topic_partitions
        ]
        assert sorted(owned) == list(range(PARTITIONS))
        assert {member.client_id for member in described.members} == {"somebody"}
        made[0].consumer.commit(offsets=[Position(topic, 0, 4)], asynchronous=False)
        wanted = [ConsumerGroupTopicPartitions(topic)]
        offsets = admin.list_consumer_group_offsets(wanted)[topic].result()
        assert [(p.partition, p.offset) for p in offsets.topic_partitions] == [(0, 4)]


def test_groups_are_deleted_once_nobody_is_in_them(broker: TailraceProcess, topic: str) -> None:
    create(broker, topic)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def deleted() -> int:
        future = admin.delete_consumer_groups([topic], request_timeout=20)[topic]
        error = future.exception()
        return 0 if error is None else error.args[0].code()

    with members(broker, topic, topic, 1) as made:
        poll_until(made, lambda: shared_out(made))
        made[0].consumer.commit(offsets=[Position(topic, 0, 4)], asynchronous=False)
        assert deleted() == KafkaError.NON_EMPTY_GROUP
    assert deleted() == 0
    assert deleted() == KafkaError.GROUP_ID_NOT_FOUND
    wanted = [ConsumerGroupTopicPartitions(topic)]
    offsets = admin.list_consumer_group_offsets(wanted)[topic].result()
    assert offsets.topic_partitions == []


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_are_committed_with_a_transaction(
    broker: TailraceProcess, topic: str, committed: bool
) -> None:
    create(broker, topic)
    with members(broker, topic, topic, 1, **{"isolation.level": "read_committed"}) as made:
        poll_until(made, lambda: shared_out(made))
        consumer = made[0].consumer
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
        producer.init_transactions(20)
        producer.begin_transaction()
        offsets = [Position(topic, 0, 4), Position(topic, 1, 5)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 20)
        if committed:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)
        found = consumer.committed(offsets, timeout=20)
        assert [p.offset for p in found] == ([4, 5] if committed else [OFFSET_INVALID] * 2)


def test_a_stopping_broker_does_not_wait_for_a_rebalance(
    broker_factory: type[TailraceProcess], topic: str
) -> None:
    broker = broker_factory().start()
    create(broker, topic)
    with members(broker, topic, topic, 2) as made:
        poll_until(made, lambda: shared_out(made))
        third = Member(broker, topic, topic)
        described = AdminClient({"bootstrap.servers": broker.bootstrap})
        until = time.monotonic() + DEADLINE_S
        while True:  # nobody but the newcomer polls: the barrier stays closed
            third.poll()
            future = described.describe_consumer_groups([topic], request_timeout=20)[topic]
            if future.result().state is ConsumerGroupState.PREPARING_REBALANCING:
                break
            assert time.monotonic() < until
        assert broker.stop() == 0
        assert "requests dropped at the stop" not in broker.output
        third.close()


def test_a_killed_broker_finds_members_and_offsets_again(
    broker_factory: type[TailraceProcess], topic: str
) -> None:
    broker = broker_factory().start()
    create(broker, topic)
    with members(broker, topic, topic, 2) as made:
        poll_until(made, lambda: shared_out(made))
        produce(broker, topic, [f"a{n}" for n in range(12)])
        poll_until(made, lambda: sum(len(m.values) for m in made) >= 12)
        for member in made:
            member.consumer.commit(asynchronous=False)
        before = [member.partitions for member in made]
        changes = [(len(member.assigned), member.revoked, member.lost) for member in made]
        for round_ in range(3):
            broker.kill()
            broker.restart()
            seen = sum(len(m.values) for m in made)
            produce(broker, topic, [f"r{round_}-{n}" for n in range(12)])
            poll_until(made, lambda: sum(len(m.values) for m in made) >= seen + 12)  # noqa: B023
            for member in made:
                member.consumer.commit(asynchronous=False)
        assert [member.partitions for member in made] == before
        assert [(len(m.assigned), m.revoked, m.lost) for m in made] == changes
    broker.kill()
    broker.restart()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic})
    wanted = [Position(topic, partition) for partition in range(PARTITIONS)]
    assert {p.offset for p in consumer.committed(wanted, timeout=20)} == {8}
    consumer.close()
