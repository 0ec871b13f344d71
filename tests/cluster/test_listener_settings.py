"""Certificates of one listener, given at the start and while the broker runs."""

import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.certificates import Authority, fingerprint, fingerprint_of
from tests.ports import free_port
from tests.process import TailraceProcess

WITHIN_S = 30
ONE = "listener.name.one.ssl."
TLS_1_2_SUITE = "ECDHE-ECDSA-AES256-GCM-SHA384"


class Broker(NamedTuple):
    process: TailraceProcess
    ports: dict[str, int]

    @property
    def listeners(self) -> str:
        return ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "keys")


@pytest.fixture
def start(broker_factory: Callable[..., TailraceProcess]) -> Callable[..., Broker]:
    def start(*settings: str) -> Broker:
        process = broker_factory(
            *(part for each in settings for part in ("--set", each)),
            "--set",
            "listener.security.protocol.map=ONE:SSL,TWO:SSL",
        )
        ports = {name: free_port() for name in ("PLAINTEXT", "ONE", "TWO")}
        broker = Broker(process, ports)
        process.start(broker.listeners)
        return broker

    return start


class Shown(NamedTuple):
    certificate: str
    version: str | None
    suite: str


def shown(port: int, authority: Authority, **limits: ssl.TLSVersion) -> Shown:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    for name, value in limits.items():
        setattr(context, name, value)
    with (
        socket.create_connection(("127.0.0.1", port), WITHIN_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        der, cipher = encrypted.getpeercert(binary_form=True), encrypted.cipher()
        assert der is not None
        assert cipher is not None
        return Shown(fingerprint(der), encrypted.version(), cipher[0])


def alter(broker: Broker, **values: str) -> None:
    entries = [
        ConfigEntry(
            ONE + name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET
        )
        for name, value in values.items()
    ]
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker.process.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(WITHIN_S)


def test_each_listener_has_its_certificate_versions_and_suites(
    start: Callable[..., Broker], authority: Authority
) -> None:
    common, own = authority.store("common", "localhost"), authority.store("own", "localhost")
    broker = start(
        f"ssl.keystore.location={common}",
        f"{ONE}keystore.location={own}",
        f"{ONE}cipher.suites={TLS_1_2_SUITE}",
    )
    one = shown(broker.ports["ONE"], authority)
    two = shown(broker.ports["TWO"], authority)
    assert one == (fingerprint_of(own), "TLSv1.2", TLS_1_2_SUITE)
    assert (two.certificate, two.version) == (fingerprint_of(common), "TLSv1.3")
    with pytest.raises(ssl.SSLError):
        shown(broker.ports["ONE"], authority, minimum_version=ssl.TLSVersion.TLSv1_3)


def test_alter_configs_gives_a_listener_another_certificate(
    start: Callable[..., Broker], authority: Authority, tmp_path: Path
) -> None:
    common = authority.store("common", "localhost")
    broker = start(f"ssl.keystore.location={common}")
    later = authority.pkcs12("later", "the-password", "localhost")
    before = shown(broker.ports["ONE"], authority)
    for wrong in (
        {"keystore_location": str(tmp_path / "nothing.pem")},
        {"keystore_location": str(later), "keystore_type": "PKCS12", "keystore_password": "other"},
    ):
        with pytest.raises(KafkaException, match="keystore"):
            alter(broker, **wrong)
    alter(
        broker,
        keystore_location=str(later),
        keystore_type="PKCS12",
        keystore_password="the-password",
    )
    while (now := shown(broker.ports["ONE"], authority)) == before:
        pass  # it is in force within a second or so
    assert now.certificate == fingerprint_of(authority.directory / "later.pem")
    assert shown(broker.ports["TWO"], authority) == before
    admin = AdminClient({"bootstrap.servers": broker.process.bootstrap})
    resource = ConfigResource(ResourceType.BROKER, "1")
    described = admin.describe_configs([resource])[resource].result(WITHIN_S)
    password = described[f"{ONE}keystore.password"]
    assert (password.value, password.is_sensitive) == (None, True)
    assert described[f"{ONE}keystore.location"].value == str(later)
    broker.process.stop()
    broker.process.start(broker.listeners)
    while shown(broker.ports["ONE"], authority) != now:
        pass
    for secret in ("the-password", "other"):
        assert secret not in broker.process.output
