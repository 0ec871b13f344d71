"""Access control lists on real brokers: by a client's admin, over kills, between two brokers."""

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.create_acls import AclCreation
from tests.cluster.acl_requests import (
    AS_SUPER_USER,
    DECIDES,
    DESCRIBES_CLUSTER,
    READS,
    create,
    delete,
    described,
)
from tests.cluster.cli import tailrace
from tests.cluster.raw import Closed, RawClient
from tests.cluster.several_brokers import until
from tests.cluster.three_bookies import ClusterBroker
from tests.process import TailraceProcess
from tests.zookeeper import ZooKeeperServer

ANY = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


def bound(
    name: str, kind: ResourcePatternType, principal: str, permission: AclPermissionType
) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, kind, principal, "*", AclOperation.READ, permission)


def test_confluent_kafka_creates_describes_and_deletes(
    broker_factory: Callable[..., TailraceProcess],
) -> None:
    broker = broker_factory(*AS_SUPER_USER).start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    acls = {
        bound("orders", literal, "User:alice", AclPermissionType.ALLOW),
        bound("ord", prefixed, "User:*", AclPermissionType.DENY),
    }
    assert [each.result(60) for each in admin.create_acls(list(acls)).values()] == [None, None]
    assert set(admin.describe_acls(ANY).result(60)) == acls
    of_alice = AclBindingFilter(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.MATCH,
        "User:alice",
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    (gone,) = admin.delete_acls([of_alice]).values()
    (left,) = acls - set(gone.result(60))
    assert left.name == "ord"
    assert admin.describe_acls(ANY).result(60) == [left]
    wrong = AclBinding(
        ResourceType.BROKER,  # which is CLUSTER
        "another",
        literal,
        "User:alice",
        "*",
        AclOperation.ALTER,
        AclPermissionType.ALLOW,
    )
    with pytest.raises(KafkaException, match="only valid name for the CLUSTER resource"):
        admin.create_acls([wrong])[wrong].result(60)


def batch(number: int) -> list[AclCreation]:
    """Return ACLs of seven patterns, one of which all batches share."""
    principal = f"User:{number}"
    names = ("shared", *(f"{letter}-{number}" for letter in "abcdef"))
    return [replace(READS, resource_name=name, principal=principal) for name in names]


class Changing:
    """Creates batches and deletes every other one, until the broker dies; knows what is owed."""

    def __init__(self) -> None:
        self.there: set[int] = set()
        """Whose creation was answered, and no deletion asked for."""
        self.unknown: int | None = None
        """The one that was being changed."""
        self._numbers = iter(range(1_000_000))

    def run(self, broker: TailraceProcess, kill: Callable[[], None], after_s: float) -> None:
        """Change until the broker is killed, some time after the first answer."""
        with RawClient(broker) as client:
            killer = threading.Timer(after_s, kill)
            killer.start()
            try:
                while True:
                    self._change(client, next(self._numbers))
            except Closed:
                killer.join()

    def _change(self, client: RawClient, number: int) -> None:
        self.unknown = number
        create(client, *batch(number))
        self.there.add(number)
        if number % 2:
            self.there.discard(number)
            delete(client, *batch(number))

    def check(self, broker: TailraceProcess) -> None:
        """Check what is there: all that was answered, and of the last change all or nothing."""
        with RawClient(broker) as client:
            found = described(client)
        assert isinstance(found, list)
        numbers = {int(principal.partition(":")[2]) for _, principal in found}
        whole = [(acl.resource_name, acl.principal) for number in numbers for acl in batch(number)]
        assert found == sorted(whole)
        assert numbers - {self.unknown} == self.there - {self.unknown}
        self.there = numbers


@pytest.mark.crash
def test_a_kill_leaves_each_change_whole_or_not_made(
    broker_factory: Callable[..., TailraceProcess],
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    broker = broker_factory(*AS_SUPER_USER).start()
    changing = Changing()
    for _ in range(4):
        changing.run(broker, broker.kill, 0.02 + moments.random() * 0.2)
        broker.restart()
        changing.check(broker)
    assert changing.there, f"seed {seed}"


@pytest.fixture
def pair(zookeeper: ZooKeeperServer) -> Iterator[list[ClusterBroker]]:
    """Two brokers of one cluster, which needs no bookies for this; only one has a super user."""
    root = zookeeper.make_root()
    metadata = f"zk://{zookeeper.hosts}{root}/ledgers"
    namespace = f"distributedlog://{zookeeper.hosts}{root}/messaging/test"
    assert tailrace("cluster", "init", "--metadata", metadata).returncode == 0
    settings = (AS_SUPER_USER, DECIDES)
    brokers = [
        ClusterBroker(metadata, namespace, "--set", f"node.id={number}", *given)
        for number, given in enumerate(settings, 1)
    ]
    try:
        yield [broker.start() for broker in brokers]
    finally:
        for broker in brokers:
            broker.close()


@pytest.mark.java
def test_what_one_broker_changes_the_other_goes_by(pair: list[ClusterBroker]) -> None:
    """Also on a connection that is open, and over a loss of the other one."""
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    first, second = pair
    with RawClient(first) as mine:
        with RawClient(second) as theirs:
            for _ in range(3):
                assert described(theirs) == denied
                create(mine, DESCRIBES_CLUSTER)
                until(lambda: described(theirs) == described(mine))
                delete(mine, DESCRIBES_CLUSTER)
                until(lambda: described(theirs) == denied)
        second.kill()
        create(mine, DESCRIBES_CLUSTER, READS)
        second.restart()
        with RawClient(second) as theirs:
            assert described(theirs) == described(mine)
