"""kafka-broker-api-versions, -features, -cluster, -leader-election, -configs of other things."""

import pytest

from tests.interop.kafka.tools import Tools

pytestmark = [pytest.mark.interop, pytest.mark.java]


def test_every_version_is_one_that_kafka_knows(tools: Tools) -> None:
    rows = tools("broker-api-versions").rows
    served = [" ".join(row) for row in rows if "[usable:" in row]
    assert len(served) > 20
    assert [row for row in served if "UNKNOWN" in row] == []
    assert any(row.startswith("Produce(0): 0 to") for row in served)


def test_cluster(tools: Tools) -> None:
    assert tools("cluster", "cluster-id").out.startswith("Cluster ID: ")
    (node,) = tools("cluster", "list-endpoints").rows[1:]
    assert (node[0], node[1], node[-2:]) == ("1", "127.0.0.1", ["unfenced", "broker"])


def test_features(tools: Tools) -> None:
    rows = tools("features", "describe").rows
    levels = {row[1]: row[7] for row in rows if row[0] == "Feature:"}
    assert levels["group.version"] == "1"


def test_quotas_of_clients(tools: Tools, topic: str) -> None:
    of = ["--entity-type", "clients", "--entity-name", topic]
    tools("configs", "--alter", *of, "--add-config", "consumer_byte_rate=1000000")
    described = tools("configs", "--describe", *of).out
    assert "consumer_byte_rate=1000000.0" in described
    tools("configs", "--alter", *of, "--delete-config", "consumer_byte_rate")
    assert "consumer_byte_rate" not in tools("configs", "--describe", *of).out


def test_configs_of_a_group(tools: Tools, topic: str) -> None:
    of = ["--entity-type", "groups", "--entity-name", topic]
    tools("configs", "--alter", *of, "--add-config", "consumer.session.timeout.ms=50000")
    assert "consumer.session.timeout.ms=50000" in tools("configs", "--describe", *of).out


def test_leader_election(tools: Tools, topic: str) -> None:
    tools("topics", "--create", "--topic", topic)
    of = ["--topic", topic, "--partition", "0"]
    done = tools("leader-election", "--election-type", "preferred", *of)
    assert "Valid replica already elected for partitions" in done.out
