"""Listeners that speak TLS, as clients of others see them: encrypted, in time, by certificate."""

import json
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, ThrottleEvent
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tailrace.protocol.kafka.apis import ALTER_CLIENT_QUOTAS
from tailrace.protocol.kafka.messages import alter_client_quotas as alter
from tests.certificates import Authority, fingerprint, fingerprint_of
from tests.cluster.raw import RawClient
from tests.ports import free_port
from tests.process import TailraceProcess

WITHIN_S = 30
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
Start = Callable[..., "Secured"]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "keys")


class Secured(NamedTuple):
    broker: TailraceProcess
    """Without TLS at its `bootstrap`."""
    at: str
    """Where it speaks TLS."""


@pytest.fixture
def start(broker_factory: Callable[..., TailraceProcess], authority: Authority) -> Start:
    """Start a broker with a listener for TLS and one without."""

    def start(*settings: str, key_store: Path | None = None) -> Secured:
        store = key_store or authority.store("broker", "127.0.0.1", "localhost")
        given = (f"ssl.keystore.location={store}", *settings)
        arguments = [part for each in given for part in ("--set", each)]
        plain, port = free_port(), free_port()
        broker = broker_factory(*arguments)
        broker.start(f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{port}")
        return Secured(broker, f"127.0.0.1:{port}")

    return start


def client(at: str, authority: Authority, key_store: Path | None = None) -> dict[str, Any]:
    """Return a client's settings for librdkafka."""
    of_key = {"ssl.certificate.location": str(key_store), "ssl.key.location": str(key_store)}
    return {
        "bootstrap.servers": at,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.certificate),
        "metadata.recovery.strategy": "none",
        **(of_key if key_store else {}),
    }


def write_and_read(settings: dict[str, Any], topic: str, count: int) -> list[bytes | None]:
    producer = Producer(settings)
    for number in range(count):
        producer.produce(topic, b"%d" % number + bytes(1000))
        producer.poll(0)
    assert producer.flush(WITHIN_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        messages = consumer.consume(count, WITHIN_S)
        assert [each.error() for each in messages] == [None] * count
        return [each.value() for each in messages]
    finally:
        consumer.close()


def refuse(settings: dict[str, Any]) -> None:
    """Check that a client gets no answer."""
    admin = AdminClient({**settings, "log_level": 0})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)


def is_throttled(settings: dict[str, Any], topic: str) -> bool:
    """Write until the broker says to wait, or has taken a second record without a word of that."""
    heard: list[ThrottleEvent] = []
    producer = Producer({**settings, "throttle_cb": heard.append})
    written: list[object] = []
    for number in (1, 2):
        producer.produce(topic, bytes(1000), on_delivery=lambda error, _: written.append(error))
        while len(written) < number and not heard:
            producer.poll(0.1)
    producer.purge()
    return bool(heard)


def limit_writes(broker: TailraceProcess, user: str, rate: float) -> None:
    entry = alter.EntryData(
        entity=[alter.EntityData(entity_type="user", entity_name=user)],
        ops=[alter.OpData(key="producer_byte_rate", value=rate, remove=False)],
    )
    with RawClient(broker) as raw:
        answer = raw.ask(ALTER_CLIENT_QUOTAS, 1, alter.AlterClientQuotasRequest(entries=[entry]))
    assert [each.error_code for each in answer.entries] == [0]


def shown(at: str, authority: Authority) -> str:
    """Return what tells the certificate that a broker shows from others."""
    host, _, port = at.rpartition(":")
    context = ssl.create_default_context(cafile=str(authority.certificate))
    with (
        socket.create_connection((host, int(port)), WITHIN_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        der = encrypted.getpeercert(binary_form=True)
    assert der is not None
    return fingerprint(der)


def test_records_go_and_come_over_tls_beside_a_listener_without(
    start: Start, authority: Authority
) -> None:
    broker, at = start()
    values = write_and_read(client(at, authority), "over-tls", 2000)
    assert [int(each[:-1000]) for each in values if each] == list(range(2000))
    unencrypted = {"bootstrap.servers": broker.bootstrap, "metadata.recovery.strategy": "none"}
    assert write_and_read(unencrypted, "without", 1)
    refuse({**unencrypted, "bootstrap.servers": at})
    broker.wait_for("reason=TLS handshake")
    refuse({**client(at, authority), "bootstrap.servers": broker.bootstrap})


def test_a_client_must_show_a_certificate_of_the_authority(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    trust = f"ssl.truststore.location={authority.certificate}"
    _, at = start("ssl.client.auth=required", trust)
    refuse(client(at, authority))
    refuse(client(at, authority, Authority(tmp_path / "others").store("alice")))
    assert write_and_read(client(at, authority, authority.store("alice")), "known", 1)


def test_quotas_go_by_the_name_in_a_certificate(start: Start, authority: Authority) -> None:
    rules = "RULE:^.*CN=([^,]+).*$/$1/L,DEFAULT"
    trust = f"ssl.truststore.location={authority.certificate}"
    broker, at = start("ssl.client.auth=requested", trust, f"ssl.principal.mapping.rules={rules}")
    limit_writes(broker, "alice", 1)
    alice, bob = authority.store("Alice"), authority.store("Bob")
    assert is_throttled(client(at, authority, alice), "a")
    assert not is_throttled(client(at, authority, bob), "b")
    assert not is_throttled(client(at, authority), "c")


def test_a_name_that_no_rule_is_for_is_refused_and_noted(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    audit = tmp_path / "audit"
    trust = f"ssl.truststore.location={authority.certificate}"
    rules = "ssl.principal.mapping.rules=RULE:^CN=(admin).*$/$1/"
    noted = f"audit.log={audit}"
    broker, at = start("ssl.client.auth=required", trust, rules, noted, "audit.level=all")
    refuse(client(at, authority, authority.store("alice")))
    broker.wait_for("no rule of ssl.principal.mapping.rules is for 'CN=alice")
    assert write_and_read(client(at, authority, authority.store("admin")), "known", 1)
    broker.stop()
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {(each["mechanism"], each["result"]) for each in lines} == {
        ("SSL", "DENIED"),
        ("SSL", "ALLOWED"),
    }
    (principal,) = {each["principal"] for each in lines if each["result"] == "ALLOWED"}
    assert principal == "User:admin"


def test_a_certificate_that_changes_is_shown_to_new_connections(
    start: Start, authority: Authority
) -> None:
    store = authority.store("broker", "localhost")
    broker, at = start(key_store=store)
    first = fingerprint_of(store)
    assert shown(at, authority) == first
    store.write_bytes(b"not a key store")
    broker.wait_for("tls_not_reloaded")
    assert shown(at, authority) == first
    authority.store("broker", "localhost")
    while (now := shown(at, authority)) == first:
        pass  # the broker sees within a second or so that the file has changed
    assert now == fingerprint_of(store)


def test_a_client_that_does_not_shake_hands_is_closed_and_nobody_waits_for_it(
    start: Start, authority: Authority
) -> None:
    broker, at = start("connection.handshake.timeout.ms=3000", "max.connections=20")
    host, _, port = at.rpartition(":")
    with ExitStack() as stack:

        def connected() -> socket.socket:
            return stack.enter_context(socket.create_connection((host, int(port)), WITHIN_S))

        silent = {sent: connected() for sent in (b"", HELLO[:6], b"\0\0\0\x0eno client hello")}
        for sent, connection in silent.items():
            connection.sendall(sent)
        assert write_and_read(client(at, authority), "beside", 1)
        for connection in silent.values():
            while connection.recv(100):
                pass  # an alert, and then the end
        for _ in range(30):
            connected()
        broker.wait_for("reason=too many connections")  # each counts as soon as it is there


def test_secrets_are_shown_nowhere(start: Start, authority: Authority) -> None:
    store = authority.pkcs12("broker", "the-password", "127.0.0.1")
    broker, at = start(
        "ssl.keystore.type=PKCS12", "ssl.keystore.password=the-password", key_store=store
    )
    admin = AdminClient(client(at, authority))
    resource = ConfigResource(ResourceType.BROKER, "1")
    described = admin.describe_configs([resource])[resource].result(WITHIN_S)
    password = described["ssl.keystore.password"]
    assert (password.value, password.is_sensitive) == (None, True)
    assert described["ssl.keystore.location"].value == str(store)
    assert "the-password" not in broker.output
