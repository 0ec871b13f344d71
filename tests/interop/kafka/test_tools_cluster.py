"""kafka-broker-api-versions, kafka-features, kafka-cluster."""

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
    assert tools("features", "describe").err == ""
