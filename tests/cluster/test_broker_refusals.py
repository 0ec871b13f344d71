"""What `tailrace broker` says when it cannot start: cause, place, remedy, and no traceback."""

import asyncio

import pytest

from tailrace.core.metadata.bindings import bind_namespace
from tailrace.core.metadata.namespace_binding import BKDLConfig
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.tools.errors import Exit
from tests.cluster.cli import output, refusal, tailrace
from tests.ports import free_port
from tests.zookeeper import ZooKeeperServer


def test_help_and_settings_name_what_there_is() -> None:
    text = output("broker", "--help").decode()
    for option in ("--metadata", "--namespace", "--listen", "--advertise", "--show-config"):
        assert option in text
    settings = output("broker", "--show-config").decode()
    for name in (
        "default.replication.factor",
        "zkSessionTimeout",
        "speculativeReadTimeout",
        "ensemblePlacementPolicy",
        "bookieHealthCheckEnabled",
        "bookieRequestTimeoutMs",
    ):
        assert name in settings


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--metadata", "http://h:1/ledgers"), "neither zk://"),
        (("--metadata", "sqlite:x.db"), "must name a ZooKeeper"),
        (("--metadata", "zk://h:99999/ledgers"), "is not HOST:PORT"),
        (("--namespace", "zk://h:1/messaging"), "neither distributedlog://"),
        (("--namespace", "sqlite:x.db"), "must name a ZooKeeper"),
        (("--namespace", "distributedlog://h:1"), "own root"),
        (("--set", "bkcWriteQuorumSize=3", "--set", "bkcEnsembleSize=3"), "default.replication"),
        (("--set", "ledgersPath=/l"), "leave it unset"),
        (("--set", "zkSessionTimeout=0"), "must be positive"),
        (("--set", "zkSesionTimeout=1"), "did you mean zkSessionTimeout?"),
        (("--listen", "a:b"), "--listen"),
    ],
)
def test_a_bad_setting_is_refused_before_anything_is_asked(
    arguments: tuple[str, ...], words: str
) -> None:
    text = refusal(Exit.USAGE, "broker", *arguments)
    assert words in text
    assert "try:" in text


def test_no_zookeeper() -> None:
    port = free_port()
    uris = f"zk://127.0.0.1:{port}/ledgers", f"distributedlog://127.0.0.1:{port}/messaging/n"
    text = refusal(
        *(Exit.FAILED, "broker", "--metadata", uris[0], "--namespace", uris[1]),
        *("--set", "zkSessionTimeout=500"),
    )
    assert f"is ZooKeeper running at {uris[0]}?" in text


@pytest.mark.java
def test_no_cluster_is_refused_and_nothing_is_bound(zookeeper: ZooKeeperServer) -> None:
    root = zookeeper.make_root()
    metadata, namespace = uris(zookeeper, root, "ledgers")
    for _ in range(2):
        text = refusal(Exit.FAILED, "broker", "--metadata", metadata, "--namespace", namespace)
        assert f"there is no cluster at {root}/ledgers" in text
        assert f"tailrace cluster init --metadata {metadata}" in text


@pytest.mark.java
def test_a_namespace_of_other_ledgers(zookeeper: ZooKeeperServer) -> None:
    root = zookeeper.make_root()
    metadata, namespace = uris(zookeeper, root, "ledgers")
    output("cluster", "init", "--metadata", metadata)
    asyncio.run(bind(zookeeper, f"{root}/messaging/n", f"{root}/ledgers"))
    other, _ = uris(zookeeper, root, "others")
    output("cluster", "init", "--metadata", other)
    text = refusal(Exit.FAILED, "broker", "--metadata", other, "--namespace", namespace)
    assert f"is bound to {root}/ledgers" in text
    assert "another --namespace" in text


@pytest.mark.java
def test_an_address_in_use(zookeeper: ZooKeeperServer) -> None:
    root = zookeeper.make_root()
    metadata, namespace = uris(zookeeper, root, "ledgers")
    output("cluster", "init", "--metadata", metadata)
    done = tailrace(
        *("broker", "--metadata", metadata, "--namespace", namespace),
        *("--listen", zookeeper.hosts),
    )
    assert done.returncode == Exit.FAILED
    assert f"check that PLAINTEXT://{zookeeper.hosts} is free" in done.stderr.decode()


async def bind(zookeeper: ZooKeeperServer, namespace: str, ledgers: str) -> None:
    store = await ZookeeperStore.connect(zookeeper.hosts)
    try:
        binding = BKDLConfig(bk_zk_servers=zookeeper.hosts, bk_ledgers_path=ledgers)
        await bind_namespace(store, namespace, binding)
    finally:
        await store.close()


def uris(zookeeper: ZooKeeperServer, root: str, ledgers: str) -> tuple[str, str]:
    """Return where the ledgers are, and a namespace beside them."""
    return (
        f"zk://{zookeeper.hosts}{root}/{ledgers}",
        f"distributedlog://{zookeeper.hosts}{root}/messaging/n",
    )
