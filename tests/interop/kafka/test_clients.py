"""Kafka's Java clients 3.9 and 4.3 through the whole of what applications ask of them."""

import time

import pytest

from tests.interop.kafka.clients import Client, Kafka
from tests.java.peers import JavaClient, JavaError
from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.java]


@pytest.fixture
def clients(kafka: JavaClient, broker: TailraceProcess) -> Kafka:
    return Kafka(kafka, broker)


def numbered(count: int, prefix: str = "v") -> list[str]:
    return [f"{prefix}{n}" for n in range(count)]


def a_minute_ago_ms() -> int:
    """Return a time that neither retention nor the checks of timestamps object to."""
    return int(time.time() * 1000) - 60_000


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed(clients: Kafka, topic: str, codec: str) -> None:
    with clients.producer(**{"compression.type": codec}) as producer:
        assert producer.send(topic, numbered(100), key="k") == list(range(100))
    with clients.consumer() as consumer:
        consumer("assign", partitions=[f"{topic}-0"])
        records = consumer.poll(100)
    assert [record["value"] for record in records] == numbered(100)
    assert {(r["key"], r["headers"]) for r in records} == {("k", 1)}
    assert all(record["epoch"] >= 0 for record in records)


def test_a_producer_without_idempotence(clients: Kafka, topic: str) -> None:
    with clients.producer(**{"enable.idempotence": "false", "acks": 1}) as producer:
        assert producer.send(topic, numbered(10)) == list(range(10))
    with clients.producer(**{"enable.idempotence": "false", "acks": 0}) as producer:
        assert producer.send(topic, numbered(10)) == [-1] * 10


def test_seek_position_and_offsets_by_time(clients: Kafka, topic: str) -> None:
    base = a_minute_ago_ms()
    with clients.producer() as producer:
        producer.send(topic, numbered(50), timestamp=base)
    at = f"{topic}-0"
    with clients.consumer() as consumer:
        consumer("assign", partitions=[at])
        assert consumer("times", times={at: base + 20}) == {at: 20}
        assert consumer("times", times={at: base + 1000}) == {at: -1}
        assert consumer("ends", partitions=[at]) == {at: 50}
        consumer("seek", offsets={at: 45})
        assert [record["offset"] for record in consumer.poll(5)] == list(range(45, 50))
        assert consumer("position", partition=at) == {"offset": 50}
        consumer("seek", offsets={at: 5_000})  # nothing is there: the reset goes to the start
        assert consumer.poll(1)[0]["offset"] == 0


def assigned_to_all(
    members: list[Client], partitions: int, share: int | None = None
) -> list[list[str]]:
    """Poll in turn until every partition has one owner and every member a share of them.

    `share`: how many that are in the end. On the way there some may have more, others fewer.
    """
    for _ in range(150):
        for member in members:
            member.poll(0)
        owned = [member("assignment")["partitions"] for member in members]
        every = [partition for each in owned for partition in each]
        is_even = share is None or all(len(each) == share for each in owned)
        if is_even and all(owned) and len(every) == len(set(every)) == partitions:
            return owned
    raise AssertionError(f"never shared out: {[m('assignment') for m in members]}")


@pytest.mark.parametrize(
    "assignor", ["RangeAssignor", "RoundRobinAssignor", "CooperativeStickyAssignor"]
)
def test_a_group_shares_out_and_resumes(clients: Kafka, topic: str, assignor: str) -> None:
    clients.admin("topics.create", topic=topic, partitions=4)
    group = {
        "group.id": topic,
        "partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{assignor}",
    }
    with clients.consumer(**group) as first:
        first("subscribe", topics=[topic])
        assert len(assigned_to_all([first], 4)[0]) == 4
        with clients.consumer(**group) as second:
            second("subscribe", topics=[topic])
            shares = assigned_to_all([first, second], 4)
            assert [len(share) for share in shares] == [2, 2]
        assert len(assigned_to_all([first], 4)[0]) == 4
        with clients.producer() as producer:
            producer.send(topic, numbered(10), partition=1)
        assert sorted(first.values(10)) == sorted(numbered(10))
        first("commit", offsets={f"{topic}-1": 7})
        assert first("committed", partitions=[f"{topic}-1"]) == {f"{topic}-1": 7}
    with clients.consumer(**group) as again:
        again("subscribe", topics=[topic])
        assert [record["offset"] for record in again.poll(3)] == [7, 8, 9]


def test_static_members_and_a_pattern(clients: Kafka, topic: str) -> None:
    clients.admin("topics.create", topic=topic, partitions=2)
    static = {"group.id": topic, "group.instance.id": "one", "client.id": "app"}
    with clients.consumer(**static) as member:
        member("subscribe", pattern=f"{topic[:-1]}.*")
        assigned_to_all([member], 2)
        described = clients.admin("groups.describe", group=topic)
        (found,) = described["members"]
        assert (described["state"], described["assignor"]) == ("Stable", "range")
        assert (found["instance"], found["host"]) == ("one", "/127.0.0.1")
        assert found["partitions"] == [f"{topic}-0", f"{topic}-1"]
    assert clients.admin("groups.list")[topic] == "Stable"  # a static member stays when it closes


def test_topics(clients: Kafka, topic: str) -> None:
    configs = {"retention.ms": "60000", "cleanup.policy": "compact,delete"}
    clients.admin("topics.create", topic=topic, partitions=2, configs=configs, validate_only=True)
    assert topic not in clients.admin("topics.list")
    clients.admin("topics.create", topic=topic, partitions=2, configs=configs)
    with pytest.raises(JavaError, match="TopicExistsException"):
        clients.admin("topics.create", topic=topic, partitions=2)
    clients.admin("topics.grow", topic=topic, partitions=3)
    described = clients.admin("topics.describe", topic=topic)
    assert (described["internal"], len(described["partitions"])) == (False, 3)
    with pytest.raises(JavaError, match="InvalidPartitionsException"):
        clients.admin("topics.grow", topic=topic, partitions=1)
    clients.admin("topics.delete_by_id", of=described["topic_id"])
    with pytest.raises(JavaError, match="UnknownTopicOrPartitionException"):
        clients.admin("topics.describe", topic=topic)


def test_configs_of_a_topic_and_of_the_broker(clients: Kafka, topic: str) -> None:
    clients.admin("topics.create", topic=topic, partitions=1)
    clients.admin("topics.alter", topic=topic, configs={"retention.ms": "77"})
    found = clients.admin("topics.configs", topic=topic)
    assert (found["retention.ms"]["value"], found["retention.ms"]["type"]) == ("77", "LONG")
    assert found["retention.ms"]["source"] == "DYNAMIC_TOPIC_CONFIG"
    assert found["segment.bytes"]["documented"]
    clients.admin("topics.alter", topic=topic, how="DELETE", configs={"retention.ms": None})
    clients.admin("topics.alter", topic=topic, how="APPEND", configs={"cleanup.policy": "compact"})
    found = clients.admin("topics.configs", topic=topic)
    assert found["retention.ms"]["source"] == "DEFAULT_CONFIG"
    assert found["cleanup.policy"]["value"] == "delete,compact"
    with pytest.raises(JavaError, match="InvalidConfigurationException"):
        clients.admin("topics.alter", topic=topic, configs={"retention.ms": "soon"})
    node = clients.admin("cluster.describe")["controller"]
    assert "log.retention.ms" in clients.admin("topics.configs", type="BROKER", of=str(node))


def test_ends_of_a_partition(clients: Kafka, topic: str) -> None:
    base = a_minute_ago_ms()
    with clients.producer() as producer:
        producer.send(topic, numbered(30), timestamp=base)
    at = f"{topic}-0"
    found = clients.admin("topics.offsets", at=at, timestamp=base + 9)
    assert found == {"earliest": 0, "latest": 30, "max_timestamp": 29, "timestamp": 9}
    assert clients.admin("topics.delete_records", at=at, before=12) == {"low_watermark": 12}
    assert clients.admin("topics.offsets", at=at)["earliest"] == 12
    with pytest.raises(JavaError, match="OffsetOutOfRangeException"):
        clients.admin("topics.delete_records", at=at, before=31)


def test_the_cluster(clients: Kafka) -> None:
    described = clients.admin("cluster.describe")
    assert described["nodes"] == 1
    assert described["cluster_id"]


def test_offsets_of_a_group_are_listed_and_altered(clients: Kafka, topic: str) -> None:
    with clients.producer() as producer:
        producer.send(topic, numbered(10))
    at = f"{topic}-0"
    clients.admin("groups.alter_offsets", group=topic, offsets={at: 4})
    assert clients.admin("groups.offsets", group=topic) == {at: 4}
    assert clients.admin("groups.list")[topic] == "Empty"
    with clients.consumer(**{"group.id": topic}) as member:
        member("subscribe", topics=[topic])
        assert member.poll(6)[0]["offset"] == 4
        with pytest.raises(JavaError, match="UnknownMemberIdException"):
            clients.admin("groups.alter_offsets", group=topic, offsets={at: 0})


def test_offsets_and_groups_are_deleted(clients: Kafka, topic: str) -> None:
    clients.admin("topics.create", topic=topic, partitions=2)
    at, other = f"{topic}-0", f"{topic}-1"
    clients.admin("groups.alter_offsets", group=topic, offsets={at: 4, other: 5})
    clients.admin("groups.delete_offsets", group=topic, partitions=[at])
    assert clients.admin("groups.offsets", group=topic) == {other: 5}
    with clients.consumer(**{"group.id": topic}) as member:
        member("subscribe", topics=[topic])
        assigned_to_all([member], 2)
        with pytest.raises(JavaError, match="GroupSubscribedToTopicException"):
            clients.admin("groups.delete_offsets", group=topic, partitions=[other])
        with pytest.raises(JavaError, match="GroupNotEmptyException"):
            clients.admin("groups.delete", group=topic)
    clients.admin("groups.delete", group=topic)
    assert topic not in clients.admin("groups.list")
    with pytest.raises(JavaError, match="GroupIdNotFoundException"):
        clients.admin("groups.delete", group=topic)


def test_a_static_member_is_removed(clients: Kafka, topic: str) -> None:
    clients.admin("topics.create", topic=topic, partitions=1)
    with clients.consumer(**{"group.id": topic, "group.instance.id": "one"}) as member:
        member("subscribe", topics=[topic])
        assigned_to_all([member], 1)
    clients.admin("groups.remove", group=topic, instance="one")
    assert clients.admin("groups.describe", group=topic)["state"] == "Empty"


def test_leaders_and_reassignments_of_one_node(clients: Kafka, topic: str) -> None:
    clients.admin("topics.create", topic=topic, partitions=1)
    node = clients.admin("cluster.describe")["controller"]
    at = f"{topic}-0"
    assert clients.admin("cluster.elect", at=at) == {"outcome": "ElectionNotNeededException"}
    clients.admin("cluster.reassign", at=at, to=node)
    assert clients.admin("cluster.reassignments") == {"count": 0}
    with pytest.raises(JavaError, match="InvalidReplicaAssignmentException"):
        clients.admin("cluster.reassign", at=at, to=node + 77)


def test_quotas_are_set_listed_and_removed(clients: Kafka, topic: str) -> None:
    of = {"entity": {"client-id": topic}, "key": "producer_byte_rate"}
    clients.admin("cluster.alter_quotas", **of, value=1_000_000_000)
    listed = {f"{{client-id={topic}}} producer_byte_rate": 1e9}
    assert clients.admin("cluster.quotas") == listed
    clients.admin("cluster.alter_quotas", **of)
    assert clients.admin("cluster.quotas") == {}
    with pytest.raises(JavaError, match="InvalidRequestException"):
        clients.admin("cluster.alter_quotas", **{**of, "key": "no_such_rate"}, value=1)
