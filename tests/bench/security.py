"""What security costs: records over TLS, log-ins by SCRAM, a thousand access control lists.

Both brokers have the same certificate, users, lists and clients. Over PLAINTEXT the same loads run
with lists and without: the lists do not decide by themselves (a client that none is for may do
everything), they have to be looked through.
"""

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.bench.brokers import Kind, Running, started
from tests.bench.workloads import Produce, client, produce_and_consume, warm_up
from tests.certificates import Authority

LOADS = (Produce(16_384, 1024, 6), Produce(1_000_000, 1024, 6))
LOG_INS = 1000
ACLS = 1000
WITHIN_S = 60
_PASSWORDS = (f"password-{number}" for number in count())

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}

_KAFKAS_OWN = {
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    )
}
"""What it asks for although it says nothing."""


def measure(
    kind: Kind, folder: Path, seconds: float, warm_s: float, steps: Callable[[str], None]
) -> dict[str, float]:
    """Run everything once against one kind of broker."""
    authority = Authority(folder / "keys")
    password = next(_PASSWORDS)
    store = authority.pkcs12("broker", password, "127.0.0.1", "localhost")
    keys = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": password,
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    if kind.is_kafka:
        keys |= _KAFKAS_OWN
    figures: dict[str, float] = {}
    with started(kind, folder, settings=keys, protocols=("SSL", "SASL_PLAINTEXT")) as broker:
        over_tls = broker.by("SSL", {"ssl.ca.location": str(authority.certificate)})
        warm_up(over_tls, warm_s)
        steps(f"{kind.name}: warm")
        figures |= _records(over_tls, "SSL", seconds, steps)
        figures |= _records(broker, "PLAINTEXT", seconds, steps)
        figures |= _log_ins(broker, steps)
    with started(kind, folder, settings=AUTHORIZED) as broker:
        warm_up(broker, warm_s / 2)
        _give_acls(broker)
        figures |= _records(broker, f"PLAINTEXT, {ACLS} ACLs", seconds, steps)
    return figures


def _records(
    broker: Running, how: str, seconds: float, steps: Callable[[str], None]
) -> dict[str, float]:
    found: dict[str, float] = {}
    for load in LOADS:
        found |= produce_and_consume(broker, load, seconds)
    steps(f"{broker.name}: {how}")
    return {f"{how}: {name}": value for name, value in found.items()}


def _log_ins(broker: Running, steps: Callable[[str], None]) -> dict[str, float]:
    """Log a user in again and again, of a client of its own each time."""
    password = next(_PASSWORDS)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion("alice", info, password.encode())
    for future in admin.alter_user_scram_credentials([upsertion]).values():
        future.result(WITHIN_S)
    settings: Mapping[str, str] = {
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": password,
    }
    secured = broker.by("SASL_PLAINTEXT", settings)
    client("log_ins", count=LOG_INS // 10, **secured.address)  # for the JVM's compiler
    before = broker.cpu_s()
    client("log_ins", count=LOG_INS, **secured.address)
    steps(f"{broker.name}: log-ins")
    return {f"{LOG_INS} log-ins by SCRAM-SHA-256, CPU s": broker.cpu_s() - before}


def _give_acls(broker: Running) -> None:
    """Allow and deny what is not asked for: lists of other topics, users, prefixes and hosts."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    kinds = (ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED)
    acls = [
        AclBinding(
            ResourceType.TOPIC,
            f"other-{number}",
            kinds[number % 2],
            f"User:user-{number % 100}",
            "*" if number % 3 else f"10.0.0.{number % 250}",
            AclOperation.READ if number % 4 else AclOperation.WRITE,
            AclPermissionType.ALLOW if number % 5 else AclPermissionType.DENY,
        )
        for number in range(ACLS)
    ]
    for future in admin.create_acls(acls).values():
        future.result(WITHIN_S)
