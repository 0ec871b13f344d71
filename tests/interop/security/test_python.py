"""Python's clients by every door: by certificate and each mechanism, with and without TLS.

Each writes a record and reads it in a group. What may not be ends in the client's own words.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PyKafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider as PyTokenProvider

from tests.interop.security.doors import (
    DENIED,
    MAY,
    MECHANISMS,
    TLS_DOORS,
    WITHIN_S,
    Door,
    SecuredBroker,
)  # fmt: skip

VALUE: Final = b"value"


def by_confluent(door: Door) -> str:
    """Write and read by librdkafka; return the first error's name, or nothing."""
    errors: list[KafkaError] = []
    settings = {**door.librdkafka(), "error_cb": errors.append}
    producer = Producer(settings)
    written: list[KafkaError | None] = []
    producer.produce(door.topic, VALUE, on_delivery=lambda error, _: written.append(error))
    while not written and not errors:
        producer.poll(0.1)
    producer.purge()
    failed = [each for each in (*errors, *written) if each is not None]
    if failed:
        return str(failed[0].name())
    reading = {"group.id": door.group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **reading})
    try:
        consumer.subscribe([door.topic])
        (message,) = consumer.consume(1, WITHIN_S)
        if message.error():
            return str(message.error().name())
        assert message.value() == VALUE
        consumer.commit(message, asynchronous=False)
    except KafkaException as error:
        return str(error.args[0].name())
    finally:
        consumer.close()
    return ""


class PyToken(PyTokenProvider):
    """Always the same token."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def token(self) -> str:
        return self._text


class AioToken(AioTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    """Always the same token."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text


def settings_of(door: Door, provider: Callable[[str], object]) -> dict[str, Any]:
    """Return settings for kafka-python and aiokafka."""
    settings: dict[str, Any] = {
        "bootstrap_servers": door.bootstrap,
        "security_protocol": door.protocol,
    }
    if door.ca:
        settings["ssl_context"] = context = ssl.create_default_context(cafile=door.ca)
        if door.store:
            context.load_cert_chain(door.store)
    if door.mechanism:
        settings |= {
            "sasl_mechanism": door.mechanism,
            "sasl_plain_username": door.user,
            "sasl_plain_password": door.password,
        }
    if door.jwt:
        settings["sasl_oauth_token_provider"] = provider(door.jwt)
    return settings


PY_PATIENCE_MS: Final = 4000
"""kafka-python tries a wrong password again for so long; its log says why, its error does not."""


def by_kafka_python(door: Door) -> str:
    """Write and read by kafka-python; return the error's class, or nothing."""
    settings = settings_of(door, PyToken)
    opened: list[Any] = []
    try:
        producer = KafkaProducer(**settings, bootstrap_timeout_ms=PY_PATIENCE_MS)
        opened.append(producer)
        producer.send(door.topic, VALUE).get(WITHIN_S)
        consumer = KafkaConsumer(
            door.topic, **settings, group_id=door.group, auto_offset_reset="earliest"
        )
        opened.append(consumer)
        found = consumer.poll(WITHIN_S * 1000)
        assert [each.value for some in found.values() for each in some] == [VALUE]
        consumer.commit()
    except PyKafkaError as error:
        return type(error).__name__
    finally:
        for each in opened:
            each.close()
    return ""


def by_aiokafka(door: Door) -> str:
    """Write and read by aiokafka; return the error's class, or nothing."""
    settings = settings_of(door, AioToken)

    async def work() -> None:
        reading = {"group_id": door.group, "auto_offset_reset": "earliest"}
        producer = AIOKafkaProducer(**settings)
        consumer = AIOKafkaConsumer(door.topic, **settings, **reading)
        try:  # `async with` leaves open what cannot be started
            async with asyncio.timeout(WITHIN_S):
                await producer.start()
                await producer.send_and_wait(door.topic, VALUE)
                await consumer.start()
                assert (await consumer.getone()).value == VALUE
                await consumer.commit()
        finally:
            await producer.stop()
            await consumer.stop()

    try:
        asyncio.run(work())
    except AioKafkaError as error:
        return type(error).__name__
    return ""


CLIENTS: Final = (by_confluent, by_kafka_python, by_aiokafka)
DOORS: Final = [(name, True) for name in TLS_DOORS] + [(name, False) for name in MECHANISMS]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("name", "tls"), DOORS)
def test_records_go_and_come(
    secured: SecuredBroker, client: Callable[[Door], str], name: str, *, tls: bool
) -> None:
    door = secured.door(name, tls=tls)
    assert client(door.to(f"{MAY}{client.__name__}-{name}-{tls}")) == ""


WORDS: Final[dict[Callable[[Door], str], Sequence[str]]] = {
    by_confluent: ("_AUTHENTICATION", "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"),
    by_kafka_python: (
        *("KafkaTimeoutError", "TopicAuthorizationFailedError"),
        "GroupAuthorizationFailedError",
    ),
    by_aiokafka: (
        *("KafkaConnectionError", "TopicAuthorizationFailedError"),
        "GroupAuthorizationFailedError",
    ),
}
"""For a wrong password, a topic and a group that the user may not use."""


@pytest.mark.parametrize("client", CLIENTS)
def test_what_may_not_be_ends_in_the_clients_own_words(
    secured: SecuredBroker, client: Callable[[Door], str]
) -> None:
    mine, right = f"{MAY}{client.__name__}", secured.door("SCRAM-SHA-512")
    tried = (secured.wrong().to(mine), right.to(DENIED), right.to(mine, DENIED))
    assert tuple(map(client, tried)) == tuple(WORDS[client])


@pytest.mark.parametrize("client", [by_confluent, by_aiokafka])
def test_what_is_not_there_is_refused_like_what_is(
    secured: SecuredBroker, client: Callable[[Door], str]
) -> None:
    wrong, right = secured.wrong(), secured.door("SCRAM-SHA-512")
    assert client(replace(wrong, user="nobody").to(f"{MAY}x")) == client(wrong.to(f"{MAY}x"))
    assert client(right.to("no-such-topic")) == client(right.to(DENIED))
