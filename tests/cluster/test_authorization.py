"""What users may do on a real broker, as their own clients see it, and what the audit log says."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import GroupAuthorizationFailedError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.cluster.acl_requests import AS_SUPER_USER
from tests.ports import free_port
from tests.process import TailraceProcess

WITHIN_S: Final = 30
LONG_POLL_MS: Final = 240_000
PASSWORD: Final = "not to be seen"
ITSELF: Final = ConfigResource(ConfigResource.Type.BROKER, "1")
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


class Guarded(NamedTuple):
    """A broker at which alice logs in, and administrators need not."""

    broker: TailraceProcess
    sasl: str
    audit: Path
    admin: AdminClient

    def alice(self, **settings: Any) -> dict[str, Any]:
        """Return her settings for librdkafka."""
        return {
            "bootstrap.servers": self.sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }

    def allow(self, *grants: tuple[ResourceType, str, AclOperation]) -> None:
        acls = [
            AclBinding(
                kind, name, ResourcePatternType.LITERAL, "User:alice", "*", operation,
                AclPermissionType.ALLOW,
            )
            for kind, name, operation in grants
        ]  # fmt: skip
        for each in self.admin.create_acls(acls).values():
            each.result(WITHIN_S)

    def take(self, kind: ResourceType, name: str, operation: AclOperation) -> None:
        which = AclBindingFilter(
            kind, name, ResourcePatternType.LITERAL, "User:alice", "*", operation,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        (deleted,) = self.admin.delete_acls([which]).values()
        assert len(deleted.result(WITHIN_S)) == 1


@pytest.fixture
def guarded(broker_factory: Callable[..., TailraceProcess], tmp_path: Path) -> Guarded:
    """Start a broker with an authorizer, a user, and topics `hers` and `theirs`."""
    audit = tmp_path / "audit.log"
    given = ("sasl.enabled.mechanisms=SCRAM-SHA-256", f"audit.log={audit}")
    broker = broker_factory(*AS_SUPER_USER, *(part for each in given for part in ("--set", each)))
    plain, sasl = (f"127.0.0.1:{free_port()}" for _ in range(2))
    broker.start(f"PLAINTEXT://{plain},SASL_PLAINTEXT://{sasl}")
    it = Guarded(broker, sasl, audit, AdminClient({"bootstrap.servers": plain}))
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion("alice", credential, PASSWORD.encode())
    it.admin.alter_user_scram_credentials([upsertion])["alice"].result(WITHIN_S)
    for each in it.admin.create_topics([NewTopic(n, 1) for n in ("hers", "theirs")]).values():
        each.result(WITHIN_S)
    return it


def written(settings: dict[str, Any], topic: str) -> str:
    """Write a record; return the name of what went wrong, or nothing."""
    outcome: list[KafkaError | None] = []
    producer = Producer(settings)
    producer.produce(topic, b"x", on_delivery=lambda error, _: outcome.append(error))
    assert producer.flush(WITHIN_S) == 0
    (error,) = outcome
    return "" if error is None else error.name()


def test_a_user_does_what_it_may_and_sees_no_more(guarded: Guarded) -> None:
    assert written(guarded.alice(), "hers") == "TOPIC_AUTHORIZATION_FAILED"
    guarded.allow((TOPIC, "hers", WRITE))
    assert written(guarded.alice(), "hers") == ""
    assert written(guarded.alice(), "theirs") == "TOPIC_AUTHORIZATION_FAILED"
    assert written(guarded.alice(), "new") == "TOPIC_AUTHORIZATION_FAILED"
    hers = AdminClient(guarded.alice())
    assert set(hers.list_topics(timeout=WITHIN_S).topics) == {"hers"}
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        hers.create_topics([NewTopic("new", 1)])["new"].result(WITHIN_S)
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        hers.describe_configs([ITSELF])[ITSELF].result(WITHIN_S)
    assert {*guarded.admin.list_topics(timeout=WITHIN_S).topics} >= {"hers", "theirs"}
    guarded.broker.stop()
    noted = [json.loads(line) for line in guarded.audit.read_text().splitlines()]
    assert {each["result"] for each in noted} == {"DENIED"}
    assert ("User:alice", "Metadata", "DESCRIBE", "theirs") in {
        (each["principal"], each["api"], each["operation"], each["name"]) for each in noted
    }
    assert PASSWORD not in guarded.audit.read_text() + guarded.broker.output


def test_a_consumer_in_a_long_poll_hears_that_it_may_not_read_any_more(guarded: Guarded) -> None:
    guarded.allow((TOPIC, "hers", READ), (TOPIC, "hers", WRITE), (GROUP, "g", READ))
    settings = guarded.alice(
        group_id="g",
        auto_offset_reset="earliest",
        fetch_wait_max_ms=LONG_POLL_MS,
        socket_timeout_ms=LONG_POLL_MS + 30_000,
    )
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("hers", 0, 0)])
    try:
        assert written(guarded.alice(), "hers") == ""
        record = consumer.poll(WITHIN_S)
        assert record is not None
        assert record.error() is None  # the next fetch waits for what comes
        guarded.take(TOPIC, "hers", READ)
        refused = consumer.poll(WITHIN_S)
        assert refused is not None
        error = refused.error()
        assert error is not None
        assert error.name() == "TOPIC_AUTHORIZATION_FAILED"
    finally:
        consumer.close()


def test_a_member_whose_group_is_taken_away_hears_it_by_its_heartbeat(guarded: Guarded) -> None:
    guarded.allow((TOPIC, "hers", READ), (GROUP, "g", READ))

    async def story() -> None:
        consumer = AIOKafkaConsumer(
            "hers",
            bootstrap_servers=guarded.sasl,
            group_id="g",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_plain_username="alice",
            sasl_plain_password=PASSWORD,
            heartbeat_interval_ms=100,
        )
        await consumer.start()
        try:
            assert consumer.assignment()
            guarded.take(GROUP, "g", READ)
            with pytest.raises(GroupAuthorizationFailedError):
                async with asyncio.timeout(WITHIN_S):
                    await consumer.getone()
        finally:
            await consumer.stop()

    asyncio.run(story())
