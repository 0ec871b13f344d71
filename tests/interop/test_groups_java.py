"""Apache Kafka's own tools over our `__consumer_offsets`, and Java consumers in groups."""

import json
import os
import subprocess

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.java.jars import jars
from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.java]

_CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_FORMATTERS = "org.apache.kafka.tools.consumer."
_TIMEOUT_S = 120


@pytest.fixture(scope="module")
def classpath() -> str:
    return os.pathsep.join(str(jar) for jar in jars("kafka"))


def java(classpath: str, main: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(
        ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classpath, main, *arguments],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout


def produce(broker: TailraceProcess, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(count):
        producer.produce(topic, f"v{number}")
    assert producer.flush(30) == 0


def offsets_topic(broker: TailraceProcess, classpath: str, formatter: str) -> list[dict[str, dict]]:  # type: ignore[type-arg]  # whatever JSON says
    """Return the records of the internal topic, read by Kafka's own formatter."""
    found = java(
        classpath,
        _CONSOLE_CONSUMER,
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        "__consumer_offsets",
        "--from-beginning",
        "--timeout-ms",
        "4000",
        "--formatter",
        _FORMATTERS + formatter,
        codes=(0, 1),
    )
    records = []
    at = found.find("{")
    while at >= 0:  # one object after the other, without anything between them
        record, end = json.JSONDecoder().raw_decode(found, at)
        records.append(record)
        at = found.find("{", end)
    return records


def test_kafkas_own_formatters_read_our_records(
    broker: TailraceProcess, topic: str, classpath: str
) -> None:
    produce(broker, topic, 10)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": topic,
            "client.id": "app",
            "group.instance.id": "one",
            "session.timeout.ms": 6000,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    assert len(consumer.consume(10, timeout=30)) == 10
    position = TopicPartition(topic, 0, 10, metadata="noted")
    consumer.commit(offsets=[position], asynchronous=False)

    mine = [
        record
        for record in offsets_topic(broker, classpath, "OffsetsMessageFormatter")
        if record["key"]["data"]["group"] == topic
    ]
    assert mine[-1]["key"]["data"] == {"group": topic, "topic": topic, "partition": 0}
    value = mine[-1]["value"]["data"]
    # confluent-kafka sends the NUL at the end of its C string along.
    assert (value["offset"], value["metadata"].rstrip("\0")) == (10, "noted")

    groups = [
        record["value"]["data"]
        for record in offsets_topic(broker, classpath, "GroupMetadataMessageFormatter")
        if record["key"]["data"]["group"] == topic and record["value"]
    ]
    (member,) = groups[-1]["members"]
    assert (groups[-1]["protocolType"], groups[-1]["protocol"]) == ("consumer", "range")
    assert groups[-1]["leader"] == member["memberId"]
    assert (member["clientId"], member["groupInstanceId"]) == ("app", "one")
    assert (member["clientHost"], member["sessionTimeout"]) == ("/127.0.0.1", 6000)
    consumer.close()


def test_a_java_consumer_resumes_and_kafkas_tool_describes_and_resets(
    broker: TailraceProcess, topic: str, classpath: str
) -> None:
    at = ["--bootstrap-server", broker.bootstrap]
    consume = [*at, "--topic", topic, "--group", topic, "--timeout-ms", "30000"]
    produce(broker, topic, 6)
    first = java(classpath, _CONSOLE_CONSUMER, *consume, "--from-beginning", "--max-messages", "4")
    assert first.split() == ["v0", "v1", "v2", "v3"]
    second = java(classpath, _CONSOLE_CONSUMER, *consume, "--max-messages", "2")
    assert second.split() == ["v4", "v5"]

    described = java(classpath, _GROUPS, *at, "--describe", "--group", topic)
    row = next(line.split() for line in described.splitlines() if line.startswith(topic))
    assert row[:6] == [topic, topic, "0", "6", "6", "0"]
    state = java(classpath, _GROUPS, *at, "--describe", "--state", "--group", topic)
    assert "Empty" in state
    listed = java(classpath, _GROUPS, *at, "--list", "--state", "Empty")
    assert topic in listed

    reset = ["--reset-offsets", "--to-offset", "2", "--execute", "--topic", topic]
    java(classpath, _GROUPS, *at, "--group", topic, *reset)
    third = java(classpath, _CONSOLE_CONSUMER, *consume, "--max-messages", "4")
    assert third.split() == ["v2", "v3", "v4", "v5"]
