"""kafka-topics, kafka-configs, kafka-get-offsets and kafka-delete-records."""

import json
from pathlib import Path

import pytest

from tests.interop.kafka.tools import Tools

pytestmark = [pytest.mark.interop, pytest.mark.java]


def test_topics(tools: Tools, topic: str) -> None:
    named = ["--topic", topic]
    tools("topics", "--create", *named, "--partitions", "4", "--config", "retention.ms=60000")
    assert [topic] in tools("topics", "--list").rows
    described = tools("topics", "--describe", *named).out
    assert "PartitionCount: 4" in described
    assert "retention.ms=60000" in described
    tools("topics", "--alter", *named, "--partitions", "6")
    assert "PartitionCount: 6" in tools("topics", "--describe", *named).out
    again = tools.run("topics", "--create", *named)
    assert (again.code, f"Topic '{topic}' already exists" in again.out) == (1, True)
    tools("topics", "--create", *named, "--if-not-exists")
    assert tools("topics", "--describe", "--unavailable-partitions").out.strip() == ""
    tools("topics", "--delete", *named)
    assert [topic] not in tools("topics", "--list").rows


def test_names_that_collide_are_warned_of_and_refused(tools: Tools, topic: str) -> None:
    tools("topics", "--create", "--topic", f"{topic}.x")
    done = tools.run("topics", "--create", "--topic", f"{topic}_x")
    assert done.code == 1
    assert "collides with" in done.out + done.err


def test_configs_of_a_topic(tools: Tools, topic: str) -> None:
    tools("topics", "--create", "--topic", topic)
    of = ["--entity-type", "topics", "--entity-name", topic]
    tools("configs", "--alter", *of, "--add-config", "max.message.bytes=2000,retention.ms=9")
    described = tools("configs", "--describe", *of).out
    assert "max.message.bytes=2000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:" in described
    tools("configs", "--alter", *of, "--delete-config", "retention.ms")
    assert "retention.ms" not in tools("configs", "--describe", *of).out
    everything = tools("configs", "--describe", "--all", *of).out
    assert "retention.ms=604800000" in everything
    done = tools.run("configs", "--alter", *of, "--add-config", "no.such.config=1")
    assert (done.code, "InvalidConfigurationException" in done.err) == (1, True)


def test_configs_of_the_broker(tools: Tools) -> None:
    of = ["--entity-type", "brokers", "--entity-name", "1"]
    assert "message.max.bytes=" in tools("configs", "--describe", "--all", *of).out


def test_offsets_and_their_deletion(tools: Tools, topic: str, tmp_path: Path) -> None:
    tools("console-producer", "--topic", topic, stdin="".join(f"v{n}\n" for n in range(20)))
    asked = tmp_path / "offsets.json"
    wanted = [{"topic": topic, "partition": 0, "offset": 5}]
    asked.write_text(json.dumps({"partitions": wanted, "version": 1}))
    done = tools("delete-records", "--offset-json-file", str(asked))
    assert f"partition: {topic}-0\tlow_watermark: 5" in done.out
    for time, offset in {"earliest": 5, "latest": 20, "max-timestamp": 19}.items():
        found = tools("get-offsets", "--topic", topic, "--time", time).out.strip()
        assert found.startswith(f"{topic}:0:")
        if time != "max-timestamp":  # several records may have come within one millisecond
            assert found == f"{topic}:0:{offset}"
