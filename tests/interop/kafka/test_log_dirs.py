"""Where partitions lie, and where they shall: kafka-log-dirs, kafka-reassign-partitions, Admin."""

import json
from pathlib import Path

import pytest

from tests.interop.kafka.clients import Kafka
from tests.interop.kafka.tools import Tools
from tests.java.peers import JavaClient
from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.java]


def test_sizes_by_admin(kafka: JavaClient, broker: TailraceProcess, topic: str) -> None:
    clients = Kafka(kafka, broker)
    with clients.producer() as producer:
        producer.send(topic, ["v"] * 50)
    node = clients.admin("cluster.describe")["controller"]
    assert clients.admin("cluster.log_dirs", broker=node)[f"{topic}-0"] > 0


def test_reassignment(tools: Tools, topic: str, tmp_path: Path) -> None:
    tools("topics", "--create", "--topic", topic)
    plan = tmp_path / "plan.json"
    moved = [{"topic": topic, "partition": 0, "replicas": [1]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moved}))
    named = ["--reassignment-json-file", str(plan)]
    started = tools("reassign-partitions", *named, "--execute").out
    assert f"Successfully started partition reassignment for {topic}-0" in started
    assert "No partition reassignments found." in tools("reassign-partitions", "--list").out
    verified = tools("reassign-partitions", *named, "--verify").out
    assert f"Reassignment of partition {topic}-0 is completed." in verified


def test_sizes_by_tool(tools: Tools, topic: str) -> None:
    tools("topics", "--create", "--topic", topic)
    printed = tools("log-dirs", "--describe", "--topic-list", topic).out.splitlines()
    (dirs,) = [json.loads(line) for line in printed if line.startswith("{")]
    partitions = [p for each in dirs["brokers"][0]["logDirs"] for p in each["partitions"]]
    assert [p["partition"] for p in partitions] == [f"{topic}-0"]
