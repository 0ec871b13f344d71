"""A cluster whose bookies speak TLS alone and know their clients: brokers, bookies, commands."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tailrace.bookie import security_config as of_bookie
from tailrace.core.ledger import security_config as of_client
from tailrace.core.security.bookkeeper_tls_config import FACTORY
from tests.certificates import Authority
from tests.cluster.cli import output, parsed, refusal
from tests.cluster.load import create_topic
from tests.cluster.several_brokers import CLIENT, start
from tests.cluster.three_bookies import ThreeBookies
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

TOPIC = "secure"
PASSWORD = "open sesame"
RECORDS = 50


class Settings:
    """The files of a cluster's processes, and what names them."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder / "keys")
        secret = folder / "password"
        secret.write_text(f"{PASSWORD}\n")
        jaas = folder / "jaas.conf"
        jaas.write_text(f"""
            Bookie {{ a.Module required user_bookkeeper="{PASSWORD}"; }};
            BookKeeper {{ a.Module required username="bookkeeper" password="{PASSWORD}"; }};
        """)
        common = {
            "tlsProviderFactoryClass": FACTORY,
            "tlsClientAuthentication": "true",
            "tlsKeyStoreType": "PKCS12",
            "tlsKeyStorePasswordPath": secret,
            "tlsTrustStore": authority.certificate,
            "clientAuthProviderFactoryClass": of_client.SASL_FACTORY,
            "saslJaasConfigFile": jaas,
        }
        self.of_clients = {**common, "tlsKeyStore": authority.pkcs12("client", PASSWORD)}
        self.of_bookies = {
            **common,
            "tlsKeyStore": authority.pkcs12("bookie", PASSWORD, "127.0.0.1"),
            "bookieAuthProviderFactoryClass": of_bookie.SASL_FACTORY,
        }
        self.file = folder / "client.toml"
        self.file.write_text("".join(f'{k} = "{v}"\n' for k, v in self.of_clients.items()))


def arguments(settings: dict[str, object]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path)


@pytest.fixture
def cluster(
    zookeeper: ZooKeeperServer, tmp_path: Path, settings: Settings
) -> Iterator[ThreeBookies]:
    with ThreeBookies(zookeeper, tmp_path, arguments(settings.of_bookies)) as made:
        yield made


def produce(bootstrap: str, first: int) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **CLIENT})
    for number in range(first, first + RECORDS):
        producer.produce(
            TOPIC,
            str(number).encode(),
            partition=0,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert not failed


def consumed(bootstrap: str, count: int) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest", **CLIENT}
    )
    consumer.subscribe([TOPIC])
    found: list[int] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), timeout=60)
        assert messages, f"nothing after {found}"
        found += [int(message.value() or b"") for message in messages]
    consumer.close()
    return found


def test_a_cluster_with_tls_and_sasl_to_its_bookies(
    cluster: ThreeBookies, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = arguments(settings.of_clients)
    (broker,) = start(cluster, 1, more=more)
    create_topic(broker.bootstrap, TOPIC, replication_factor=3)
    produce(broker.bootstrap, 0)
    cluster.bookies[0].kill()
    produce(broker.bootstrap, RECORDS)
    broker.kill()
    cluster.bookies[0].start()
    cluster.wait_until_gone()
    (second,) = start(cluster, 2, more=more)  # recovers what the first one left open
    produce(second.bootstrap, 2 * RECORDS)
    assert consumed(second.bootstrap, 3 * RECORDS) == list(range(3 * RECORDS))

    where = ("--metadata", cluster.metadata)
    (closed, *_) = (each for each in parsed("ledger", "list", *where) if each["last_entry"])
    words = ("ledger", "read", str(closed["ledger"]), *where)
    without = refusal(1, *words)
    assert "EUA" in without
    assert "TAILRACE_BOOKIE_CLIENT_CONFIG" in without
    monkeypatch.setenv("TAILRACE_BOOKIE_CLIENT_CONFIG", str(settings.file))
    assert output(*words, "--json").count(b"\n") == closed["last_entry"] + 1
    assert output("bookie", "info", *where).count(b" EOK ") == 3
    said = [each.output for each in (*cluster.bookies, *cluster.brokers)]
    assert not any(PASSWORD in each for each in said)
