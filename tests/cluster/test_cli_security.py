"""The commands at a broker that speaks TLS: one file says how to get in, and no output shows it."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tailrace.tools.errors import Exit
from tests.certificates import Authority
from tests.cluster.cli import output, refusal, tailrace
from tests.ports import free_port
from tests.process import TailraceProcess
from tests.unit.core.access.oauth.issuer import jwk_of, key_set, token


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "keys")


@pytest.fixture
def mutual(broker_factory: Callable[..., TailraceProcess], authority: Authority) -> TailraceProcess:
    """Return a broker that asks for certificates of clients."""
    broker = broker_factory(
        *("--set", f"ssl.keystore.location={authority.store('broker', '127.0.0.1')}"),
        *("--set", f"ssl.truststore.location={authority.certificate}"),
        *("--set", "ssl.client.auth=required"),
    )
    return broker.start(f"SSL://127.0.0.1:{free_port()}")


def test_every_kind_of_command_gets_in_by_the_file_and_by_properties(
    mutual: TailraceProcess, authority: Authority, tmp_path: Path
) -> None:
    store = authority.pkcs12("alice", "sesame")
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SSL\n"
        f"ssl.truststore.location={authority.certificate}\n"
        f"ssl.keystore.location={store}\n"
        "ssl.keystore.password=sesame\n"
    )
    shown = [mutual.output]

    def run(*words: str, stdin: bytes = b"") -> bytes:
        command = (*words, "--command-config", str(file))
        done = tailrace(*command, stdin=stdin, bootstrap=mutual.bootstrap)
        assert done.returncode == 0, done.stderr.decode()
        shown.append(done.stdout.decode() + done.stderr.decode())
        return done.stdout

    run("produce", "greetings", "-K:", stdin=b"k:hello\n")
    assert run("consume", "greetings", "-G", "readers", "-c", "1") == b"hello\n"
    (group,) = json.loads(run("group", "list", "--json"))
    assert group["group"] == "readers"
    assert "sesame" not in "".join(shown)
    by_librdkafka = {
        "security.protocol": "SSL",
        "ssl.ca.location": authority.certificate,
        "ssl.keystore.location": store,
        "ssl.keystore.password": "sesame",
    }
    options = [word for name, value in by_librdkafka.items() for word in ("-X", f"{name}={value}")]
    output("topic", "list", *options, bootstrap=mutual.bootstrap)
    output("group", "list", *options, bootstrap=mutual.bootstrap)


def test_a_client_that_is_not_trusted_or_trusts_another_is_told_so_at_once(
    mutual: TailraceProcess, authority: Authority, tmp_path: Path
) -> None:
    trusting = ("-X", "security.protocol=SSL", "-X", f"ssl.ca.location={authority.certificate}")
    for command in (("topic", "list"), ("group", "list")):
        done = tailrace(*command, *trusting, bootstrap=mutual.bootstrap)
        # whether the broker's alert comes before the end of its connection is up to the system
        assert done.returncode in (Exit.FAILED, Exit.UNREACHABLE)
        assert b"ssl.keystore.location" in done.stderr
    stranger = Authority(tmp_path / "others")
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SSL\nssl.truststore.location={stranger.certificate}\n")
    words = ("topic", "list", "--command-config", str(file))
    assert "CERTIFICATE_VERIFY_FAILED" in refusal(1, *words, bootstrap=mutual.bootstrap)


class WithUser(NamedTuple):
    broker: TailraceProcess
    at: str
    """Where it asks for a user."""
    authority: Authority

    def properties(self, mechanism: str, password: str) -> str:
        """Return what gets in, in Kafka's names."""
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        return (
            "security.protocol=SASL_SSL\n"
            f"ssl.truststore.location={self.authority.certificate}\n"
            f"sasl.mechanism={mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{module}LoginModule required \\\n"
            f'   username="alice" password="{password}";\n'
        )


@pytest.fixture
def with_user(broker_factory: Callable[..., TailraceProcess], authority: Authority) -> WithUser:
    settings = (
        f"ssl.keystore.location={authority.store('broker', '127.0.0.1')}",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    )
    broker = broker_factory(*(part for each in settings for part in ("--set", each)))
    at = f"127.0.0.1:{free_port()}"
    broker.start(f"PLAINTEXT://127.0.0.1:{free_port()},SASL_SSL://{at}")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        wanted = UserScramCredentialUpsertion(
            "alice", ScramCredentialInfo(mechanism, 4096), b"open, sesame"
        )
        admin.alter_user_scram_credentials([wanted])["alice"].result(30)
    return WithUser(broker, at, authority)


def test_commands_log_in(with_user: WithUser, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    options = ("--command-config", str(file))
    shown = []

    def run(*words: str) -> None:
        done = tailrace(*words, *options, bootstrap=with_user.at, stdin=b"hello\n")
        assert done.returncode == 0, done.stderr.decode()
        shown.append(done.stdout + done.stderr)

    for mechanism, command in (("PLAIN", "topic"), ("SCRAM-SHA-256", "group")):
        file.write_text(with_user.properties(mechanism, "open, sesame"))
        run(command, "list")
    file.write_text(with_user.properties("SCRAM-SHA-512", "open, sesame"))
    run("produce", "greetings")
    run("restore", "greetings", "--verify")
    file.write_text(with_user.properties("SCRAM-SHA-256", "open, simsim"))
    for words in (("topic", "list"), ("group", "list")):
        text = refusal(1, *words, *options, bootstrap=with_user.at)
        assert "the broker refused the log-in: SASL_AUTHENTICATION_FAILED" in text
        shown.append(text.encode())
    output = b"".join(shown).decode() + with_user.broker.output
    assert "sesame" not in output
    assert "simsim" not in output


def test_commands_log_in_by_a_token_in_a_file(
    broker_factory: Callable[..., TailraceProcess], tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set(jwk_of("RS256")))
    settings = (
        "sasl.enabled.mechanisms=OAUTHBEARER",
        f"sasl.oauthbearer.jwks.endpoint.url={keys.as_uri()}",
        "sasl.oauthbearer.expected.issuer=https://issuer.test",
        "sasl.oauthbearer.expected.audience=kafka",
    )
    broker = broker_factory(*(part for each in settings for part in ("--set", each)))
    broker.start(f"SASL_PLAINTEXT://127.0.0.1:{free_port()}")
    file, place = tmp_path / "client.properties", tmp_path / "token"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url={place.as_uri()}\n"
    )
    claims = {"sub": "alice", "iss": "https://issuer.test", "aud": "kafka", "iat": 0}
    good = token("RS256", {**claims, "exp": int(time.time()) + 600})
    place.write_text(good)
    for words in (("topic", "list"), ("group", "list")):
        output(*words, "--command-config", str(file), bootstrap=broker.bootstrap)
    place.write_text(token("RS256", {**claims, "exp": 1}))
    for words in (("topic", "list"), ("group", "list")):
        text = refusal(1, *words, "--command-config", str(file), bootstrap=broker.bootstrap)
        assert "OAUTHBEARER: the server refuses the token" in text
    assert good not in broker.output


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    words = ("topic", "list", "--command-config", str(file))
    assert f"{file}: No such file" in refusal(2, *words)
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=sesame")
    text = refusal(2, *words)
    assert "sasl.jaas.config: the login module is followed by none" in text
    assert "sesame" not in text
    file.write_text("security.protocol=SSL\nssl.enabled.protocols=TLSv1.3")
    assert "ssl.enabled.protocols: librdkafka" in refusal(2, *words)
