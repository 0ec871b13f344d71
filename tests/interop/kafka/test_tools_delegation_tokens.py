"""kafka-delegation-tokens, and Java clients that log in with what it makes."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.interop.kafka.clients import Kafka
from tests.interop.kafka.tools import Tools
from tests.java.peers import JavaClient, JavaError
from tests.ports import free_port
from tests.process import TailraceProcess
from tests.unit.core.access.oauth.issuer import jwk_of, key_set, token

pytestmark = [pytest.mark.interop, pytest.mark.java]

WITHIN_S: Final = 30
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
BEARER: Final = f"{PACKAGE}.OAuthBearerLoginModule"
ALLOWED: Final = "org.apache.kafka.sasl.oauthbearer.allowed"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TailraceProcess]:
    """A broker whose first listener asks for SASL; alice and bob are its users."""
    folder = tmp_path_factory.mktemp("secured")
    keys = folder / "keys.json"
    keys.write_bytes(key_set(jwk_of("RS256")))
    given = (
        "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "delegation.token.secret.key=the secret of the cluster's tokens",
        f"sasl.oauthbearer.jwks.endpoint.url={keys.as_uri()}",
    )
    broker = TailraceProcess(folder / "data", *(part for each in given for part in ("--set", each)))
    open_to_all = f"127.0.0.1:{free_port()}"
    broker.start(f"SASL_PLAINTEXT://127.0.0.1:{free_port()},PLAINTEXT://{open_to_all}")
    try:
        admin = AdminClient({"bootstrap.servers": open_to_all})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        for user in ("alice", "bob"):
            made = [UserScramCredentialUpsertion(user, info, user.encode())]
            admin.alter_user_scram_credentials(made)[user].result(WITHIN_S)
        yield broker
    finally:
        broker.close()


def scram(
    user: str, password: str, mechanism: str = "SCRAM-SHA-256", more: str = ""
) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{SCRAM} required username="{user}" password="{password}" {more};',
    }


def saved(folder: Path, user: str) -> Path:
    file = folder / f"{user}.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in scram(user, user).items()))
    return file


def written(clients: Kafka, topic: str, settings: dict[str, Any]) -> str:
    """Write a record; return the error that kept the client from it, or nothing."""
    try:
        with clients.producer(**settings, **{"max.block.ms": 10_000}) as producer:
            assert len(producer.send(topic, ["value"])) == 1
    except JavaError as error:
        return str(error)
    return ""


def test_tokens_by_kafkas_tool(
    kafka_4: JavaClient, secured: TailraceProcess, tmp_path: Path
) -> None:
    tools, clients = Tools(kafka_4, secured), Kafka(kafka_4, secured)

    def run(user: str, *arguments: str) -> list[list[str]]:
        config = ["--command-config", str(saved(tmp_path, user))]
        return tools("delegation-tokens", *config, *arguments).rows

    create = ["--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"]
    token_id, key, owner, requester, renewers, *_ = run("alice", *create)[-1]
    assert (owner, requester, renewers) == ("User:alice", "User:alice", "[User:bob]")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        bearer = scram(token_id, key, mechanism, 'tokenauth="true"')
        assert not written(clients, "of-tokens", bearer)
    describe = ["--describe", "--owner-principal", "User:alice"]  # without, Kafka shows none
    (shown,) = (row for row in run("bob", *describe) if row[0] == token_id)
    assert shown[1] == key
    renewed = run("bob", "--renew", "--renew-time-period", "3600000", "--hmac", key)
    assert "Completed renew operation" in " ".join(renewed[-1])
    by_token = tmp_path / "token.properties"
    by_token.write_text("".join(f"{name}={value}\n" for name, value in bearer.items()))
    refused = tools.run("delegation-tokens", "--command-config", str(by_token), *create)
    assert refused.code != 0
    assert "Delegation Token requests are not allowed" in refused.out + refused.err
    run("alice", "--expire", "--expiry-time-period", "-1", "--hmac", key)
    assert not any(row[0] == token_id for row in run("bob", *describe))
    assert "SaslAuthenticationException" in written(clients, "of-tokens", bearer)


def test_a_bearer_token_from_a_file(
    kafka_4: JavaClient, secured: TailraceProcess, tmp_path: Path
) -> None:
    """As Kafka's client reads one that a sidecar renews; it looks into it itself."""
    file = tmp_path / "token.jwt"
    now_s = int(time.time())
    kafka_4.call("property", name=f"{ALLOWED}.files", value=str(file))
    kafka_4.call("property", name=f"{ALLOWED}.urls", value=file.as_uri())
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.FileJwtRetriever",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
        "sasl.jaas.config": f"{BEARER} required;",
    }
    file.write_text(token("RS256", {"sub": "alice", "iat": now_s, "exp": now_s + 600}))
    assert not written(Kafka(kafka_4, secured), "of-bearers", settings)
    file.write_text(token("PS256", {"sub": "alice", "iat": now_s, "exp": now_s + 600}))
    forged = {**settings, "client.id": "forged", "sasl.login.refresh.min.period.seconds": 1}
    assert "invalid_token" in written(Kafka(kafka_4, secured), "of-bearers", forged)


def test_tokens_without_a_signature_let_nobody_in(
    kafka_4: JavaClient, secured: TailraceProcess
) -> None:
    """What Kafka's client makes by itself, for development: `alg` is `none`."""
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{BEARER} required unsecuredLoginStringClaim_sub="alice";',
    }
    failed = written(Kafka(kafka_4, secured), "of-tokens", settings)
    assert "SaslAuthenticationException" in failed
    assert '{"status":"invalid_token"}' in failed
    secured.wait_for("token refused: it is not a signed token of three parts")
