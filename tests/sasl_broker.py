"""A broker whose clients say who they are, and their settings, client by client."""

from pathlib import Path
from typing import Any, Final

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

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
USER: Final = "alice"
PASSWORD: Final = "the password of alice"
WITHIN_S: Final = 30


class SaslBroker:
    """A listener without SASL at `process.bootstrap`, and one of each kind with it."""

    def __init__(self, process: TailraceProcess, authority: Authority) -> None:
        self.process = process
        self.authority = authority
        self.plaintext, self.ssl = (f"127.0.0.1:{free_port()}" for _ in range(2))

    @staticmethod
    def arguments(authority: Authority, *settings: str) -> list[str]:
        """Return what such a broker is started with."""
        store = authority.store("broker", "127.0.0.1", "localhost")
        given = (
            f"ssl.keystore.location={store}",
            f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
            *settings,
        )
        return [part for each in given for part in ("--set", each)]

    def start(self) -> "SaslBroker":
        """Start it on ports that stay."""
        at = self.process.bootstrap or f"127.0.0.1:{free_port()}"
        listeners = (f"PLAINTEXT://{at.removeprefix('PLAINTEXT://')}",
                     f"SASL_PLAINTEXT://{self.plaintext}", f"SASL_SSL://{self.ssl}")  # fmt: skip
        self.process.start(",".join(listeners))
        return self

    def admin(self) -> AdminClient:
        """Return a client that needs not say who it is."""
        return AdminClient({"bootstrap.servers": self.process.bootstrap})

    def create(
        self,
        user: str = USER,
        password: str = PASSWORD,
        kinds: tuple[ScramMechanism, ...] = tuple(ScramMechanism)[1:],
    ) -> None:
        """Make or change a user, one mechanism after the other."""
        admin = self.admin()
        for kind in kinds:
            info = ScramCredentialInfo(kind, 4096)
            upsertion = UserScramCredentialUpsertion(user, info, password.encode())
            admin.alter_user_scram_credentials([upsertion])[user].result(WITHIN_S)

    def delete(self, user: str, kind: ScramMechanism) -> None:
        """Take a mechanism away from a user."""
        admin = self.admin()
        deletion = UserScramCredentialDeletion(user, kind)
        admin.alter_user_scram_credentials([deletion])[user].result(WITHIN_S)

    def at(self, *, tls: bool) -> str:
        """Return where clients connect."""
        return self.ssl if tls else self.plaintext

    def confluent(
        self, mechanism: str, user: str = USER, password: str = PASSWORD, *, tls: bool = False
    ) -> dict[str, Any]:
        """Return settings for librdkafka."""
        encrypted = {"ssl.ca.location": str(self.authority.certificate)} if tls else {}
        return {
            "bootstrap.servers": self.at(tls=tls),
            "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "metadata.recovery.strategy": "none",
            **encrypted,
        }

    def java(
        self, mechanism: str, user: str = USER, password: str = PASSWORD, *, tls: bool = False
    ) -> dict[str, str]:
        """Return settings for Kafka's own clients."""
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        encrypted = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
        }
        return {
            "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": (
                f"org.apache.kafka.common.security.{module}LoginModule required "
                f'username="{user}" password="{password}";'
            ),
            **(encrypted if tls else {}),
        }


def java_properties(settings: dict[str, str], path: Path) -> Path:
    """Write settings to a file, for --command-config."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path
