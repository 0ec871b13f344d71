"""A cluster that this project's tools began, of Apache's bookies and client, seen by the tools."""

import json
from typing import Any

import pytest

from tailrace.protocol.ids import LedgerId
from tests.cluster.cli import output, parsed
from tests.interop.bookkeeper.java import JavaBookie, create
from tests.interop.bookkeeper.payloads import payload, shown
from tests.java.peers import JavaClient, JavaError
from tests.zookeeper import ZooKeeperServer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.java,
]
SIZE = 40
LAST = 11
FENCED = -101


@pytest.fixture(scope="module")
def uri(zookeeper: ZooKeeperServer) -> str:
    """A cluster of the module's own, begun by this project."""
    where = f"zk+hierarchical://{zookeeper.hosts}/our_tools"
    output("cluster", "init", "--metadata", where)
    return where


def said(uri: str, *command: str) -> str:
    return output(*command, "--metadata", uri).decode()


@pytest.fixture(scope="module")
def ledger_id(java: JavaClient, v3: str, java_bookies: list[JavaBookie]) -> LedgerId:
    """A ledger of Apache's client, closed."""
    made = create(java, client=v3, e=2, qw=2, qa=2, custom={"owner": "java"})
    java.call("add", handle=made["handle"], seed=41, size=SIZE, count=LAST + 1)
    java.call("close", handle=made["handle"])
    return LedgerId(made["ledger"])


def test_bookies(uri: str, java_bookies: list[JavaBookie]) -> None:
    ids = {bookie.bookie_id for bookie in java_bookies}
    listed = json.dumps(parsed("bookie", "list", "--metadata", uri))
    assert all(bookie_id in listed for bookie_id in ids)
    for bookie_id in ids:
        assert bookie_id in said(uri, "bookie", "info", bookie_id)
        assert bookie_id in said(uri, "bookie", "cookie", bookie_id)


def test_a_ledger_of_java(uri: str, ledger_id: LedgerId) -> None:
    number = str(ledger_id)
    assert number in said(uri, "ledger", "list")
    assert "java" in said(uri, "ledger", "show", number)
    lines = said(uri, "ledger", "read", number, "--json").splitlines()
    found: list[Any] = [json.loads(line) for line in lines]
    assert len(found) == LAST + 1
    for entry_id, entry in enumerate(found):
        assert payload(41, entry_id, SIZE).hex() in json.dumps(entry)


def test_recovery_of_javas_open_ledger(java: JavaClient, uri: str, v3: str) -> None:
    made = create(java, client=v3, e=2, qw=2, qa=2)
    java.call("add", handle=made["handle"], seed=42, size=SIZE, count=LAST + 1)
    said(uri, "ledger", "recover", str(made["ledger"]))
    with pytest.raises(JavaError) as fenced:
        java.call("add", handle=made["handle"], seed=42, size=SIZE, count=1)
    assert fenced.value.code == FENCED
    opened = java.call("open", client=v3, ledger=made["ledger"], recovery=False)
    assert (opened["closed"], opened["lac"]) == (True, LAST)
    found = java.call("read", handle=opened["handle"], first=0, last=LAST)
    assert found["entries"] == shown(42, 0, LAST, SIZE)


def test_deletion_of_javas_ledger(java: JavaClient, uri: str, v3: str) -> None:
    made = create(java, client=v3, e=2, qw=2, qa=2)
    java.call("close", handle=made["handle"])
    said(uri, "ledger", "delete", str(made["ledger"]), "--yes")
    assert made["ledger"] not in java.call("list", client=v3)["ledgers"]
