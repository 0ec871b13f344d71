"""`tailrace topic` against a running broker."""

import pytest

from tailrace.tools.errors import Exit
from tests.cluster.cli import output, parsed, refusal, tailrace
from tests.process import TailraceProcess


@pytest.fixture
def at(broker: TailraceProcess) -> str:
    return broker.bootstrap


def test_create_describe_alter_delete(at: str, topic: str) -> None:
    output("topic", "create", topic, "-p", "2", "-c", "retention.ms=60000", bootstrap=at)
    (described,) = parsed("topic", "describe", topic, bootstrap=at)
    assert described["topic"] == topic
    assert len(described["topic_id"]) == 22
    assert described["configs"] == {"retention.ms": "60000"}
    assert [p["partition"] for p in described["partitions"]] == [0, 1]
    assert {p["leader"] for p in described["partitions"]} == {1}
    assert {p["end_offset"] for p in described["partitions"]} == {0}

    changes = ["--set", "segment.ms=5000", "--unset", "retention.ms"]
    changes += ["--append", "cleanup.policy=compact", "--partitions", "3"]
    output("topic", "alter", topic, *changes, bootstrap=at)
    odd = ("--set", "segment.ms=1", "--unset", "retention.msec")
    text = refusal(Exit.FAILED, "topic", "alter", topic, *odd, bootstrap=at)
    assert "no such config: retention.msec" in text
    (described,) = parsed("topic", "describe", topic, bootstrap=at)
    assert described["configs"] == {"cleanup.policy": "delete,compact", "segment.ms": "5000"}
    assert len(described["partitions"]) == 3

    output("topic", "delete", topic, bootstrap=at)
    assert topic not in {row["topic"] for row in parsed("topic", "list", bootstrap=at)}


def test_tables_are_for_people_and_for_cut(at: str, topic: str) -> None:
    output("topic", "create", topic, "-p", "3", bootstrap=at)
    lines = output("topic", "list", bootstrap=at).decode().splitlines()
    assert lines[0].split() == ["topic", "partitions"]
    assert [topic, "3"] in [line.split() for line in lines]
    text = output("topic", "describe", topic, bootstrap=at).decode()
    assert "partitions  3" in text
    assert text.splitlines()[-1].split() == ["2", "1", "2", "1", "1", "0", "0"]


def test_all_configs(at: str, topic: str) -> None:
    output("topic", "create", topic, bootstrap=at)
    (described,) = parsed("topic", "describe", topic, "--all-configs", bootstrap=at)
    assert described["configs"]["segment.bytes"] == "1073741824"


def test_what_is_there_and_what_is_not(at: str, topic: str) -> None:
    output("topic", "create", topic, bootstrap=at)
    again = refusal(Exit.FAILED, "topic", "create", topic, bootstrap=at)
    assert f"Topic '{topic}' already exists." in again
    output("topic", "create", topic, "--if-not-exists", bootstrap=at)
    output("topic", "delete", topic, bootstrap=at)
    assert "UNKNOWN_TOPIC" in refusal(Exit.FAILED, "topic", "delete", topic, bootstrap=at)
    output("topic", "delete", topic, "--if-exists", bootstrap=at)
    assert topic in refusal(Exit.FAILED, "topic", "describe", topic, bootstrap=at)


def test_one_bad_name_does_not_stop_the_others(at: str, topic: str) -> None:
    text = refusal(Exit.FAILED, "topic", "create", "a/b", topic, bootstrap=at)
    assert "1 of 2 topics failed: a/b" in text
    assert parsed("topic", "describe", topic, bootstrap=at)


def test_validate_only_does_nothing(at: str, topic: str) -> None:
    done = tailrace("topic", "create", topic, "--validate-only", bootstrap=at)
    assert done.returncode == 0
    assert topic not in {row["topic"] for row in parsed("topic", "list", bootstrap=at)}
    refusal(Exit.FAILED, "topic", "create", topic, "-r", "3", "--validate-only", bootstrap=at)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("topic", "alter", "t"), "nothing to change"),
        (("topic", "create", "t", "-c", "novalue"), "-c KEY=VALUE".replace("-c", "--config")),
        (("topic", "create"), "Missing argument"),
        (("topic", "list", "-X", "novalue"), "-X KEY=VALUE"),
        (("topic", "list", "-X", "no.such.property=1"), "no.such.property"),
        (("topic", "list", "-b", "h:x"), "no address"),
        (("topic", "list", "--timeout", "nan"), "nan is no number"),
        (("topic", "list", "--timeout", "1e30"), "0.1<=x<=1000000"),
        (("topic", "create", "t", "-p", "-2"), "-1<=x<=100000"),
        (("topic", "create", "t", "-r", "99999"), "-1<=x<=10000"),
        (("topic", "alter", "t", "-p", "0"), "1<=x<=100000"),
        (("txn", "list", "--producer-id", "99999999999999999999"), "0<=x<="),
        (("txn", "list", "--open-longer-than", "99999999999999999999"), "-1<=x<="),
        (("ledger", "show", "99999999999999999999", "-m", "zk://h/l"), "0<=x<="),
        (("topic", "create", b"\xff"), "'\\udcff'"),
        (("topic", "describe", b"\xff"), "'\\udcff'"),
        (("topic", "delete", b"\xff", "--yes"), "'\\udcff'"),
        (("cleaner", "status", "-a", "a b"), "--admin HOST:PORT"),
    ],
)
def test_wrong_command_lines(at: str, arguments: tuple[str | bytes, ...], words: str) -> None:
    assert words in refusal(Exit.USAGE, *arguments, bootstrap=at)


def test_a_refused_config_says_why(at: str, topic: str) -> None:
    text = refusal(
        Exit.FAILED, "topic", "create", topic, "-c", "min.insync.replicas=2", bootstrap=at
    )
    assert "1 copies are on disk" in text
