"""What `tailrace group` must do, with librdkafka's consumers: on our broker and on Kafka's.

Who inherits has the fixtures `at`, a bootstrap address, and `topic`, a name for a new one.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, TopicPartition

from tailrace.tools.errors import Exit
from tests.cluster.cli import output, parsed, refusal

RECORDS = 20


@contextmanager
def member(at: str, group: str, topic: str, protocol: str = "classic") -> Iterator[Consumer]:
    """A consumer that has read and committed everything, and stays in its group."""
    settings = {
        "bootstrap.servers": at,
        "group.id": group,
        "client.id": "reader",
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        read = 0
        while read < RECORDS:
            read += len(consumer.consume(RECORDS - read, timeout=30))
        consumer.commit(asynchronous=False)
        yield consumer
    finally:
        consumer.close()


def committed(at: str, group: str, topic: str) -> list[int]:
    """Where librdkafka says that a group is."""
    consumer = Consumer({"bootstrap.servers": at, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, n) for n in range(2)], timeout=30)
    finally:
        consumer.close()
    return [each.offset for each in found]


class GroupCommandContract:
    """One cluster of one broker."""

    coordinator: int
    """The id of its broker."""

    @pytest.fixture
    def filled(self, at: str, topic: str) -> str:
        """A topic of two partitions with records 0 to 9 in each."""
        output("topic", "create", topic, "-p", "2", bootstrap=at)
        for partition in ("0", "1"):
            text = "".join(f"{n}\n" for n in range(10)).encode()
            output("produce", topic, "-p", partition, stdin=text, bootstrap=at)
        return topic

    @pytest.mark.parametrize("protocol", ["classic", "consumer"])
    def test_a_group_at_work_and_at_rest(self, at: str, filled: str, protocol: str) -> None:
        group = f"{filled}-{protocol}"
        with member(at, group, filled, protocol):
            (described,) = parsed("group", "describe", group, bootstrap=at)
            assert (described["type"], described["state"]) == (protocol, "Stable")
            (reader,) = described["members"]
            assert reader["client"] == "reader"
            assert reader["partitions"] == [f"{filled}-0", f"{filled}-1"]
            assert [(row["committed"], row["end"], row["lag"]) for row in described["offsets"]] == [
                (10, 10, 0),
                (10, 10, 0),
            ]
            assert {row["member"] for row in described["offsets"]} == {reader["member"]}
            text = refusal(
                Exit.FAILED, "group", "reset", group, filled, "--to", "start", bootstrap=at
            )
            assert f"group {group} has 1 members (Stable)" in text
            text = refusal(Exit.FAILED, "group", "delete", group, bootstrap=at)
            assert "NON_EMPTY_GROUP" in text
            assert "stop its members first" in text
            text = refusal(Exit.FAILED, "group", "delete-offsets", group, filled, bootstrap=at)
            assert "GROUP_SUBSCRIBED_TO_TOPIC" in text
        output("produce", filled, "-p", "1", stdin=b"more\n", bootstrap=at)
        (described,) = parsed("group", "describe", group, bootstrap=at)
        assert (described["state"], described["members"]) == ("Empty", [])
        assert [row["lag"] for row in described["offsets"]] == [0, 1]
        (row,) = [row for row in parsed("group", "list", bootstrap=at) if row["group"] == group]
        assert (row["type"], row["state"], row["coordinator"]) == (
            protocol,
            "Empty",
            self.coordinator,
        )
        names = {row["group"] for row in parsed("group", "list", "--state", "Stable", bootstrap=at)}
        assert group not in names
        output("group", "delete", group, bootstrap=at)
        text = refusal(Exit.FAILED, "group", "describe", group, bootstrap=at)
        assert f"there is no group {group}" in text
        assert "GROUP_ID_NOT_FOUND" in refusal(Exit.FAILED, "group", "delete", group, bootstrap=at)

    def test_a_group_is_told_where_to_go_on(self, at: str, filled: str) -> None:
        group = f"{filled}-g"

        def reset(to: str, *where: str) -> list[tuple[int, int | None, int]]:
            does = () if "--dry-run" in where else ("--execute",)
            rows = parsed("group", "reset", group, *where, *does, f"--to={to}", bootstrap=at)
            return [(row["partition"], row["from"], row["to"]) for row in rows]

        text = refusal(
            *(Exit.FAILED, "group", "reset", group, filled, "--to", "start", "--execute"),
            bootstrap=at,
        )
        assert f"there is no group {group}" in text
        shown = parsed("group", "reset", group, filled, "--create", "--to", "start", bootstrap=at)
        assert [row["to"] for row in shown] == [0, 0]
        assert group not in {row["group"] for row in parsed("group", "list", bootstrap=at)}
        made = [(0, None, 0), (1, None, 0)]
        assert reset("start", filled, "--create") == made  # a group of its own
        shown = parsed("group", "reset", group, filled, "--to=end", bootstrap=at)
        assert [row["to"] for row in shown] == [10, 10]
        assert committed(at, group, filled) == [0, 0], "only shown"
        assert reset("-3", f"{filled}/1") == [(1, 0, 7)]
        assert reset("-100", f"{filled}/1", filled) == [(0, 0, 0), (1, 7, 0)]
        assert reset("4", "--all-topics") == [(0, 0, 4), (1, 0, 4)]
        assert committed(at, group, filled) == [4, 4]
        assert reset("@2001-01-01T00:00:00Z", "--all-topics") == [(0, 4, 0), (1, 4, 0)]
        assert reset("@2999-01-01T00:00:00Z", "--all-topics") == [(0, 0, 10), (1, 0, 10)]
        assert reset("start", "--dry-run", filled) == [(0, 10, 0), (1, 10, 0)]
        assert committed(at, group, filled) == [10, 10]
        assert reset("end", f"{filled}/0") == [(0, 10, 10)]
        doing = ("--to", "11", "--execute")
        text = refusal(Exit.FAILED, "group", "reset", group, filled, *doing, bootstrap=at)
        assert f"{filled}-0 has offsets 0 to 10, not 11" in text
        assert committed(at, group, filled) == [10, 10]

        output("group", "delete-offsets", group, f"{filled}/0", bootstrap=at)
        assert committed(at, group, filled)[1] == 10
        (described,) = parsed("group", "describe", group, bootstrap=at)
        assert [row["partition"] for row in described["offsets"]] == [1]
        output("topic", "delete", filled, bootstrap=at)

    def test_what_is_refused(self, at: str, filled: str) -> None:
        to = ("--to", "start", "--create")
        assert "name topics" in refusal(Exit.USAGE, "group", "reset", "g", *to, bootstrap=at)
        both_ways = ("group", "reset", "g", filled, *to, "--execute", "--dry-run")
        assert "--dry-run" in refusal(Exit.USAGE, *both_ways, bootstrap=at)
        text = refusal(Exit.USAGE, "group", "delete-offsets", "g", bootstrap=at)
        assert "tailrace group delete-offsets GROUP TOPIC OTHER/3" in text
        both = (filled, "--all-topics")
        assert "name topics" in refusal(Exit.USAGE, "group", "reset", "g", *both, *to, bootstrap=at)
        text = refusal(Exit.FAILED, "group", "reset", "g", "--all-topics", *to, bootstrap=at)
        assert "has committed nothing" in text
        for wrong in ("stored", "middle"):
            text = refusal(Exit.USAGE, "group", "reset", "g", filled, "--to", wrong, bootstrap=at)
            assert "--to" in text
        text = refusal(Exit.USAGE, "group", "reset", "g", f"{filled}/7", *to, bootstrap=at)
        assert "has no partition 7" in text
        text = refusal(Exit.FAILED, "group", "reset", "g", "nosuch", *to, bootstrap=at)
        assert "UNKNOWN_TOPIC_OR_PARTITION" in text
        assert "no broker answers" in refusal(
            Exit.UNREACHABLE, "group", "list", "-b", "127.0.0.1:1"
        )

    def test_tables_are_for_people(self, at: str, filled: str) -> None:
        group = f"{filled}-t"
        with member(at, group, filled):
            text = output("group", "describe", group, bootstrap=at).decode()
            assert "state        Stable" in text
            assert [filled, "0", "10", "0", "10", "0", "reader"] in [
                line.split() for line in text.splitlines()
            ]
            lines = output("group", "list", bootstrap=at).decode().splitlines()
            assert lines[0].split() == ["group", "type", "state", "coordinator"]
            assert [group, "classic", "Stable", str(self.coordinator)] in [
                line.split() for line in lines
            ]
