"""A cluster whose ZooKeeper knows its clients: from its begin, and secured while it runs."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient

from tailrace import dlog
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.metadata.zookeeper_acls import ALL, OPEN, WORLD_READ, Grant, ZookeeperAccess
from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig
from tailrace.core.runtime.config import load
from tailrace.core.runtime.config_sources import from_toml
from tailrace.tools.errors import Exit
from tests.bookie_process import BookieUnderTest
from tests.certificates import Authority
from tests.cluster.cli import output, parsed, refusal
from tests.cluster.three_bookies import SESSION_MS, ClusterBroker
from tests.secure_zookeeper import (
    USERS,
    SaslZooKeeper,
    TlsZooKeeper,
    access,
    acls_below,
    settings_file,
)
from tests.server_process import TAILRACE
from tests.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.java

OWN: Final = Grant(ALL, "sasl", "tailrace")
PRIVATE: Final = frozenset({OWN})
READABLE: Final = frozenset({OWN, WORLD_READ})
LEDGERS_MANY: Final = 400


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslZooKeeper]:
    server = SaslZooKeeper(tmp_path_factory.mktemp("sasl") / "zk").start()
    yield server
    server.stop()


class Secured:
    """One bookie and one broker; commands come with `credentials` or without."""

    def __init__(
        self, zookeeper: ZooKeeperServer, path: Path, settings: Path, hosts: str = ""
    ) -> None:
        """`hosts`: where its clients connect, if not where all may."""
        self.zookeeper = zookeeper
        self.root = zookeeper.make_root()
        self.metadata = f"zk://{hosts or zookeeper.hosts}{self.root}/ledgers"
        where = f"{hosts or zookeeper.hosts}{self.root}/messaging/test"
        self.namespace = f"distributedlog://{where}"
        config = ("--config", str(settings))
        timeout = ("--set", f"zkTimeout={SESSION_MS}")
        self.bookie = BookieUnderTest(self.metadata, path / "bookie", *config, *timeout)
        self.broker = ClusterBroker(self.metadata, self.namespace, *config)
        for setting in ("default.replication.factor=1", "offsets.topic.num.partitions=1"):
            self.broker.arguments = (*self.broker.arguments, "--set", setting)

    def start(self) -> None:
        self.bookie.start()
        self.broker.start()

    def close(self) -> None:
        self.broker.close()
        self.bookie.close()

    def acls(self) -> dict[str, frozenset[Grant]]:
        return {
            path.removeprefix(self.root): acl
            for below in ("/ledgers", "/messaging/test")
            for path, acl in acls_below(
                self.zookeeper.hosts, self.root + below, access("super")
            ).items()
        }

    def wanted(self, path: str) -> frozenset[Grant]:
        is_readable = path.startswith("/messaging/test") and "/.tailrace" not in path
        return READABLE if is_readable else PRIVATE

    def greet(self, text: str) -> None:
        output("produce", "greetings", bootstrap=self.broker.bootstrap, stdin=text.encode() + b"\n")

    def heard(self) -> bytes:
        return output("consume", "greetings", "-o", "start", "-e", bootstrap=self.broker.bootstrap)


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What processes are given by `--config`, and commands find in the environment."""
    settings = settings_file(tmp_path / "zookeeper.toml")
    monkeypatch.setenv("TAILRACE_ZOOKEEPER_CONFIG", str(settings))
    return settings


def test_a_cluster_that_is_secured_from_its_begin(
    zookeeper: SaslZooKeeper,
    credentials: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Secured(zookeeper, tmp_path, credentials)
    output("cluster", "init", "--metadata", cluster.metadata)
    try:
        cluster.start()
        output("topic", "create", "greetings", bootstrap=cluster.broker.bootstrap)
        cluster.greet("hello")
        assert cluster.heard() == b"hello\n"
        assert parsed("ledger", "list", "--metadata", cluster.metadata)
        asyncio.run(use_libraries(cluster.namespace))
        user = ("user", "create", "alice", "--namespace", cluster.namespace)
        output(*user, stdin=b"her-password\n")
        acls = cluster.acls()
        assert "/messaging/test/.tailrace/topics/greetings" in acls
        assert any(path.startswith("/messaging/test/.tailrace/users/") for path in acls)
        assert any(path.startswith("/ledgers/00/") for path in acls)
        assert {path: cluster.wanted(path) for path in acls} == acls

        monkeypatch.delenv("TAILRACE_ZOOKEEPER_CONFIG")
        for command in ("ledger list", "cluster show", "cluster secure --dry-run"):
            text = refusal(Exit.FAILED, *command.split(), "--metadata", cluster.metadata)
            assert "ACL" in text or "of others" in text or "belong to others" in text, text
            assert "TAILRACE_ZOOKEEPER_CONFIG" in text or "credentials" in text, text
        stranger = ClusterBroker(cluster.metadata, cluster.namespace)
        text = stranger.refused()
        assert "zookeeper.auth.username" in text
        assert "Traceback" not in text
        text = BookieUnderTest(cluster.metadata, tmp_path / "stranger").refused()
        assert "zookeeper.auth.username" in text
        assert "Traceback" not in text
        everything = cluster.broker.output + cluster.bookie.output + text
        assert USERS["tailrace"] not in everything
    finally:
        cluster.close()


async def use_libraries(namespace: str) -> None:
    """The embedded log and the thin client come with the same settings."""
    own = {"zookeeper.auth.username": "tailrace", "zookeeper.auth.password": USERS["tailrace"]}
    async with dlog.open_namespace(namespace, own) as opened:
        assert "greetings-0" in await opened.list_logs()
    with pytest.raises(dlog.NoAuth):
        await dlog.open_namespace(f"{namespace}/.tailrace")
    async with dlog.ThinClient(namespace, settings=own) as client:
        assert await client.owner("nothing") is None
    wrong = own | {"zookeeper.auth.password": "not-it"}
    with pytest.raises(dlog.AuthFailed):
        await dlog.open_namespace(namespace, wrong)
    with pytest.raises(dlog.AuthFailed):
        await dlog.ThinClient(namespace, settings=wrong)


def test_a_cluster_whose_processes_show_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    server = TlsZooKeeper(tmp_path / "zk", authority).start()
    settings = tmp_path / "zookeeper.toml"
    settings.write_text(
        "zookeeper.set.acl = true\n"
        "zookeeper.ssl.client.enable = true\n"
        f'zookeeper.ssl.keystore.location = "{authority.store("tailrace")}"\n'
        f'zookeeper.ssl.truststore.location = "{authority.certificate}"\n'
    )
    ours = load(ZookeeperSecurityConfig, from_toml(settings)).config
    cluster = Secured(server, tmp_path, settings, server.secure_hosts)
    try:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("TAILRACE_ZOOKEEPER_CONFIG", str(settings))
            output("cluster", "init", "--metadata", cluster.metadata)
            cluster.start()
            output("topic", "create", "greetings", bootstrap=cluster.broker.bootstrap)
            cluster.greet("hello")
            assert cluster.heard() == b"hello\n"
        acls = acls_below(server.secure_hosts, f"{cluster.root}/ledgers", ZookeeperAccess(ours))
        ((owner,),) = set(acls.values())
        assert (owner.permissions, owner.scheme) == (ALL, "x509")
        assert owner.name.startswith("CN=tailrace,")
    finally:
        cluster.close()
        server.stop()


def test_wrong_credentials_are_told_with_a_remedy(
    zookeeper: SaslZooKeeper, credentials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILRACE_ZOOKEEPER_AUTH_PASSWORD", "not-it")
    metadata = f"zk://{zookeeper.hosts}/none"
    text = refusal(Exit.UNREACHABLE, "cluster", "show", "--metadata", metadata)
    assert "refuses user 'tailrace' (sasl)" in text
    assert "TAILRACE_ZOOKEEPER_CONFIG" in text
    assert "not-it" not in text
    namespace = f"distributedlog://{zookeeper.hosts}/messaging/none"
    config = ("--config", str(credentials))
    where = ("--metadata", metadata, "--namespace", namespace)
    text = refusal(Exit.FAILED, "broker", *where, *config)
    assert "refuses user 'tailrace' (sasl)" in text
    assert "zookeeper.auth.password" in text
    assert "not-it" not in text
    shown = output("broker", "--show-config", *config).decode()
    assert "zookeeper.auth.password" in shown
    assert "not-it" not in shown
    assert USERS["tailrace"] not in shown


def many_ledgers(cluster: Secured) -> list[str]:
    """Make nodes as of ledgers that were there before; the walk comes by them last."""
    client = KazooClient(cluster.zookeeper.hosts)
    client.start(30)
    paths = [f"{cluster.root}/ledgers/00/0009/L{number:04d}" for number in range(LEDGERS_MANY)]
    client.ensure_path(f"{cluster.root}/ledgers/00/0009")
    for at in range(0, len(paths), 500):
        transaction = client.transaction()
        for path in paths[at : at + 500]:
            transaction.create(path, b"")
        transaction.commit()
    client.stop()
    client.close()
    return paths


async def until_secured(hosts: str, path: str) -> None:
    store = await ZookeeperStore.connect(hosts, access=access("super"))
    async with asyncio.timeout(30):
        while await store.get_acl(path) == OPEN:
            pass
    await store.close()


@pytest.mark.crash
def test_a_running_cluster_is_secured_and_kill_nine_does_no_harm(
    zookeeper: SaslZooKeeper,
    credentials: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Secured(zookeeper, tmp_path, credentials)
    monkeypatch.delenv("TAILRACE_ZOOKEEPER_CONFIG")
    where = ("--metadata", cluster.metadata, "--namespace", cluster.namespace)
    output("cluster", "init", *where[:2])  # by a command that has no credentials: all is open
    paths = many_ledgers(cluster)
    monkeypatch.setenv("TAILRACE_ZOOKEEPER_CONFIG", str(credentials))
    try:
        cluster.start()
        output("topic", "create", "greetings", bootstrap=cluster.broker.bootstrap)
        cluster.greet("before")
        seen = parsed("cluster", "secure", *where, "--dry-run")
        assert seen[0]["open_to_the_world"] > LEDGERS_MANY

        command = [str(TAILRACE), "cluster", "secure", *where]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as killed:
            asyncio.run(until_secured(zookeeper.hosts, paths[-1]))
            assert killed.poll() is None, "it was over at once"
            killed.kill()
        cluster.greet("between")

        first = parsed("cluster", "secure", *where)
        assert 0 < first[0]["secured"] <= LEDGERS_MANY
        again = parsed("cluster", "secure", *where)
        assert [each["secured"] for each in again] == [0, 0]
        assert [each["nodes"] for each in again] >= [LEDGERS_MANY, 10]
        cluster.greet("after")
        assert cluster.heard() == b"before\nbetween\nafter\n"
        acls = cluster.acls()
        assert {path: cluster.wanted(path) for path in acls} == acls

        opened = parsed("cluster", "secure", *where, "--open")
        assert opened[0]["opened"] == again[0]["nodes"]
        assert set(cluster.acls().values()) == {frozenset(OPEN)}
        cluster.greet("open")
    finally:
        cluster.close()
