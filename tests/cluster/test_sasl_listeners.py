"""Listeners whose clients say who they are (SASL), as librdkafka sees them; users, and crashes."""

import hashlib
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import ScramMechanism

from tailrace.protocol.kafka.apis import ALTER_USER_SCRAM_CREDENTIALS
from tailrace.protocol.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from tests.certificates import Authority
from tests.cluster.raw import RawClient
from tests.process import TailraceProcess
from tests.sasl_broker import MECHANISMS, PASSWORD, WITHIN_S, SaslBroker

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
Start = Callable[..., SaslBroker]


@pytest.fixture
def start(broker_factory: Callable[..., TailraceProcess], tmp_path: Path) -> Start:
    def start(*settings: str) -> SaslBroker:
        authority = Authority(tmp_path / "keys")
        process = broker_factory(*SaslBroker.arguments(authority, *settings))
        return SaslBroker(process, authority).start()

    return start


def write(settings: dict[str, Any]) -> str:
    """Write a record; return the name of the error that kept the client from it, or nothing."""
    errors: list[KafkaError] = []
    producer = Producer({**settings, "error_cb": errors.append, "log_level": 0})
    written: list[object] = []
    producer.produce("written", b"x", on_delivery=lambda error, _: written.append(error))
    while not written and not errors:
        producer.poll(0.1)
    producer.purge()
    if written:
        assert written == [None]
        return ""
    return str(errors[0].name())


def is_refused(settings: dict[str, Any]) -> bool:
    return write(settings) == "_AUTHENTICATION"


def test_users_log_in_by_each_mechanism(start: Start) -> None:
    """Over TLS; without it, see `tests/interop/test_sasl.py`."""
    sasl, tls = start(), True
    sasl.create(kinds=(SHA_256,))
    sasl.create("bob", kinds=(SHA_512,))
    for mechanism, user in zip(MECHANISMS, ("alice", "bob", "alice"), strict=True):
        assert not write(sasl.confluent(mechanism, user, tls=tls))
        for wrong in (("alice", "wrong"), ("nobody", PASSWORD)):
            assert is_refused(sasl.confluent(mechanism, *wrong, tls=tls))
    assert is_refused(sasl.confluent("SCRAM-SHA-256", "bob", tls=tls))
    sasl.delete("alice", SHA_256)
    for mechanism in MECHANISMS:
        assert is_refused(sasl.confluent(mechanism, tls=tls))
    assert PASSWORD not in sasl.process.output


def test_a_client_goes_on_beyond_its_session(start: Start) -> None:
    """librdkafka authenticates again on its connections, also while it waits for records."""
    sasl = start("connections.max.reauth.ms=1200", "admin.http.enable=true", "admin.http.port=0")
    sasl.create()
    settings = {**sasl.confluent("SCRAM-SHA-512"), "log_level": 0}
    lost: list[KafkaError] = []
    producer = Producer({**settings, "error_cb": lost.append})
    consumer = Consumer({
        **settings, "error_cb": lost.append, "group.id": "g", "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 20_000,
    })  # fmt: skip
    producer.produce("t", b"first")
    assert producer.flush(WITHIN_S) == 0
    consumer.subscribe(["t"])
    (first,) = consumer.consume(1, WITHIN_S)
    assert first.value() == b"first"
    while again(sasl) < 4:
        assert consumer.consume(1, 0.5) == []
    producer.produce("t", b"last")
    assert producer.flush(WITHIN_S) == 0
    (last,) = consumer.consume(1, WITHIN_S)
    assert last.value() == b"last"
    consumer.close()
    assert "_AUTHENTICATION" not in [each.name() for each in lost]


def again(sasl: SaslBroker) -> float:
    """Return how often connections were authenticated again."""
    at = next(line for line in sasl.process.lines if line.startswith("admin: http="))
    with urlopen(f"http://{at.partition('=')[2]}/metrics", timeout=WITHIN_S) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("broker_authentication_again_total "):
                return float(line.split()[1])
    raise AssertionError("there is no such number")


def test_the_last_acknowledged_password_survives_a_kill(start: Start) -> None:
    sasl = start()
    passwords = (f"password number {number}" for number in count())
    for _ in range(3):
        acknowledged = ""
        with RawClient(sasl.process) as raw:
            for _ in range(20):
                acknowledged = next(passwords)
                answer = raw.ask(ALTER_USER_SCRAM_CREDENTIALS, 0, alteration(acknowledged))
                assert [each.error_code for each in answer.results] == [0]
            under_way = next(passwords)
            raw.send(ALTER_USER_SCRAM_CREDENTIALS, 0, alteration(under_way))
            sasl.process.kill()
        sasl.start()
        right = [
            each
            for each in (acknowledged, under_way)
            if not is_refused(sasl.confluent("SCRAM-SHA-256", password=each))
        ]
        assert len(right) == 1, "one of them, and whole"


def alteration(password: str) -> AlterUserScramCredentialsRequest:
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b"salt", 4096)
    upsertion = ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=salted
    )
    return AlterUserScramCredentialsRequest(upsertions=[upsertion])
