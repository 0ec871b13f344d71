"""Transactions of Kafka's Java clients and of Streams, and kafka-transactions about them."""

import pytest

from tests.interop.kafka.clients import Kafka
from tests.interop.kafka.tools import Tools
from tests.java.peers import JavaClient, JavaError
from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.java]

FENCED = r"ProducerFencedException|InvalidProducerEpochException"
COMMITTED = {"isolation.level": "read_committed"}


@pytest.fixture
def clients(kafka: JavaClient, broker: TailraceProcess) -> Kafka:
    return Kafka(kafka, broker)


def read(clients: Kafka, at: str, count: int, **config: object) -> list[str]:
    """Return the values that somebody sees who reads a partition from its start to its end."""
    with clients.consumer(**config) as consumer:
        consumer("assign", partitions=[at])
        values = consumer.values(count)
        assert consumer.poll(0) == []
        return values


def test_what_is_committed_is_seen_and_what_is_aborted_is_not(clients: Kafka, topic: str) -> None:
    clients.admin("topics.create", topic=topic, partitions=2)
    with clients.producer(**{"transactional.id": topic}) as producer:
        producer("init")
        for end in ("commit", "abort", "commit"):
            producer("begin")
            producer.send(topic, [f"{end}-a", f"{end}-b"], partition=0)
            producer.send(topic, [f"{end}-c"], partition=1)
            producer(end)
    assert read(clients, f"{topic}-0", 4, **COMMITTED) == ["commit-a", "commit-b"] * 2
    assert read(clients, f"{topic}-1", 2, **COMMITTED) == ["commit-c"] * 2
    assert len(read(clients, f"{topic}-0", 6)) == 6
    assert clients.admin("topics.offsets", at=f"{topic}-0")["latest"] == 9  # with three markers


def test_an_open_transaction_holds_readers_of_committed_records(clients: Kafka, topic: str) -> None:
    with clients.producer(**{"transactional.id": topic}) as producer:
        producer("init")
        producer("begin")
        producer.send(topic, ["open"])
        with clients.producer() as other:
            other.send(topic, ["plain"])
        with clients.consumer(**COMMITTED) as consumer:
            consumer("assign", partitions=[f"{topic}-0"])
            assert consumer.poll(0) == []
            assert consumer("ends", partitions=[f"{topic}-0"]) == {f"{topic}-0": 0}
            producer("commit")
            assert consumer.values(2) == ["open", "plain"]


def test_offsets_are_committed_with_the_records(clients: Kafka, topic: str) -> None:
    with clients.producer() as producer:
        producer.send(f"{topic}-in", ["a", "b", "c"])
    at = f"{topic}-in-0"
    with (
        clients.consumer(**{"group.id": topic, **COMMITTED}) as consumer,
        clients.producer(**{"transactional.id": topic}) as producer,
    ):
        consumer("subscribe", topics=[f"{topic}-in"])
        assert consumer.values(3) == ["a", "b", "c"]
        producer("init")
        for end, offset in (("abort", 1), ("commit", 2)):
            producer("begin")
            producer.send(f"{topic}-out", [end])
            producer("offsets", consumer=consumer.name, offsets={at: offset})
            producer(end)
        assert consumer("committed", partitions=[at]) == {at: 2}
    assert read(clients, f"{topic}-out-0", 1, **COMMITTED) == ["commit"]


def test_a_zombie_is_fenced(clients: Kafka, topic: str) -> None:
    with clients.producer(**{"transactional.id": topic}) as zombie:
        zombie("init")
        zombie("begin")
        zombie.send(topic, ["lost"])
        with clients.producer(**{"transactional.id": topic}) as successor:
            successor("init")
            with pytest.raises(JavaError, match=FENCED):
                zombie("commit")
            successor("begin")
            successor.send(topic, ["kept"])
            successor("commit")
    assert read(clients, f"{topic}-0", 1, **COMMITTED) == ["kept"]


def test_the_admin_lists_describes_and_fences(clients: Kafka, topic: str) -> None:
    with clients.producer(**{"transactional.id": topic}) as producer:
        producer("init")
        producer("begin")
        producer.send(topic, ["v"])
        assert clients.admin("transactions.list")[topic] == "Ongoing"
        found = clients.admin("transactions.describe", of=topic)
        assert (found["state"], found["partitions"]) == ("Ongoing", [f"{topic}-0"])
        states = clients.admin("transactions.producers", at=f"{topic}-0")
        assert states[str(found["producer_id"])]["began"] == 0
        clients.admin("transactions.fence", of=topic)
        with pytest.raises(JavaError, match=FENCED):
            producer("commit")
    assert read(clients, f"{topic}-0", 0, **COMMITTED) == []


def test_kafka_transactions(
    kafka_4: JavaClient, broker: TailraceProcess, tools: Tools, topic: str
) -> None:
    clients = Kafka(kafka_4, broker)
    with clients.producer(**{"transactional.id": topic}) as producer:
        producer("init")
        producer("begin")
        producer.send(topic, ["v"])
        listed = tools("transactions", "list").rows
        (row,) = [row for row in listed if row[0] == topic]
        assert row[3] == "Ongoing"
        described = tools("transactions", "describe", "--transactional-id", topic).rows
        assert [topic, "Ongoing"] == [described[1][1], described[1][4]]
        producers = ["describe-producers", "--topic", topic, "--partition", "0"]
        (state,) = tools("transactions", *producers).rows[1:]
        assert (state[0], state[-1]) == (row[2], "0")
        producer("commit")
    (row,) = [row for row in tools("transactions", "list").rows if row[0] == topic]
    assert row[3] in ("PrepareCommit", "CompleteCommit")


def test_kafka_transactions_aborts_what_hangs(
    kafka_4: JavaClient, broker: TailraceProcess, tools: Tools, topic: str
) -> None:
    clients = Kafka(kafka_4, broker)
    with clients.producer(**{"transactional.id": topic}) as producer:
        producer("init")
        producer("begin")
        producer.send(topic, ["hanging"])
        with clients.producer() as other:
            other.send(topic, ["plain"])
        assert read(clients, f"{topic}-0", 0, **COMMITTED) == []
        at = ["--topic", topic, "--partition", "0", "--start-offset", "0"]
        tools("transactions", "abort", *at)
        assert read(clients, f"{topic}-0", 1, **COMMITTED) == ["plain"]
