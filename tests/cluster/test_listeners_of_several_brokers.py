"""Several brokers with several listeners: a client stays on the listener that it came by."""

from typing import Any, NamedTuple

import pytest

from tests.cluster.several_brokers import PARTITIONS, consume, create, leaders, produce, seen, until
from tests.cluster.three_bookies import ThreeBookies
from tests.ports import free_port
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]


class At(NamedTuple):
    """One listener of one broker, as the helpers take it."""

    bootstrap: Any


def test_each_listener_names_the_brokers_by_its_own_addresses(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with ThreeBookies(zookeeper, tmp_path_factory.mktemp("bookies")) as cluster:
        ports = {name: [free_port(), free_port()] for name in ("HOST", "INSIDE")}
        for number in range(2):
            host, inside = (ports[name][number] for name in ports)
            broker = cluster.broker(
                *("--set", f"node.id={number + 1}", "--set", "inter.broker.listener.name=INSIDE"),
                *("--advertise", f"HOST://localhost:{host}", "--insecure"),
            )
            broker.start(f"HOST://0.0.0.0:{host},INSIDE://127.0.0.1:{inside}")
        by = {name: [At(f"127.0.0.1:{port}") for port in ports[name]] for name in ports}
        for at in (*by["HOST"], *by["INSIDE"]):
            until(lambda at=at: len(seen(at).brokers) == 2)
        hosts = {"HOST": "localhost", "INSIDE": "127.0.0.1"}
        for name, asked in by.items():
            told = {(hosts[name], port) for port in ports[name]}
            for at in asked:
                assert {(b.host, b.port) for b in seen(at).brokers.values()} == told
        create(by["INSIDE"][1])
        until(lambda: len(set(leaders(by["HOST"][0]))) == 2)
        for name, asked in by.items():
            produce(asked[0], name)
        expected = {f"{name}{index}".encode() for name in ports for index in range(PARTITIONS)}
        for name, asked in by.items():
            assert consume(asked[1], f"group-{name}", 2 * PARTITIONS) == expected
