"""`tailrace user`: before the first start, through a running broker, and in a cluster."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tailrace.tools.errors import Exit
from tests.cluster.cli import output, parsed, refusal
from tests.cluster.several_brokers import until
from tests.cluster.three_bookies import ThreeBookies
from tests.ports import free_port
from tests.process import TailraceProcess
from tests.zookeeper import ZooKeeperServer

BOTH = "SCRAM-SHA-256, SCRAM-SHA-512"
PASSWORD = "a password, or two"


def client(at: str, user: str = "alice", password: str = PASSWORD) -> dict[str, str]:
    return {
        "bootstrap.servers": at,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": password,
    }


def logs_in(at: str, user: str = "alice", password: str = PASSWORD) -> bool:
    admin = AdminClient({**client(at, user, password), "log_level": 0})
    try:
        admin.list_topics(timeout=2)
    except KafkaException:
        return False
    return True


def test_the_first_user_comes_before_the_first_start(
    broker_factory: Callable[..., TailraceProcess], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    there = ["--data", str(data)]
    output("user", "create", "alice", *there, stdin=f"{PASSWORD}\n".encode())
    assert parsed("user", "list", *there) == [
        {"user": "alice", "mechanisms": BOTH, "iterations": "4096, 4096"}
    ]
    broker = broker_factory(data=data)
    at = f"127.0.0.1:{free_port()}"
    broker.start(f"SASL_PLAINTEXT://{at}")
    assert logs_in(at)
    assert not logs_in(at, password="another")
    text = refusal(Exit.FAILED, "user", "list", *there)
    assert f"is in use by process {broker.pid}" in text
    assert "--bootstrap" in text

    way = [f"-X{name}={value}" for name, value in client(at).items() if name.startswith("s")]
    password = tmp_path / "password"
    password.write_text("the password of bob\nand more\n")
    to_bob = ["bob", "--password-file", str(password)]
    output("user", "create", *to_bob, *way, bootstrap=at)
    assert logs_in(at, "bob", "the password of bob")
    again = refusal(Exit.FAILED, "user", "create", *to_bob, *way, bootstrap=at)
    assert "--replace" in again
    password.write_text("another of bob\n")
    output("user", "create", *to_bob, "--replace", "--iterations", "8192",
           "--mechanism", "SCRAM-SHA-256", *way, bootstrap=at)  # fmt: skip
    assert logs_in(at, "bob", "another of bob")
    (bob,) = parsed("user", "describe", "bob", *way, bootstrap=at)
    assert bob["iterations"] == "8192, 4096"
    output("user", "delete", "bob", "--mechanism", "SCRAM-SHA-256", *way, bootstrap=at)
    assert not logs_in(at, "bob", "another of bob")
    output("user", "delete", "bob", *way, bootstrap=at)
    for words in (["describe", "bob"], ["delete", "bob"]):
        assert "no user bob" in refusal(Exit.FAILED, "user", *words, *way, bootstrap=at)
    assert [row["user"] for row in parsed("user", "list", *way, bootstrap=at)] == ["alice"]
    assert PASSWORD not in broker.output


@pytest.mark.parametrize(
    ("name", "password", "words"),
    [
        ("", PASSWORD, "Username must not be empty"),
        ("\u2168", PASSWORD, "Username is not acceptable"),
        ("bob", "short", "fewer than 8 characters"),
        ("bob", "", "fewer than 8 characters"),
        ("bob", "\u2168 is not IX", "The password is not acceptable"),
    ],
)
def test_what_is_not_to_be_a_user(tmp_path: Path, name: str, password: str, words: str) -> None:
    there = ["--data", str(tmp_path / "data")]
    text = refusal(Exit.USAGE, "user", "create", name, *there, stdin=f"{password}\n".encode())
    assert words in text
    assert not password or password not in text


def test_a_place_is_one_place(tmp_path: Path) -> None:
    two = ["--data", str(tmp_path), "--namespace", "distributedlog://x/y"]
    assert "two places" in refusal(Exit.USAGE, "user", "list", *two)
    file = tmp_path / "file"
    file.write_text("")
    text = refusal(Exit.FAILED, "user", "list", "--data", str(file))
    assert "cannot open it" in text
    missing = ["--data", str(tmp_path / "data"), "--password-file", str(tmp_path / "none")]
    assert "cannot read the password" in refusal(Exit.FAILED, "user", "create", "bob", *missing)


@pytest.mark.java
def test_users_of_a_cluster_are_those_of_all_its_brokers(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    with ThreeBookies(zookeeper, tmp_path) as cluster:
        there = ["--namespace", cluster.namespace]
        output("user", "create", "alice", *there, stdin=PASSWORD.encode())
        ways = []
        for node_id in (1, 2):
            ways.append(f"127.0.0.1:{free_port()}")
            listeners = f"PLAINTEXT://127.0.0.1:{free_port()},SASL_PLAINTEXT://{ways[-1]}"
            cluster.broker("--set", f"node.id={node_id}").start(listeners)
        assert all(logs_in(at) for at in ways)
        open_to_all = cluster.brokers[0].bootstrap
        output("user", "create", "bob", stdin=PASSWORD.encode(), bootstrap=open_to_all)
        until(lambda: logs_in(ways[1], "bob"))
        output("user", "delete", "alice", *there)
        until(lambda: not any(logs_in(at) for at in ways))
        assert [row["user"] for row in parsed("user", "list", *there)] == ["bob"]
