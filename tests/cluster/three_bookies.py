"""A cluster from the command line: ZooKeeper, bookies, brokers, each in a process of its own."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from kazoo.client import KazooClient

from tailrace.broker.cluster.names import stream_name
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.core.metadata.layout import LogPaths
from tests.bookie_process import BookieUnderTest
from tests.cluster.cli import tailrace
from tests.cluster.load import PARTITIONS
from tests.ports import free_port
from tests.process import TailraceProcess
from tests.zookeeper import ZooKeeperServer

SESSION_MS: Final = 2_000
"""So that what a killed process leaves behind in ZooKeeper goes soon."""


_GONE_WITHIN_S: Final = 30


class ClusterBroker(TailraceProcess):
    """`tailrace broker`, which keeps nothing of its own on disk."""

    def __init__(self, metadata: str, namespace: str, *arguments: str) -> None:
        super().__init__(Path(), "--set", f"zkSessionTimeout={SESSION_MS}", *arguments)
        self.metadata = metadata
        self.namespace = namespace
        self._listen = f"127.0.0.1:{free_port()}"

    def start(self, listen: str = "") -> Self:
        return super().start(listen or self._listen)

    def refused(self, listen: str = "") -> str:
        return super().refused(listen or self._listen)

    def role(self) -> list[str]:
        return ["broker", "--metadata", self.metadata, "--namespace", self.namespace]


class ThreeBookies:
    """A cluster with three bookies; brokers are made and started by the test."""

    def __init__(
        self, zookeeper: ZooKeeperServer, folder: Path, bookie_arguments: Sequence[str] = ()
    ) -> None:
        """`bookie_arguments`: more of each bookie's command."""
        root = zookeeper.make_root()
        self._bookie_arguments = bookie_arguments
        self.zookeeper = zookeeper
        self.metadata = f"zk://{zookeeper.hosts}{root}/ledgers"
        self.namespace_root = f"{root}/messaging/test"
        self.namespace = f"distributedlog://{zookeeper.hosts}{self.namespace_root}"
        self._folder = folder
        self._root = root
        self._namespaces = 0
        self.bookies = [self._bookie(n) for n in range(3)]
        self.brokers: list[ClusterBroker] = []

    def add_bookie(self) -> None:
        """Start one more."""
        self.bookies.append(self._bookie(len(self.bookies)))
        self.bookies[-1].start()

    def _bookie(self, number: int) -> BookieUnderTest:
        data = self._folder / f"bookie-{number}"
        more = ("--set", f"zkTimeout={SESSION_MS}", *self._bookie_arguments)
        return BookieUnderTest(self.metadata, data, *more)

    def broker(self, *arguments: str, zookeeper: str = "") -> ClusterBroker:
        """Return a broker of the cluster that is not started yet.

        `zookeeper`: another way to the metadata store, that the test can cut.
        """
        way = zookeeper or self.zookeeper.hosts
        metadata, namespace = (
            uri.replace(self.zookeeper.hosts, way) for uri in (self.metadata, self.namespace)
        )
        made = ClusterBroker(metadata, namespace, *arguments)
        self.brokers.append(made)
        return made

    @contextmanager
    def another_namespace(self) -> Iterator[Self]:
        """Have brokers of their own for a test, on the same bookies; they end with the block."""
        self._namespaces += 1
        self.namespace_root = f"{self._root}/messaging/test-{self._namespaces}"
        self.namespace = f"distributedlog://{self.zookeeper.hosts}{self.namespace_root}"
        try:
            yield self
        finally:
            for broker in self.brokers:
                broker.close()
            self.brokers.clear()

    def wait_until_gone(self, node_id: int = 1) -> None:
        """Return once ZooKeeper has dropped a broker's registration, and so its session."""
        gone = threading.Event()
        path = ClusterPaths.of_namespace(self.namespace_root).broker(node_id)
        with self._client() as client:
            if client.exists(path, lambda _event: gone.set()) is not None:
                assert gone.wait(_GONE_WITHIN_S), f"{path} stays"

    def unfinished(self, topic: str) -> tuple[int, int]:
        """Return how many segments of a topic are in progress, and how many locks are held."""
        segments = locks = 0
        with self._client() as client:
            for partition in range(PARTITIONS):
                paths = LogPaths(self.namespace_root, stream_name(topic, partition))
                names = client.get_children(paths.segments)
                segments += sum(name.startswith("inprogress") for name in names)
                locks += bool(client.get_children(paths.lock))
        return segments, locks

    def drop_lock(self, path: str) -> None:
        """Have a lock go as with the session of the process that held it, which was killed.

        So its session may be one that no busy machine loses, and no test waits for its end.
        """
        with self._client() as client:
            for name in client.get_children(path) if client.exists(path) else ():
                client.delete(f"{path}/{name}")

    @contextmanager
    def _client(self) -> Iterator[KazooClient]:
        client = KazooClient(self.zookeeper.hosts)
        client.start(_GONE_WITHIN_S)
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def __enter__(self) -> Self:
        assert tailrace("cluster", "init", "--metadata", self.metadata).returncode == 0
        try:
            for bookie in self.bookies:
                bookie.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers:
            broker.close()
        for bookie in self.bookies:
            bookie.close()
