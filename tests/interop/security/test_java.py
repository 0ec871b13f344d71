"""Kafka's own clients and tools by every door over TLS, and what their users see elsewhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.interop.kafka.clients import Kafka
from tests.interop.kafka.tools import Tools
from tests.interop.security.doors import DENIED, MAY, TLS_DOORS, TOKEN, USER, Door, SecuredBroker
from tests.java.peers import JavaClient, JavaError
from tests.sasl_broker import java_properties

pytestmark = pytest.mark.java

QUICKLY: Final = {"max.block.ms": 20_000, "delivery.timeout.ms": 20_000, "request.timeout.ms": 9000}


@pytest.fixture(scope="module")
def peer(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    """Kafka 4.3.1; it reads tokens of the files that its JVM may read, and of no others."""
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={secured.jwt_file.as_uri()}"
    log = tmp_path_factory.mktemp("java") / "log"
    running = JavaClient(log, "kafka", "KafkaPeer", jvm=(allowed,))
    yield running
    running.close()


def attempt(secured: SecuredBroker, peer: JavaClient, door: Door) -> str:
    """Write and read in a group; return the error's class, or nothing."""
    clients = Kafka(peer, secured.process, door.bootstrap)
    try:
        with clients.producer(**door.java(), **QUICKLY) as producer:
            producer.send(door.topic, ["value"])
        with clients.consumer(**door.java(), **{"group.id": door.group}) as consumer:
            consumer("subscribe", topics=[door.topic])
            assert consumer.values(1) == ["value"]
            consumer("commit", offsets={f"{door.topic}-0": 1})
    except JavaError as error:
        return error.name
    return ""


@pytest.mark.parametrize("name", [*TLS_DOORS, TOKEN])
def test_records_go_and_come(secured: SecuredBroker, peer: JavaClient, name: str) -> None:
    door = secured.token() if name == TOKEN else secured.door(name)
    assert attempt(secured, peer, door.to(f"{MAY}java-{name}")) == ""


def test_what_may_not_be_ends_in_the_clients_own_words(
    secured: SecuredBroker, peer: JavaClient
) -> None:
    mine, right = f"{MAY}java", secured.door("SCRAM-SHA-512")
    assert attempt(secured, peer, secured.wrong().to(mine)) == "SaslAuthenticationException"
    assert attempt(secured, peer, right.to(DENIED)) == "TopicAuthorizationException"
    assert attempt(secured, peer, right.to(mine, DENIED)) == "GroupAuthorizationException"


@pytest.mark.parametrize("name", [*TLS_DOORS, TOKEN])
def test_console_clients(
    secured: SecuredBroker, peer: JavaClient, tmp_path: Path, name: str
) -> None:
    door = secured.token() if name == TOKEN else secured.door(name)
    config = ["--command-config", str(java_properties(door.java(), tmp_path / "properties"))]
    tools, topic = Tools(peer, secured.process, door.bootstrap), f"{MAY}console-{name}"
    tools("console-producer", *config, "--topic", topic, stdin="one\ntwo\n")
    reading = ["--topic", topic, "--group", topic, "--from-beginning", "--max-messages", "2"]
    read = tools("console-consumer", *config, *reading, "--timeout-ms", "20000")
    assert read.out.splitlines() == ["one", "two"]


def test_the_admin_by_certificate(secured: SecuredBroker, peer: JavaClient, tmp_path: Path) -> None:
    """A user, its quotas and an ACL are made by one that may; the user itself may not."""
    tools = Tools(peer, secured.process, secured.ssl)
    admin, alice = (
        ["--command-config", str(java_properties(door.java(), tmp_path / door.store[-9:]))]
        for door in (secured.admin(), secured.door("mTLS"))
    )
    bob = ["--entity-type", "users", "--entity-name", "bob"]
    made = ["--alter", *bob, "--add-config", "SCRAM-SHA-512=[password=of-bob]"]
    tools("configs", *admin, *made)
    tools("configs", *admin, "--alter", *bob, "--add-config", "producer_byte_rate=1000000")
    described = tools("configs", *admin, "--describe", *bob).out
    assert "SCRAM-SHA-512=iterations=4096" in described
    assert "producer_byte_rate=1000000.0" in described
    acl = ["--topic", "bobs", "--allow-principal", "User:bob", "--producer"]
    tools("acls", *admin, "--add", *acl)
    assert "User:bob" in tools("acls", *admin, "--list", "--topic", "bobs").out
    refused = tools.run("configs", *alice, *made)
    assert refused.code == 1
    assert "ClusterAuthorizationException" in refused.out + refused.err
    refused = tools.run("acls", *alice, "--add", *acl)
    assert "ClusterAuthorizationException" in refused.out + refused.err
    assert USER not in tools("acls", *admin, "--list", "--topic", "bobs").out
