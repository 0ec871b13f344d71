"""`tailrace namespace` against a real ZooKeeper."""

import asyncio

import pytest

from tailrace.core.metadata.namespace_binding import BKDLConfig, decode_binding
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.tools.errors import Exit
from tests.cluster.cli import output, parsed, refusal
from tests.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.java


class Place:
    """A cluster, and where a namespace may be bound to it."""

    def __init__(self, zookeeper: ZooKeeperServer) -> None:
        self.hosts, self.root = zookeeper.hosts, zookeeper.make_root()
        self.metadata = f"zk://{self.hosts}{self.root}/ledgers"
        self.uri = f"distributedlog-bk://{self.hosts}{self.root}/messaging/ns"
        output("cluster", "init", "--metadata", self.metadata)

    def options(self) -> list[str]:
        return ["--namespace", self.uri, "--metadata", self.metadata]

    def data(self, path: str = "/messaging/ns") -> bytes:
        """What the node of the namespace holds."""

        async def read() -> bytes:
            store = await ZookeeperStore.connect(self.hosts)
            try:
                return (await store.get(self.root + path)).data
            finally:
                await store.close()

        return asyncio.run(read())


@pytest.fixture
def place(zookeeper: ZooKeeperServer) -> Place:
    return Place(zookeeper)


def test_bind_info_unbind(place: Place) -> None:
    assert "not bound" in refusal(Exit.FAILED, "namespace", "info", "-n", place.uri)
    assert b"is now bound" in output("namespace", "bind", *place.options())
    assert decode_binding(place.data()) == BKDLConfig(
        bk_zk_servers=place.hosts,
        bk_ledgers_path=f"{place.root}/ledgers",
        bk_zk_servers_for_reader=place.hosts,
        dl_zk_servers_for_writer=place.hosts,
        dl_zk_servers_for_reader=place.hosts,
    )
    assert b"was already bound" in output("namespace", "bind", *place.options())
    info = parsed("namespace", "info", "-n", place.uri)
    assert info["namespace"] == f"distributedlog://{place.hosts}{place.root}/messaging/ns"
    assert (info["bound_at"], info["logs"]) == (f"{place.root}/messaging/ns", 0)
    output("log", "create", "a", "b", "-n", place.uri)
    text = output("namespace", "info", "-n", f"{place.uri}").decode()
    assert [line.split() for line in text.splitlines()][-1] == ["logs", "2"]
    below = parsed("namespace", "info", "-n", f"{place.uri}/below")
    assert (below["bound_at"], below["logs"]) == (f"{place.root}/messaging/ns", 0)
    assert "not bound" not in refusal(Exit.FAILED, "namespace", "unbind", "-n", place.uri)
    assert b"not bound" not in place.data()
    output("namespace", "unbind", "--yes", "-n", place.uri)
    assert place.data() == b""
    assert "not bound" in refusal(Exit.FAILED, "log", "list", "-n", place.uri)
    output("namespace", "bind", *place.options())
    assert parsed("log", "list", "-n", place.uri) == ["a", "b"]


def test_another_binding_is_kept_unless_forced(place: Place) -> None:
    output("namespace", "bind", *place.options())
    before = place.data()
    other = ["namespace", "bind", *place.options(), "--encode-region-id", "--first-segment", "5"]
    assert "another binding" in refusal(Exit.FAILED, *other)
    assert place.data() == before
    output(*other, "--force", "--reader-servers", "zk:1")
    bound = decode_binding(place.data())
    assert (bound.encode_region_id, bound.first_log_segment_seq_no) == (True, 5)
    assert bound.bk_zk_servers_for_reader == "zk:1"


def test_what_cannot_be_bound_is_refused(place: Place) -> None:
    nowhere = f"zk://{place.hosts}{place.root}/none"
    text = refusal(Exit.FAILED, "namespace", "bind", "-n", place.uri, "-m", nowhere)
    assert "there is no cluster" in text
    assert "cluster init" in text
    for uri in ("zk://h:1/ns", "distributedlog://h:1", "sqlite:x"):
        code = Exit.FAILED if uri.startswith("sqlite") else Exit.USAGE
        refusal(code, "namespace", "bind", "-n", uri, "-m", place.metadata)
    refusal(Exit.UNREACHABLE, "namespace", "info", "-n", "distributedlog://127.0.0.1:1/ns")


def test_a_federated_namespace_is_shown_and_not_opened(place: Place) -> None:
    async def bind() -> None:
        from tailrace.core.metadata.bindings import bind_namespace

        store = await ZookeeperStore.connect(place.hosts)
        config = BKDLConfig(bk_zk_servers="z:1", bk_ledgers_path="/l", federated_namespace=True)
        await bind_namespace(store, f"{place.root}/messaging/ns", config)
        await store.close()

    asyncio.run(bind())
    assert parsed("namespace", "info", "-n", place.uri)["federated_namespace"] is True
    text = refusal(Exit.FAILED, "log", "list", "-n", place.uri)
    assert "federated namespaces are not supported" in text
