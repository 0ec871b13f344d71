"""`tailrace ledger`: on a cluster of bookie processes, and beside a standalone broker."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import CoreError, LedgerFenced
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig, LedgerConfig
from tailrace.core.metadata.uri import ledgers_root, open_store
from tailrace.protocol.bookkeeper.digest import DigestType
from tailrace.protocol.ids import EntryId, LedgerId
from tailrace.tools.errors import Exit
from tests.bookie_process import BookieUnderTest
from tests.cluster.cli import output, parsed, refusal
from tests.process import TailraceProcess
from tests.zookeeper import ZooKeeperServer

ENTRIES = [b"entry %d" % number for number in range(5)]
CONFIG = LedgerConfig(digest=DigestType.CRC32C, password=b"secret", custom={"owner": b"test"})


class Listener:
    """Waits for confirmations; keeps the failure."""

    def __init__(self) -> None:
        self.lac = -1
        self.error: CoreError | None = None
        self.changed = asyncio.Event()

    def on_confirmed(self, lac: EntryId) -> None:
        self.lac = lac
        self.changed.set()

    def on_failed(self, error: CoreError) -> None:
        self.error = error
        self.changed.set()


@pytest.fixture(scope="module")
def uri(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of one bookie."""
    uri = f"zk://{zookeeper.hosts}{zookeeper.make_root()}/ledgers"
    output("cluster", "init", "--metadata", uri)
    bookie = BookieUnderTest(uri, tmp_path_factory.mktemp("bookie")).start()
    yield uri
    bookie.close()


def write(uri: str, entries: list[bytes], *, close: bool) -> LedgerId:
    """Write a ledger with entries that are confirmed; leave it open unless `close`."""

    async def run() -> LedgerId:
        store = await open_store(uri)
        root = ledgers_root(uri)
        bookies = RegisteredBookies(store, root=root)
        client = LedgerClient(store, bookies, LedgerClientConfig(root=root))
        listener = Listener()
        writer = await client.create_ledger(CONFIG, listener)
        for entry in entries:
            writer.add([entry])
        while listener.lac < len(entries) - 1 and listener.error is None:
            listener.changed.clear()
            await listener.changed.wait()
        assert listener.error is None
        if close:
            await writer.close()
        await bookies.close()
        await store.close()
        return writer.ledger_id

    return asyncio.run(run())


@pytest.fixture(scope="module")
def closed(uri: str) -> LedgerId:
    return write(uri, ENTRIES, close=True)


def test_list_and_show(uri: str, closed: LedgerId) -> None:
    (row,) = [row for row in parsed("ledger", "list", "-m", uri) if row["ledger"] == closed]
    assert (row["state"], row["last_entry"], row["quorums"]) == ("CLOSED", 4, "1/1/1")
    assert parsed("ledger", "show", str(closed), "-m", uri) == row
    assert row["custom"] == {"owner": "test"}
    text = output("ledger", "show", str(closed), "-m", uri).decode()
    assert "secret" not in text + json.dumps(row)
    assert row["bookies"][0] in text


def test_list_is_narrowed(uri: str, closed: LedgerId) -> None:
    bookie = parsed("ledger", "show", str(closed), "-m", uri)["bookies"][0]
    here = parsed("ledger", "list", "-m", uri, "--bookie", bookie, "--state", "closed")
    assert closed in [row["ledger"] for row in here]
    assert parsed("ledger", "list", "-m", uri, "--bookie", "nobody:1") == []
    assert closed not in [
        r["ledger"] for r in parsed("ledger", "list", "-m", uri, "--state", "open")
    ]


def test_read(uri: str, closed: LedgerId) -> None:
    lines = output("ledger", "read", str(closed), "-m", uri, "--json").splitlines()
    entries: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert [bytes.fromhex(entry["payload"]) for entry in entries] == ENTRIES
    assert output("ledger", "read", str(closed), "-m", uri, "--raw") == b"".join(ENTRIES)
    some = output("ledger", "read", str(closed), "-m", uri, "--from", "1", "--to", "2").decode()
    assert [line.split()[0] for line in some.splitlines()] == ["1", "2"]
    assert "confirmed up to entry 4" in refusal(
        Exit.FAILED, "ledger", "read", str(closed), "-m", uri, "--to", "5"
    )


def test_recover_fences_the_writer_that_still_lives(uri: str) -> None:
    """The writer is here, the recovery in another process."""

    async def run() -> tuple[LedgerId, CoreError | None]:
        store = await open_store(uri)
        root = ledgers_root(uri)
        bookies = RegisteredBookies(store, root=root)
        client = LedgerClient(store, bookies, LedgerClientConfig(root=root))
        listener = Listener()
        writer = await client.create_ledger(CONFIG, listener)
        writer.add([b"one"])
        while listener.lac < 0:
            listener.changed.clear()
            await listener.changed.wait()
        said = await asyncio.to_thread(
            output, "ledger", "recover", str(writer.ledger_id), "-m", uri, "--json"
        )
        assert json.loads(said)["last_entry"] == 0
        writer.add([b"two"])
        while listener.error is None:
            listener.changed.clear()
            await listener.changed.wait()
        await bookies.close()
        await store.close()
        return writer.ledger_id, listener.error

    ledger_id, error = asyncio.run(run())
    assert isinstance(error, LedgerFenced)
    assert parsed("ledger", "show", str(ledger_id), "-m", uri)["state"] == "CLOSED"


def test_delete_asks_and_deletes(uri: str) -> None:
    ledger_id = str(write(uri, ENTRIES[:1], close=True))
    assert "nothing was deleted" in refusal(
        Exit.FAILED, "ledger", "delete", ledger_id, "-m", uri, stdin=b"n\n"
    )
    output("ledger", "delete", ledger_id, "-m", uri, stdin=b"y\n")
    said = refusal(Exit.FAILED, "ledger", "show", ledger_id, "-m", uri)
    assert f"no ledger {ledger_id}" in said
    assert "tailrace ledger list" in said
    again = write(uri, [], close=False)
    output("ledger", "delete", str(again), "-m", uri, "--yes")


def test_the_ledgers_of_a_standalone_broker_can_be_looked_at(broker: TailraceProcess) -> None:
    output("produce", "t", "-q", stdin=b"a record\n", bootstrap=broker.bootstrap)
    uri = f"sqlite:{Path(broker.data) / 'metadata.db'}"
    assert {row["state"] for row in parsed("ledger", "list", "-m", uri)} == {"OPEN"}
    said = refusal(Exit.FAILED, "ledger", "delete", "0", "-m", uri, "--yes")
    assert "are its own" in said
    assert parsed("ledger", "list", "-m", uri)


def test_where_there_is_no_cluster(zookeeper: ZooKeeperServer) -> None:
    uri = f"zk://{zookeeper.hosts}{zookeeper.make_root()}/ledgers"
    said = refusal(Exit.FAILED, "ledger", "list", "-m", uri)
    assert "tailrace cluster init" in said
    assert "neither" in refusal(Exit.USAGE, "ledger", "list", "-m", "nonsense")
