"""KIP-848 groups of confluent-kafka (librdkafka 2.12 and later) against a broker of its own."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType
from confluent_kafka.admin import AdminClient

from tests.interop.test_groups_confluent import (
    PARTITIONS,
    Member,
    create,
    members,
    poll_until,
    produce,
    shared_out,
)
from tests.process import TailraceProcess

pytestmark = pytest.mark.interop

QUICK = (
    ("group.consumer.min.heartbeat.interval.ms", 100),
    ("group.consumer.heartbeat.interval.ms", 200),
    ("group.consumer.min.session.timeout.ms", 1_000),
    ("group.consumer.session.timeout.ms", 6_000),
    ("group.consumer.assignment.interval.ms", 0),
    ("offsets.topic.num.partitions", 3),
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TailraceProcess]:
    """A broker whose members hear of changes within a fifth of a second."""
    settings = [word for key, value in QUICK for word in ("--set", f"{key}={value}")]
    folder: Path = tmp_path_factory.mktemp("consumer-groups")
    process = TailraceProcess(folder, *settings).start()
    yield process
    process.stop()


class ConsumerMember(Member):
    """A member of a group that speaks the consumer protocol."""

    def __init__(self, broker: TailraceProcess, group: str, topic: str, **options: Any) -> None:
        served = {"heartbeat.interval.ms": None, "group.protocol": "consumer"}  # the broker says it
        super().__init__(broker, group, topic, **{**served, **options})


def consumer_members(
    stack: ExitStack, broker: TailraceProcess, group: str, topic: str, count: int, **options: Any
) -> list[Member]:
    """Make members that are closed with the stack."""
    made: list[Member] = []
    for number in range(count):
        named = {key: value.format(number) for key, value in options.items()}
        made.append(ConsumerMember(broker, group, topic, **named))
        stack.callback(made[-1].close)
    return made


def describe(broker: TailraceProcess, group: str) -> Any:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    return admin.describe_consumer_groups([group])[group].result(20)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_three_members_share_and_one_leaves(
    broker: TailraceProcess, topic: str, assignor: str
) -> None:
    create(broker, topic)
    options = {"group.remote.assignor": assignor}
    with ExitStack() as stack:
        made = consumer_members(stack, broker, topic, topic, 3, **options)
        poll_until(made, lambda: shared_out(made))
        produce(broker, topic, [f"v{n}" for n in range(60)])
        poll_until(made, lambda: sum(len(m.values) for m in made) >= 60)
        values = sorted(value for member in made for value in member.values)
        assert values == sorted(f"v{n}".encode() for n in range(60))
        described = describe(broker, topic)
        assert (described.state, described.type, described.partition_assignor) == (
            ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER, assignor,
        )  # fmt: skip
        made[0].consumer.commit(asynchronous=False)
        made[0].close()
        poll_until(made[1:], lambda: shared_out(made[1:]))
        assert not any(member.lost for member in made[1:])


def test_offsets_are_committed_and_read_by_member_epoch(
    broker: TailraceProcess, topic: str
) -> None:
    create(broker, topic)
    with ExitStack() as stack:
        made = consumer_members(stack, broker, topic, topic, 2)
        poll_until(made, lambda: shared_out(made))  # before there is anything that one could miss
        produce(broker, topic, [f"v{n}" for n in range(60)])
        poll_until(made, lambda: sum(len(m.values) for m in made) >= 60)
        for member in made:
            member.consumer.commit(asynchronous=False)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    asked = ConsumerGroupTopicPartitions(topic)
    found = admin.list_consumer_group_offsets([asked])[topic].result(20).topic_partitions
    assert sorted(position.partition for position in found) == list(range(PARTITIONS))
    assert sum(position.offset for position in found) == 60
    with ExitStack() as stack:
        produce(broker, topic, ["new"])
        [again] = consumer_members(stack, broker, topic, topic, 1)
        poll_until([again], lambda: bool(again.values))
        assert again.values == [b"new"]


def test_a_static_member_comes_back_to_its_partitions(broker: TailraceProcess, topic: str) -> None:
    create(broker, topic)
    options = {"group.instance.id": "i{}"}
    with ExitStack() as stack:
        made = consumer_members(stack, broker, topic, topic, 2, **options)
        poll_until(made, lambda: shared_out(made))
        had, revoked = made[0].partitions, made[1].revoked
        made[0].close()
        made[0] = consumer_members(stack, broker, topic, topic, 1, **options)[0]
        poll_until(made, lambda: shared_out(made))
        assert (made[0].partitions, made[1].revoked) == (had, revoked)


def test_topics_by_expression_and_those_that_come_later(
    broker: TailraceProcess, topic: str
) -> None:
    create(broker, f"{topic}-a", 2)
    with ExitStack() as stack:
        made = consumer_members(stack, broker, topic, f"^{topic}-.*", 2)
        owned = lambda: sorted(  # noqa: E731  # read by three waits
            (position.topic, position.partition)
            for member in made
            for position in member.consumer.assignment()
        )
        poll_until(made, lambda: len(owned()) == 2)
        create(broker, f"{topic}-b", 2)
        poll_until(made, lambda: len(owned()) == 4)
        assert owned() == [(f"{topic}-{name}", n) for name in "ab" for n in range(2)]


def test_a_classic_group_is_upgraded_and_downgraded_member_by_member(
    broker: TailraceProcess, topic: str
) -> None:
    create(broker, topic)
    with ExitStack() as stack:
        with members(broker, topic, topic, 2) as classic:
            poll_until(classic, lambda: shared_out(classic))
            produce(broker, topic, [f"v{n}" for n in range(60)])
            poll_until(classic, lambda: sum(len(m.values) for m in classic) >= 60)
            for member in classic:
                member.consumer.commit(asynchronous=False)
            [new] = consumer_members(stack, broker, topic, topic, 1)
            poll_until([*classic, new], lambda: shared_out([*classic, new]))
            assert describe(broker, topic).type is ConsumerGroupType.CONSUMER
        poll_until([new], lambda: shared_out([new]))
        assert not new.values, "what was committed is not read again"
        with members(broker, topic, topic, 2) as classic:
            poll_until([*classic, new], lambda: shared_out([*classic, new]))
            new.consumer.commit(asynchronous=False) if new.values else None
            new.close()
            poll_until(classic, lambda: shared_out(classic))
            assert describe(broker, topic).type is ConsumerGroupType.CLASSIC
            assert not any(member.values for member in classic)


def test_a_broker_that_is_killed_keeps_the_group(tmp_path: Path) -> None:
    settings = [word for key, value in QUICK for word in ("--set", f"{key}={value}")]
    process = TailraceProcess(tmp_path, *settings).start()
    try:
        create(process, "t")
        with ExitStack() as stack:
            made = consumer_members(stack, process, "g", "t", 2)
            poll_until(made, lambda: shared_out(made))
            had = [member.partitions for member in made]
            process.kill()
            process.start(listen=process.bootstrap)
            produce(process, "t", [f"v{n}" for n in range(60)])
            poll_until(made, lambda: sum(len(m.values) for m in made) >= 60)
            assert [member.partitions for member in made] == had
    finally:
        process.stop()
