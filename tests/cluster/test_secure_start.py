"""`tailrace start --secure` and its clients: Kafka's, HTTP, gRPC; what others may not."""

import asyncio
import base64
import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tailrace import dlog
from tests.cluster.cli import tailrace
from tests.ports import free_port
from tests.process import TailraceProcess

WITHIN_S = 30
PORTS = (
    *("--set", "admin.http.enable=true", "--set", "admin.http.port=0"),
    *("--set", "proxy.enable=true", "--set", "proxy.listener=127.0.0.1:0"),
    *("--set", "log.level=debug"),  # what is in no line of it is in no log
)


@pytest.fixture(scope="module")
def plain() -> str:
    """Where a listener is that asks nobody, on loopback."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, plain: str) -> Iterator[TailraceProcess]:
    process = TailraceProcess(tmp_path_factory.mktemp("secured") / "data", "--secure", *PORTS)
    process.start(f"SASL_SSL://127.0.0.1:{free_port()},PLAINTEXT://{plain}")
    yield process
    process.close()


def properties(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key: value for key, _, value in pairs}


def written(data: Path) -> dict[str, str]:
    """Return what clients of librdkafka are given."""
    return properties((data / "security" / "librdkafka.properties").read_text())


def client(broker: TailraceProcess, **others: str) -> dict[str, Any]:
    settings = {**written(broker.data), "bootstrap.servers": broker.bootstrap, **others}
    return {**settings, "log_level": 0}


def is_refused(settings: dict[str, Any], code: int) -> bool:
    """Return whether a client hears of an error, whatever it hears before, in time."""
    errors: list[KafkaError] = []
    producer = Producer({**settings, "error_cb": errors.append})
    for _ in range(WITHIN_S):
        producer.poll(1)
        if any(each.code() == code for each in errors):
            return True
    return False


def to_and_fro(settings: dict[str, Any], topic: str) -> bytes | None:
    producer = Producer(settings)
    producer.produce(topic, topic.encode())
    assert producer.flush(WITHIN_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        (message,) = consumer.consume(1, WITHIN_S)
        return message.value()
    finally:
        consumer.close()


def test_what_is_printed_gets_in_and_nothing_else_does(broker: TailraceProcess) -> None:
    told, _, _ = broker.output.partition("ready:")
    printed = properties(told.partition("librdkafka.properties")[2].partition("#")[0])
    assert printed == written(broker.data)
    assert to_and_fro(client(broker), "t") == b"t"
    wrong = client(broker, **{"sasl.password": "wrong"})
    assert is_refused(wrong, KafkaError._AUTHENTICATION)
    trusting_others = client(broker)
    del trusting_others["ssl.ca.location"]
    assert is_refused(trusting_others, KafkaError._SSL)


def _asked(broker: TailraceProcess, path: str, user: tuple[str, str] | None) -> int:
    (at,) = re.findall(r"^admin: https=(\S+)$", broker.output, re.MULTILINE)
    request = urllib.request.Request(f"https://{at}{path}")
    if user is not None:
        text = base64.b64encode(":".join(user).encode()).decode()
        request.add_header("Authorization", f"Basic {text}")
    trusting = ssl.create_default_context(cafile=broker.data / "security" / "ca.pem")
    try:
        with urllib.request.urlopen(request, timeout=WITHIN_S, context=trusting) as answer:
            json.load(answer)
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_the_http_port_knows_the_same_users(broker: TailraceProcess) -> None:
    settings = client(broker)
    admin = ("admin", str(settings["sasl.password"]))
    assert to_and_fro(settings, "t") == b"t"
    assert _asked(broker, "/health", None) == 200
    for path, status in (("/cleaner", 200), ("/topics/t/latest", 200), ("/topics/u/latest", 404)):
        assert _asked(broker, path, admin) == status
        assert _asked(broker, path, None) == _asked(broker, path, ("admin", "wrong")) == 401


def test_thin_clients_come_by_the_same_settings(broker: TailraceProcess) -> None:
    (at,) = re.findall(r"^proxy: grpc=(\S+)$", broker.output, re.MULTILINE)
    settings = properties((broker.data / "security" / "client.properties").read_text())

    async def story(password: str) -> list[bytes]:
        jaas = settings["sasl.jaas.config"].replace(written(broker.data)["sasl.password"], password)
        given = {**settings, "sasl.jaas.config": jaas, "connect.timeout.ms": 5_000}
        async with dlog.ThinClient(at, settings=given) as thin:
            await thin.create("s")
            await thin.write("s", b"x")
            async with thin.read("s", tail=False) as reader:
                return [record.payload async for record in reader]

    assert asyncio.run(story(written(broker.data)["sasl.password"])) == [b"x"]
    with pytest.raises(dlog.ProxyError, match="wrong"):
        asyncio.run(story("wrong"))


def test_commands_come_by_the_file_that_was_written(broker: TailraceProcess) -> None:
    file = str(broker.data / "security" / "client.properties")
    (admin,) = re.findall(r"^admin: https=(\S+)$", broker.output, re.MULTILINE)
    assert to_and_fro(client(broker), "t") == b"t"
    at = ("--admin", admin, "--command-config", file)
    listed = tailrace("topic", "list", "-b", broker.bootstrap, "--command-config", file)
    assert (listed.returncode, b"t" in listed.stdout) == (0, True)
    assert tailrace("cleaner", "status", *at).stdout.startswith(b"cleaner: on")
    assert tailrace("topic", "stats", "t", *at).returncode == 0
    plain = tailrace("cleaner", "status", "--admin", admin)
    assert (plain.returncode, b"--command-config" in plain.stderr) == (3, True)


def test_users_and_strangers_may_do_what_access_lists_say(
    broker: TailraceProcess, plain: str
) -> None:
    file = str(broker.data / "security" / "client.properties")
    alice = ("alice", "correct horse")
    made = ("user", "create", "alice", "-b", broker.bootstrap, "--command-config", file)
    assert tailrace(*made, stdin=alice[1].encode()).returncode == 0
    assert to_and_fro(client(broker), "t") == b"t"
    for topic in ("t", "missing"):
        assert _asked(broker, f"/topics/{topic}/latest", alice) == 403
    allow = AclBinding(
        *(ResourceType.TOPIC, "t", ResourcePatternType.LITERAL),
        *("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW),
    )
    admin = AdminClient(client(broker))
    (created,) = admin.create_acls([allow]).values()
    created.result(WITHIN_S)
    assert _asked(broker, "/topics/t/latest", alice) == 200
    assert _asked(broker, "/topics/missing/latest", alice) == 403
    nobody = AdminClient({"bootstrap.servers": plain, "log_level": 0})
    (denied,) = nobody.create_topics([NewTopic("u", 1, 1)]).values()
    with pytest.raises(KafkaException, match="AUTHORIZATION_FAILED"):
        denied.result(WITHIN_S)


def test_a_later_start_has_the_same_and_prints_nothing_of_it(broker: TailraceProcess) -> None:
    settings = client(broker)
    password = settings["sasl.password"]
    assert broker.output.count(password) == 2
    broker.kill()
    broker.start(f"SASL_SSL://{broker.bootstrap}")
    assert broker.output.count(password) == 2, "and not in the log either"
    assert base64.b64encode(f"admin:{password}".encode()).decode() not in broker.output
    assert to_and_fro(settings, "b") == b"b"
