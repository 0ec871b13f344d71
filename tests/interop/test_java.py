"""Apache Kafka's own Java clients and console tools against a broker from the command line."""

import os
import subprocess

import pytest

from tests.java.jars import jars
from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.java]

_TIMEOUT_S = 120
_TOOLS = "org.apache.kafka.tools."


@pytest.fixture(scope="module")
def classpath() -> str:
    return os.pathsep.join(str(jar) for jar in jars("kafka"))


def _java(classpath: str, main: str, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classpath, main, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_console_producer_and_consumer(broker: TailraceProcess, topic: str, classpath: str) -> None:
    at = ["--bootstrap-server", broker.bootstrap, "--topic", topic]
    lines = [f"k{n}:v{n}" for n in range(500)]
    _java(
        classpath,
        _TOOLS + "ConsoleProducer",
        *at,
        "--command-property",
        "acks=all",
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "key.separator=:",
        stdin="\n".join(lines) + "\n",
    )
    read = ["--from-beginning", "--max-messages", "500", "--timeout-ms", "60000"]
    key = ["--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"]
    group = ["--group", f"group-{topic}"]
    found = _java(classpath, _TOOLS + "consumer.ConsoleConsumer", *at, *read, *key, *group)
    assert found.splitlines() == lines
    described = _java(
        classpath,
        _TOOLS + "consumer.group.ConsumerGroupCommand",
        "--bootstrap-server",
        broker.bootstrap,
        "--describe",
        "--group",
        f"group-{topic}",
    )
    (row,) = [line.split() for line in described.splitlines() if topic in line]
    assert row[2:6] == ["0", "500", "500", "0"]


def test_topics_and_configs(broker: TailraceProcess, topic: str, classpath: str) -> None:
    at = ["--bootstrap-server", broker.bootstrap]
    topics = _TOOLS + "TopicCommand"
    config = ["--config", "retention.ms=60000"]
    _java(classpath, topics, *at, "--create", "--topic", topic, "--partitions", "4", *config)
    assert topic in _java(classpath, topics, *at, "--list").split()
    described = _java(classpath, topics, *at, "--describe", "--topic", topic)
    assert "PartitionCount: 4" in described
    assert "retention.ms=60000" in described
    _java(classpath, topics, *at, "--alter", "--topic", topic, "--partitions", "6")
    described = _java(classpath, topics, *at, "--describe", "--topic", topic)
    assert "PartitionCount: 6" in described
    _java(classpath, topics, *at, "--delete", "--topic", topic)
    assert topic not in _java(classpath, topics, *at, "--list").split()


def test_perf_tools_and_offsets(broker: TailraceProcess, topic: str, classpath: str) -> None:
    load = ["--num-records", "20000", "--record-size", "200", "--throughput", "-1"]
    sent = _java(
        classpath,
        _TOOLS + "ProducerPerformance",
        "--topic",
        topic,
        *load,
        "--bootstrap-server",
        broker.bootstrap,
    )
    assert "20000 records sent" in sent
    ends = _java(
        classpath,
        _TOOLS + "GetOffsetShell",
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        topic,
    )
    assert ends.strip() == f"{topic}:0:20000"


def test_api_versions(broker: TailraceProcess, classpath: str) -> None:
    found = _java(
        classpath,
        _TOOLS + "BrokerApiVersionsCommand",
        "--bootstrap-server",
        broker.bootstrap,
    )
    assert "Produce(0): 0 to 11" in found
    assert "Fetch(1): 4 to 17" in found
