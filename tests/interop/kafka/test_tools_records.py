"""Console, verifiable and perf-test producers and consumers."""

import pytest

from tests.interop.kafka.tools import Tools

pytestmark = [pytest.mark.interop, pytest.mark.java]


def test_console_producer_and_consumer(tools: Tools, topic: str) -> None:
    lines = [f"k{n}:v{n}" for n in range(500)]
    keyed = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
    tools("console-producer", "--topic", topic, *keyed, stdin="\n".join(lines) + "\n")
    shown = ["--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"]
    read = ["--topic", topic, "--from-beginning", "--max-messages", "500", "--timeout-ms", "30000"]
    found = tools("console-consumer", *read, *shown, "--group", topic)
    assert found.out.splitlines() == lines
    described = tools("consumer-groups", "--describe", "--group", topic)
    (row,) = [row for row in described.rows if row[0] == topic]
    assert row[2:6] == ["0", "500", "500", "0"]


def test_verifiable_producer_and_consumer(tools: Tools, topic: str) -> None:
    count = ["--topic", topic, "--max-messages", "200"]
    sent = tools.alone("verifiable-producer", *count, "--acks", "-1").events
    assert sum(event["name"] == "producer_send_success" for event in sent) == 200
    assert (sent[-1]["name"], sent[-1]["sent"], sent[-1]["acked"]) == ("tool_data", 200, 200)
    read = tools("verifiable-consumer", *count, "--group-id", topic).events
    seen = [event for event in read if event["name"] == "records_consumed"]
    assert sum(event["count"] for event in seen) == 200
    assert seen[-1]["partitions"][0]["maxOffset"] == 199
    commits = [event for event in read if event["name"] == "offsets_committed"]
    assert all(event["success"] for event in commits)
    assert commits[-1]["offsets"][0]["offset"] == 200


def test_perf_tests(tools: Tools, topic: str) -> None:
    load = ["--num-records", "20000", "--record-size", "200", "--throughput", "-1"]
    assert "20000 records sent" in tools("producer-perf-test", "--topic", topic, *load).out
    assert tools("get-offsets", "--topic", topic).out.strip() == f"{topic}:0:20000"
    read = tools("consumer-perf-test", "--topic", topic, "--num-records", "20000").rows
    assert read[-1][6].rstrip(",") == "20000"
