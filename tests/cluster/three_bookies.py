"""A cluster from the command line: ZooKeeper, bookies, brokers, each in a process of its own."""

from pathlib import Path
from typing import Final, Self

from tests.bookie_process import BookieUnderTest
from tests.cluster.cli import tailrace
from tests.process import TailraceProcess
from tests.zookeeper import ZooKeeperServer

SESSION_MS: Final = 2_000
"""So that what a killed process leaves behind in ZooKeeper goes soon."""


class ClusterBroker(TailraceProcess):
    """`tailrace broker`, which keeps nothing of its own on disk."""

    def __init__(self, metadata: str, namespace: str, *arguments: str) -> None:
        super().__init__(Path(), "--set", f"zkSessionTimeout={SESSION_MS}", *arguments)
        self.metadata = metadata
        self.namespace = namespace

    def role(self) -> list[str]:
        return ["broker", "--metadata", self.metadata, "--namespace", self.namespace]


class ThreeBookies:
    """A cluster with three bookies; brokers are made and started by the test."""

    def __init__(self, zookeeper: ZooKeeperServer, folder: Path) -> None:
        root = zookeeper.make_root()
        self.zookeeper = zookeeper
        self.metadata = f"zk://{zookeeper.hosts}{root}/ledgers"
        self.namespace = f"distributedlog://{zookeeper.hosts}{root}/messaging/test"
        self.bookies = [
            BookieUnderTest(
                self.metadata, folder / f"bookie-{n}", "--set", f"zkTimeout={SESSION_MS}"
            )
            for n in range(3)
        ]
        self.brokers: list[ClusterBroker] = []

    def broker(self, *arguments: str) -> ClusterBroker:
        """Return a broker of the cluster that is not started yet."""
        made = ClusterBroker(self.metadata, self.namespace, *arguments)
        self.brokers.append(made)
        return made

    def __enter__(self) -> Self:
        assert tailrace("cluster", "init", "--metadata", self.metadata).returncode == 0
        for bookie in self.bookies:
            bookie.start()
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers:
            broker.__exit__()
        for bookie in self.bookies:
            bookie.close()
