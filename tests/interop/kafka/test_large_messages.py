"""Java's clients with messages above BookKeeper's default frame of 5 MiB."""

import pytest

from tests.interop.kafka.clients import Kafka
from tests.interop.kafka.tools import Tools
from tests.java.peers import JavaClient
from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.java]

MIB = 1 << 20


def test_a_large_message_is_produced_and_consumed(
    kafka: JavaClient, broker: TailraceProcess, topic: str
) -> None:
    """With the consumer's own limits of a fetch, which a first batch may exceed as in Kafka."""
    clients, size = Kafka(kafka, broker), 10 * MIB
    configs = {"max.message.bytes": str(size + MIB)}
    clients.admin("topics.create", topic=topic, partitions=1, configs=configs)
    limits = {"max.request.size": size + MIB, "buffer.memory": 3 * size}
    value = "v" * size
    with clients.producer(**limits) as producer:
        assert producer.send(topic, ["small", value, "small again"]) == [0, 1, 2]
    with clients.consumer() as consumer:
        consumer("assign", partitions=[f"{topic}-0"])
        records = [record["value"] for record in consumer.poll(3)]
    assert [len(record) for record in records] == [5, size, 11]
    assert records[1] == value


def test_messages_of_64_mib(kafka_4: JavaClient, broker: TailraceProcess, topic: str) -> None:
    """Kafka's performance tools, as the other clients' JVM has no room for them."""
    tools = Tools(kafka_4, broker)
    size = 64 * MIB
    limit = f"max.message.bytes={size + MIB}"
    tools("topics", "--create", "--topic", topic, "--partitions", "1", "--config", limit)
    limits = (f"max.request.size={size + MIB}", f"buffer.memory={size + MIB}")
    several = ("--num-records", "3", "--record-size", str(size), "--throughput", "-1")
    sent = tools.alone(
        "producer-perf-test", "--topic", topic, *several, "--command-property", *limits,
        heap="700m",
    )  # fmt: skip
    assert sent.out.splitlines()[-1].startswith("3 records sent")
    read = tools.alone(
        "consumer-perf-test", "--topic", topic, "--num-records", "3", "--timeout", "60000",
        heap="700m",
    )  # fmt: skip
    *_, last = read.out.splitlines()
    _, _, data_mib, _, count, *_ = last.split(", ")
    assert (float(data_mib), int(count)) == (192.0, 3)
