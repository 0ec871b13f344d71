"""A secured broker in a user's tests: real clients of every library get in by what it hands out."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer

from tailrace.testing import Broker
from tests.cluster.cli import output
from tests.testing.test_health import health

TIMEOUT_S = 30
USERS = {"alice": 'open, "sesame"\\', "bob": "another one"}


def write(broker: Broker, value: bytes, **more: Any) -> None:
    producer = Producer(broker.client_settings(**more))
    producer.produce("secured", value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def written(broker: Broker, count: int) -> list[bytes | None]:
    consumer = Consumer({**broker.client_settings(), "group.id": "g"})
    consumer.assign([TopicPartition("secured", 0, 0)])
    found = consumer.consume(count, TIMEOUT_S)
    consumer.close()
    return [message.value() for message in found]


async def _by_aiokafka(broker: Broker) -> bytes:
    settings = broker.client_settings("aiokafka")
    async with AIOKafkaProducer(**settings) as producer:
        await producer.send_and_wait("secured", b"aiokafka", partition=0)
    async with AIOKafkaConsumer("secured", auto_offset_reset="earliest", **settings) as consumer:
        return bytes((await consumer.getone()).value or b"")


def test_clients_of_every_library_get_in(tmp_path: Path) -> None:
    with Broker(security="SASL_SSL", users=USERS) as broker:
        address = f"SASL_SSL://{broker.bootstrap}"
        assert health(address).stdout == f"{address} answers\n"
        write(broker, b"alice")
        write(broker, b"bob", user="bob")
        assert asyncio.run(_by_aiokafka(broker)) == b"alice"
        python: Any = KafkaProducer(**broker.client_settings("kafka-python"))
        python.send("secured", b"kafka-python", partition=0).get(TIMEOUT_S)
        python.close()
        file = tmp_path / "client.properties"
        properties = broker.client_settings("java", "bob").items()
        escaped = [(key, str(value).replace("\\", "\\\\")) for key, value in properties]
        file.write_text("".join(f"{key}={value}\n" for key, value in escaped))
        options = ("--bootstrap", broker.bootstrap, "--command-config", str(file))
        assert b"secured" in output("topic", "list", *options)
        broker.kill()
        broker.start()
        assert written(broker, 4) == [b"alice", b"bob", b"aiokafka", b"kafka-python"]
        wrong = {**broker.client_settings(), "sasl.password": "wrong", "log_level": 0}
        with pytest.raises(KafkaException):
            AdminClient(wrong).list_topics(timeout=2)
        log = broker.log
    for password in USERS.values():
        assert password not in log


def test_with_ssl_each_user_has_a_certificate() -> None:
    required = {"ssl.client.auth": "required"}
    with Broker(security="SSL", settings=required) as broker:
        address = f"SSL://{broker.bootstrap}"
        assert health(address).returncode == 1, "it shows no certificate"
        write(broker, b"by certificate")
        assert written(broker, 1) == [b"by certificate"]
        settings = broker.client_settings()
        without = {key: value for key, value in settings.items() if "key" not in key}
        del without["ssl.certificate.location"]
        with pytest.raises(KafkaException):
            AdminClient({**without, "log_level": 0}).list_topics(timeout=2)


def test_without_security_the_settings_are_the_address() -> None:
    broker = Broker()
    with broker:
        expected = {"bootstrap.servers": broker.bootstrap, "security.protocol": "PLAINTEXT"}
        assert broker.client_settings() == broker.client_settings("java") == expected
        with pytest.raises(ValueError, match="'ruby' is not one of confluent, java"):
            broker.client_settings("ruby")  # type: ignore[arg-type]
        with pytest.raises(KeyError):
            broker.client_settings(user="nobody")
