"""kafka-consumer-groups and kafka-groups, and Kafka's formatters over our `__consumer_offsets`."""

import json
from typing import Any

import pytest

from tests.interop.kafka.clients import Client, Kafka
from tests.interop.kafka.tools import Tools
from tests.java.peers import JavaClient
from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.java]


@pytest.fixture
def clients(kafka_4: JavaClient, broker: TailraceProcess) -> Kafka:
    return Kafka(kafka_4, broker)


def consumed(clients: Kafka, topic: str, records: int) -> None:
    """Leave an empty group of the topic's name that has read as many records."""
    with clients.producer() as producer:
        producer.send(topic, [f"v{n}" for n in range(records)])
    with clients.consumer(**{"group.id": topic}) as member:
        member("subscribe", topics=[topic])
        member.poll(records)
        member("commit", offsets={f"{topic}-0": records})


def group_row(tools: Tools, group: str, *what: str) -> list[str]:
    """Return the only line that describes a group."""
    rows = tools("consumer-groups", "--describe", "--group", group, *what).rows
    (found,) = [row for row in rows if row[0] == group]
    return found


def test_a_group_with_a_member(tools: Tools, clients: Kafka, topic: str) -> None:
    with clients.producer() as producer:
        producer.send(topic, ["a", "b", "c"])
    with clients.consumer(**{"group.id": topic, "client.id": "app"}) as member:
        member("subscribe", topics=[topic])
        assert len(member.poll(3)) == 3
        member("commit", offsets={f"{topic}-0": 2})
        row = group_row(tools, topic, "--members", "--verbose")
        assert row[2:5] == ["/127.0.0.1", "app", "1"]
        assert f"{topic}:0" in row
        row = group_row(tools, topic, "--state")
        assert row[-3:] == ["range", "Stable", "1"]
        assert group_row(tools, topic)[1:6] == [topic, "0", "2", "3", "1"]
        assert [topic, "Classic", "consumer"] in tools("groups", "--list").rows
        refused = tools.run("consumer-groups", "--delete", "--group", topic)
        assert "could not be deleted" in refused.out + refused.err
    assert [topic, "Empty"] in tools("consumer-groups", "--list", "--state", "Empty").rows


def test_offsets_are_reset_every_way(tools: Tools, clients: Kafka, topic: str) -> None:
    consumed(clients, topic, 10)
    ways = {
        ("--to-earliest",): "0",
        ("--to-latest",): "10",
        ("--to-offset", "4"): "4",
        ("--shift-by", "-2"): "2",
        ("--to-datetime", "2020-01-01T00:00:00.000"): "0",
        ("--by-duration", "P0DT1H"): "0",
    }
    for way, offset in ways.items():
        named = ["--group", topic, "--topic", topic]
        rows = tools("consumer-groups", "--reset-offsets", *named, *way, "--execute").rows
        assert rows[-1] == [topic, topic, "0", offset], way
        assert group_row(tools, topic)[3] == offset, way


def test_offsets_and_groups_are_deleted(tools: Tools, clients: Kafka, topic: str) -> None:
    consumed(clients, topic, 3)
    done = tools("consumer-groups", "--delete-offsets", "--group", topic, "--topic", topic)
    assert [topic, "0", "Successful"] in done.rows
    done = tools("consumer-groups", "--delete", "--group", topic)
    assert f"Deletion of requested consumer groups ('{topic}') was successful." in done.out
    assert [topic] not in tools("consumer-groups", "--list").rows


def records_of(tools: Tools, formatter: str, group: str) -> list[dict[str, Any]]:
    """Return what the internal topic says about a group, read by Kafka's own formatter."""
    read = ["--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "2000"]
    done = tools.run(
        "console-consumer", *read, "--formatter", f"org.apache.kafka.tools.consumer.{formatter}"
    )
    records, found, at = [], done.out, done.out.find("{")
    while at >= 0:  # one object after the other, without anything between them
        record, end = json.JSONDecoder().raw_decode(found, at)
        records.append(record)
        at = found.find("{", end)
    return [record for record in records if record["key"]["data"]["group"] == group]


def committed_member(clients: Kafka, topic: str) -> Client:
    with clients.consumer(
        **{"group.id": topic, "client.id": "app", "group.instance.id": "one"}
    ) as member:
        member("subscribe", topics=[topic])
        member.poll(10)
        member("commit", offsets={f"{topic}-0": 10})
        return member


def test_kafkas_formatters_read_our_records(tools: Tools, clients: Kafka, topic: str) -> None:
    with clients.producer() as producer:
        producer.send(topic, [f"v{n}" for n in range(10)])
    committed_member(clients, topic)
    offsets = records_of(tools, "OffsetsMessageFormatter", topic)
    assert offsets[-1]["key"]["data"] == {"group": topic, "topic": topic, "partition": 0}
    value = offsets[-1]["value"]["data"]
    assert (value["offset"], value["metadata"]) == (10, "noted")
    groups = [
        record["value"]["data"]
        for record in records_of(tools, "GroupMetadataMessageFormatter", topic)
        if record["value"]
    ]
    (member,) = groups[-1]["members"]
    assert (groups[-1]["protocolType"], groups[-1]["protocol"]) == ("consumer", "range")
    assert groups[-1]["leader"] == member["memberId"]
    assert (member["clientId"], member["groupInstanceId"]) == ("app", "one")
    assert (member["clientHost"], member["sessionTimeout"]) == ("/127.0.0.1", 45000)


def test_a_console_consumer_resumes(tools: Tools, topic: str) -> None:
    tools("console-producer", "--topic", topic, stdin="".join(f"v{n}\n" for n in range(6)))
    read = ["--topic", topic, "--group", topic, "--timeout-ms", "30000"]
    first = tools("console-consumer", *read, "--from-beginning", "--max-messages", "4")
    assert first.out.split() == ["v0", "v1", "v2", "v3"]
    second = tools("console-consumer", *read, "--max-messages", "2")
    assert second.out.split() == ["v4", "v5"]
