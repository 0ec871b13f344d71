"""OAUTHBEARER with clients of others, over a file of keys that an issuer replaces."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as BlockingTokenProvider

from tests.ports import free_port
from tests.process import TailraceProcess
from tests.unit.core.access.oauth.issuer import jwk_of, key_set, token

ISSUER: Final = "https://issuer.test"
AUDIENCE: Final = "kafka"
TRIES_MAX: Final = 600
"""Of what takes a second or two."""


def claims(**changed: Any) -> dict[str, Any]:
    now_s = int(time.time())
    good = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now_s, "exp": now_s + 600}
    return {**good, **changed}


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    file = tmp_path / "keys.json"
    file.write_bytes(key_set(jwk_of("RS256")))
    return file


@pytest.fixture
def other() -> str:
    """Address of a listener for the tokens of another issuer."""
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def broker(
    broker_factory: Callable[..., TailraceProcess], keys: Path, other: str
) -> TailraceProcess:
    given = (
        "sasl.enabled.mechanisms=OAUTHBEARER",
        f"sasl.oauthbearer.jwks.endpoint.url={keys.as_uri()}",
        f"sasl.oauthbearer.expected.issuer={ISSUER}",
        f"sasl.oauthbearer.expected.audience={AUDIENCE}",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms=100",
        "listener.security.protocol.map=OTHER:SASL_PLAINTEXT",
        "listener.name.other.sasl.oauthbearer.expected.issuer=https://other.test",
    )
    started = broker_factory(*(part for each in given for part in ("--set", each)))
    return started.start(f"SASL_PLAINTEXT://127.0.0.1:{free_port()},OTHER://{other}")


def settings_of(broker: TailraceProcess) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "metadata.recovery.strategy": "none",
        "log_level": 0,
    }


def write(broker: TailraceProcess, text: str, **more: Any) -> str:
    """Write a record; return the name of the error that kept the client from it, or nothing."""
    errors: list[KafkaError] = []
    producer = Producer(
        {
            **settings_of(broker),
            **more,
            "oauth_cb": lambda _: (text, time.time() + 600),
            "error_cb": errors.append,
        }
    )
    written: list[object] = []
    producer.produce("written", b"x", on_delivery=lambda error, _: written.append(error))
    while not written and not errors:
        producer.poll(0.1)
    producer.purge()
    if errors:
        return str(errors[0].name())
    assert written == [None]
    return ""


def test_tokens_let_in_and_everything_else_does_not(broker: TailraceProcess, other: str) -> None:
    good = token("RS256", claims())
    assert not write(broker, good)
    bad = {
        "expired": token("RS256", claims(exp=int(time.time()) - 60)),
        "of another issuer": token("RS256", claims(iss="https://other.test")),
        "for another audience": token("RS256", claims(aud="web")),
        "signed by another": token("PS256", claims()),
        "of another key": token("ES256", claims()),
        "no token": "no.token.atall",
    }
    for why, text in bad.items():
        assert write(broker, text) == "_AUTHENTICATION", why
    there = {"bootstrap.servers": other}
    assert not write(broker, bad["of another issuer"], **there)
    assert write(broker, good, **there) == "_AUTHENTICATION"
    for text in (good, *bad.values()):
        assert text not in broker.output
        assert text.split(".")[2] not in broker.output
    assert "token refused: it has expired" in broker.output


def test_a_key_that_is_new_is_found(broker: TailraceProcess, keys: Path) -> None:
    assert not write(broker, token("RS256", claims()))
    keys.write_bytes(key_set(jwk_of("ES256", "k2")))
    new = token("ES256", claims(), kid="k2")
    assert any(not write(broker, new) for _ in range(TRIES_MAX))
    assert write(broker, token("RS256", claims())) == "_AUTHENTICATION"


def test_a_session_goes_on_with_the_next_token(broker: TailraceProcess) -> None:
    """librdkafka authenticates again on its connection, as KIP-368 says, before the first ends."""
    given: list[str] = []
    errors: list[KafkaError] = []
    written: list[object] = []
    ends_s = [0]

    def next_token(_: str) -> tuple[str, float]:
        ends_s.append(int(time.time()) + 5)
        given.append(token("RS256", claims(exp=ends_s[-1])))
        return given[-1], time.time() + 1  # it asks for another in time

    producer = Producer({**settings_of(broker), "oauth_cb": next_token, "error_cb": errors.append})
    while time.time() < ends_s[min(1, len(given))] + 1:  # until the first token is over
        producer.produce("written", b"x", on_delivery=lambda error, _: written.append(error))
        assert producer.flush(30) == 0
        producer.poll(0.2)
    assert len(given) > 1
    assert set(written) == {None}
    assert errors == []


class Provider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Always the same token."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text

    def extensions(self) -> dict[str, str]:
        return {"pool": "one"}


def test_aiokafka_logs_in(broker: TailraceProcess) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(token("RS256", claims())),
        )
        await producer.start()
        try:
            assert (await producer.send_and_wait("written", b"x")).offset == 0
        finally:
            await producer.stop()

    asyncio.run(run())


class BlockingProvider(BlockingTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    """Always the same token."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def token(self) -> str:
        return self._text


def test_kafka_python_logs_in(broker: TailraceProcess) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=BlockingProvider(token("RS256", claims())),
    )
    try:
        assert producer.send("written", b"x").get(30).offset == 0
    finally:
        producer.close()
