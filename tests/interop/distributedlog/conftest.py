"""One JVM with Apache's library for the folder, and a namespace on bookies of each kind."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.interop.bookkeeper.java import JavaBookie
from tests.interop.bookkeeper.ours import OurBookie
from tests.interop.distributedlog.java import JavaLog
from tests.interop.distributedlog.ours import Place
from tests.java.peers import JavaClient
from tests.zookeeper import ZooKeeperServer


def java_peer(log: Any) -> JavaClient:
    """Start a JVM with Apache's library."""
    return JavaClient(log, "distributedlog", "LogPeer")


@pytest.fixture(scope="package")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    client = java_peer(tmp_path_factory.mktemp("java") / "log")
    yield client
    client.close()


@pytest.fixture(scope="package", params=["our-bookies", "apache-bookies"])
def place(
    zookeeper: ZooKeeperServer,
    java: JavaClient,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Place]:
    """A namespace on three bookies, made with Apache's own tools."""
    found = Place(zookeeper.hosts, f"/{request.param}", f"/messaging/{request.param}")
    assert java.call("init", uri=found.metadata)["created"]
    words = ["bind", "-l", found.ledgers, "-s", found.hosts, "-c", "-f", found.uri]
    assert java.call("admin", words=words)["exit"] == 0
    kind = OurBookie if request.param == "our-bookies" else JavaBookie
    bookies = [kind(tmp_path_factory.mktemp("bookie"), found.metadata) for _ in range(3)]
    try:
        with ThreadPoolExecutor(len(bookies)) as threads:
            list(threads.map(lambda bookie: bookie.start(), bookies))
        yield found
    finally:
        for bookie in bookies:
            bookie.stop()


Opener = Callable[..., JavaLog]


@pytest.fixture(scope="package")
def opener(java: JavaClient, place: Place) -> Iterator[Opener]:
    """Give a log through Java's library with settings of DistributedLog: `opener(name, {...})`."""
    clients: dict[frozenset[tuple[str, Any]], str] = {}

    def opened(log: str, conf: dict[str, Any] | None = None) -> JavaLog:
        key = frozenset((conf or {}).items())
        if key not in clients:
            client = f"java-{len(clients)}"
            java.call("connect", client=client, uri=place.uri, conf=conf or {})
            clients[key] = client
        return JavaLog(java, clients[key], log)

    yield opened
    for client in clients.values():
        java.call("disconnect", client=client)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A log that nobody else uses."""
    return re.sub("[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
