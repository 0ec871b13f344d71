"""One JVM with Apache's client for the folder, one with its shell; a cluster for each module."""

from collections.abc import Iterator
from typing import TypeVar

import pytest

from tests.interop.bookkeeper.java import JavaBookie, JavaShell
from tests.interop.bookkeeper.ours import OurBookie
from tests.java.peers import JavaClient
from tests.zookeeper import ZooKeeperServer

Bookie = TypeVar("Bookie", OurBookie, JavaBookie, OurBookie | JavaBookie)


@pytest.fixture(scope="package")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    client = JavaClient(tmp_path_factory.mktemp("java") / "log")
    yield client
    client.close()


@pytest.fixture(scope="package")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaShell]:
    running = JavaShell(tmp_path_factory.mktemp("shell") / "log")
    yield running
    running.close()


@pytest.fixture(scope="module")
def uri(zookeeper: ZooKeeperServer, java: JavaClient, request: pytest.FixtureRequest) -> str:
    """A cluster of the module's own, made by Apache's software."""
    name = request.module.__name__.rpartition(".")[2]
    where = f"zk+hierarchical://{zookeeper.hosts}/{name}"
    assert java.call("init", uri=where)["created"]
    return where


@pytest.fixture(scope="module")
def our_bookies(uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[OurBookie]]:
    """Three bookies of this project; they say where they stand, which Java does not ask for."""
    place = ("networkLocation=/here/rack",)
    bookies = [OurBookie(tmp_path_factory.mktemp("ours"), uri, settings=place) for _ in range(3)]
    yield from _running(bookies)


@pytest.fixture(scope="module")
def java_bookies(uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[JavaBookie]]:
    """Two bookies of Apache BookKeeper."""
    bookies = [JavaBookie(tmp_path_factory.mktemp("java-bookie"), uri) for _ in range(2)]
    yield from _running(bookies)


@pytest.fixture(scope="module")
def mixed_bookies(
    uri: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[OurBookie | JavaBookie]]:
    """One bookie of Apache BookKeeper and three of this project."""
    bookies: list[OurBookie | JavaBookie] = [
        JavaBookie(tmp_path_factory.mktemp("java-bookie"), uri),
        *(OurBookie(tmp_path_factory.mktemp("ours"), uri) for _ in range(3)),
    ]
    yield from _running(bookies)


def _running(bookies: list[Bookie]) -> Iterator[list[Bookie]]:
    try:
        for bookie in bookies:
            bookie.start()
        yield bookies
    finally:
        for bookie in bookies:
            bookie.stop()


@pytest.fixture(scope="module")
def v3(java: JavaClient, uri: str) -> Iterator[str]:
    """Java's client as it is by default."""
    yield from _connected(java, uri, "v3", {})


@pytest.fixture(scope="module")
def v2(java: JavaClient, uri: str) -> Iterator[str]:
    """Java's client as Pulsar configures it."""
    yield from _connected(java, uri, "v2", {"useV2WireProtocol": True})


def _connected(java: JavaClient, uri: str, client: str, conf: dict[str, object]) -> Iterator[str]:
    java.call("connect", client=client, uri=uri, conf=conf)
    yield client
    java.call("disconnect", client=client)
