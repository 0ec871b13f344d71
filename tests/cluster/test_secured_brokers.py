"""Several brokers that speak TLS to each other, and say who they are, by each mechanism."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.certificates import Authority
from tests.cluster.bank import TELLERS, Teller, check, open_bank
from tests.cluster.several_brokers import create, leaders, seen, until
from tests.cluster.three_bookies import ClusterBroker, ThreeBookies
from tests.ports import free_port
from tests.zookeeper import ZooKeeperServer

pytestmark = [
    pytest.mark.crash,
    pytest.mark.java,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("secured brokers"),  # they share bookies
]

PASSWORD: Final = 'broker "secret"; = 1'
PACKAGE: Final = "org.apache.kafka.common.security"
_WITHIN_S: Final = 120
_PROGRESS: Final = 3
_FEW = ("offsets.topic.num.partitions=4", "transaction.state.log.num.partitions=4")


class Secured(NamedTuple):
    """One broker: clients of the test come without TLS, other brokers do not."""

    broker: ClusterBroker
    listen: str

    def start(self) -> ClusterBroker:
        return self.broker.start(self.listen)


@pytest.fixture(scope="module")
def bookies(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreeBookies]:
    with ThreeBookies(zookeeper, tmp_path_factory.mktemp("bookies")) as cluster:
        yield cluster


@pytest.fixture
def cluster(bookies: ThreeBookies) -> Iterator[ThreeBookies]:
    with bookies.another_namespace():
        yield bookies


def secured(
    cluster: ThreeBookies, authority: Authority, node_id: int, *settings: str, protocol: str
) -> Secured:
    given = (
        f"node.id={node_id}",
        f"security.inter.broker.protocol={protocol}",
        f"ssl.keystore.location={authority.store(f'broker-{node_id}', '127.0.0.1')}",
        f"ssl.truststore.location={authority.certificate}",
        *_FEW,
        *settings,
    )
    broker = cluster.broker(*(part for each in given for part in ("--set", each)))
    ports = free_port(), free_port()
    listen = f"PLAINTEXT://127.0.0.1:{ports[0]},{protocol}://127.0.0.1:{ports[1]}"
    return Secured(broker, listen)


def jaas(module: str, password: str = PASSWORD) -> str:
    escaped = password.replace('"', '\\"')
    return f'sasl.jaas.config={PACKAGE}.{module} required username="broker" password="{escaped}";'


def make_user(broker: ClusterBroker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion("broker", credential, PASSWORD.encode())
    admin.alter_user_scram_credentials([wanted])["broker"].result(30)


def wait_for_progress(tellers: list[Teller]) -> None:
    before = [each.transactions for each in tellers]
    deadline = time.monotonic() + _WITHIN_S
    while any(
        each.transactions < count + _PROGRESS for each, count in zip(tellers, before, strict=True)
    ):
        assert time.monotonic() < deadline, "no progress"
        assert [each.errors for each in tellers] == [[]] * len(tellers)
        time.sleep(0.02)


def work_through_a_kill(brokers: list[Secured]) -> None:
    """Have transactions go over all brokers while one dies and comes back."""
    bootstrap = ",".join(each.broker.bootstrap for each in brokers)
    open_bank(bootstrap)
    seed = random.SystemRandom().randrange(1 << 32)
    tellers = [Teller(bootstrap, number, seed, rest_s=0.05) for number in range(TELLERS)]
    for teller in tellers:
        teller.start()
    wait_for_progress(tellers)
    victim = random.Random(seed).choice(brokers)
    victim.broker.kill()
    victim.start()
    wait_for_progress(tellers)
    for teller in tellers:
        teller.stop()
    check(bootstrap, tellers, f"seed {seed}")


def test_transactions_go_over_brokers_that_log_in_to_each_other(
    cluster: ThreeBookies, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "keys")
    own = (
        jaas("scram.ScramLoginModule"),
        "sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512",
        "connections.max.reauth.ms=2000",
        "ssl.client.auth=required",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:broker;User:ANONYMOUS",
    )
    brokers = [
        secured(cluster, authority, node_id, *own, protocol="SASL_SSL") for node_id in (1, 2, 3)
    ]
    make_user(brokers[0].start())
    for each in brokers[1:]:
        each.start()
    for each in brokers:
        until(lambda at=each: len(seen(at.broker).brokers) == 3)
    work_through_a_kill(brokers)
    shown = "".join(each.broker.output for each in brokers)
    assert PASSWORD not in shown
    assert "secret" not in shown
    assert "does not let this broker in" not in shown
    assert "peer_refuses" not in shown


def test_a_broker_with_a_wrong_password_gets_no_answer_and_says_why(
    cluster: ThreeBookies, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "keys")
    mechanisms = ("sasl.enabled.mechanisms=PLAIN", "sasl.mechanism.inter.broker.protocol=PLAIN")
    first, second = (
        secured(
            cluster,
            authority,
            node_id,
            *mechanisms,
            jaas("plain.PlainLoginModule", password),
            protocol="SASL_SSL",
        )
        for node_id, password in ((1, PASSWORD), (2, "another secret"))
    )
    make_user(first.start())
    second.start()
    until(lambda: len(seen(first.broker).brokers) == 2)
    create(first.broker, replication_factor=1)
    until(lambda: set(leaders(second.broker)) == {1, 2})
    second.broker.wait_for("SASL_AUTHENTICATION_FAILED")  # Metadata asks leaders for their epochs
    assert "another secret" not in first.broker.output + second.broker.output
