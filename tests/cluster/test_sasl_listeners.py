"""Listeners whose clients say who they are (SASL), as clients of others see them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.certificates import Authority
from tests.ports import free_port
from tests.process import TailraceProcess

WITHIN_S = 30
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
PASSWORD = "the password, = of alice"


class Sasl(NamedTuple):
    """A broker that lets anybody in at `bootstrap`, and users at the others."""

    broker: TailraceProcess
    plaintext: str
    ssl: str
    authority: Authority

    def settings(
        self, mechanism: str, user: str = "alice", password: str = PASSWORD, *, tls: bool = False
    ) -> dict[str, Any]:
        """Return a client's settings for librdkafka."""
        encrypted = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.certificate),
        }
        return {
            "bootstrap.servers": self.ssl if tls else self.plaintext,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "metadata.recovery.strategy": "none",
            **(encrypted if tls else {}),
        }

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.broker.bootstrap})


Start = Callable[..., Sasl]


@pytest.fixture
def start(broker_factory: Callable[..., TailraceProcess], tmp_path: Path) -> Start:
    """Start a broker with a listener without SASL, and two with it."""

    def start(*settings: str) -> Sasl:
        authority = Authority(tmp_path / "keys")
        given = (
            f"ssl.keystore.location={authority.store('broker', '127.0.0.1', 'localhost')}",
            f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
            *settings,
        )
        broker = broker_factory(*(part for each in given for part in ("--set", each)))
        open_to_all, plaintext, ssl = (f"127.0.0.1:{free_port()}" for _ in range(3))
        broker.start(f"PLAINTEXT://{open_to_all},SASL_PLAINTEXT://{plaintext},SASL_SSL://{ssl}")
        return Sasl(broker, plaintext, ssl, authority)

    return start


def create(
    admin: AdminClient,
    user: str = "alice",
    password: str = PASSWORD,
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256,
) -> None:
    upsertion = UserScramCredentialUpsertion(
        user, ScramCredentialInfo(mechanism, 4096), password.encode()
    )
    admin.alter_user_scram_credentials([upsertion])[user].result(WITHIN_S)


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
    return errors[0].name() + ": " + errors[0].str()


@pytest.mark.parametrize("tls", [False, True])
def test_users_log_in_by_each_mechanism(start: Start, *, tls: bool) -> None:
    sasl = start()
    admin = sasl.admin()
    create(admin)
    create(admin, "bob", mechanism=ScramMechanism.SCRAM_SHA_512)
    for mechanism, user in zip(MECHANISMS, ("alice", "bob", "alice"), strict=True):
        assert not write(sasl.settings(mechanism, user, tls=tls))
        for wrong in (("alice", "wrong"), ("nobody", PASSWORD)):
            assert "_AUTHENTICATION" in write(sasl.settings(mechanism, *wrong, tls=tls))
    assert "_AUTHENTICATION" in write(sasl.settings("SCRAM-SHA-256", "bob", tls=tls))
    deletion = UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([deletion])["alice"].result(WITHIN_S)
    for mechanism in MECHANISMS:
        assert "_AUTHENTICATION" in write(sasl.settings(mechanism, tls=tls))
    assert PASSWORD not in sasl.broker.output
