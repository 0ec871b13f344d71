"""`tailrace autorecovery` and what is said of it, on clusters where nobody copies anything."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient

from tailrace.core.metadata.layout import LedgerPaths, UnderreplicationPaths
from tailrace.core.metadata.ledger_metadata import Fragment, LedgerMetadata, encode_ledger
from tailrace.core.metadata.node_reads import READS_AT_ONCE
from tailrace.core.metadata.underreplication import Mark, encode_lock, encode_mark, encode_vote
from tailrace.protocol.ids import BookieId, LedgerId
from tailrace.tools.errors import Exit
from tests.autorecovery_process import AutoRecoveryUnderTest
from tests.cluster.cli import output, parsed, refusal, tailrace
from tests.zookeeper import ZooKeeperServer

A, B = BookieId("a:1"), BookieId("b:1")


class Metadata:
    """A cluster without any process, and a client for what others write."""

    def __init__(self, uri: str, root: str, client: KazooClient) -> None:
        self.uri = uri
        self.ledgers = LedgerPaths(root)
        self.paths = UnderreplicationPaths(root)
        self.client = client

    def put(self, path: str, data: bytes) -> None:
        self.client.ensure_path(path)
        self.client.set(path, data)

    def delete(self, path: str) -> None:
        self.client.delete(path)

    def data(self, path: str) -> bytes:
        return bytes(self.client.get(path)[0])

    def mark(self, ledger_id: int, *missing: BookieId, ctime_ms: int | None = None) -> None:
        mark = encode_mark(Mark(missing, ctime_ms))
        self.put(self.paths.mark(LedgerId(ledger_id)), mark)

    def store(self, ledger_id: int, ledger: LedgerMetadata) -> None:
        self.put(self.ledgers.ledger(LedgerId(ledger_id)), encode_ledger(ledger))

    def vote(self, name: str) -> None:
        self.put(f"{self.paths.vote_prefix}0000000007", encode_vote(name))


@contextmanager
def connected(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts)
    client.start(30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@pytest.fixture
def metadata(zookeeper: ZooKeeperServer) -> Iterator[Metadata]:
    root = f"{zookeeper.make_root()}/ledgers"
    uri = f"zk://{zookeeper.hosts}{root}"
    output("cluster", "init", "--metadata", uri)
    with connected(zookeeper.hosts) as client:
        yield Metadata(uri, root, client)


def test_a_cluster_in_which_it_never_ran(metadata: Metadata) -> None:
    uri = metadata.uri
    assert parsed("autorecovery", "status", "-m", uri) == {
        "enabled": True,
        "auditor": None,
        "underreplicated": 0,
        "being_copied": 0,
        "lost_bookie_recovery_delay_s": 0,
        "all_ledgers_checked": None,
    }
    assert parsed("autorecovery", "list", "-m", uri) == []
    said = refusal(Exit.FAILED, "autorecovery", "trigger-audit", "-m", uri)
    assert "there is no auditor" in said
    assert f"tailrace autorecovery --metadata {uri}" in said


def test_what_is_marked(metadata: Metadata) -> None:
    uri = metadata.uri
    metadata.mark(7, A)
    metadata.mark(2**40, A, B, ctime_ms=1_700_000_000_000)
    metadata.mark(8, B)
    metadata.put(metadata.paths.lock(LedgerId(8)), encode_lock("worker-1"))
    rows = parsed("autorecovery", "list", "-m", uri)
    assert rows == [
        {"ledger": 7, "missing": [A], "since": None, "worker": None},
        {"ledger": 8, "missing": [B], "since": None, "worker": "worker-1"},
        {"ledger": 2**40, "missing": [A, B], "since": "2023-11-14T22:13:20+00:00", "worker": None},
    ]
    assert listed(uri, "--missing-replica", A) == [7, 2**40]
    assert listed(uri, "--excluding-missing-replica", A) == [8]
    assert listed(uri, "--missing-replica", B, "--excluding-missing-replica", A) == [8]
    found = parsed("autorecovery", "status", "-m", uri)
    assert (found["underreplicated"], found["being_copied"]) == (3, 1)
    table = output("autorecovery", "list", "-m", uri).decode()
    assert "worker-1" in table
    assert "a:1,b:1" in table


def test_many_locks_and_one_that_cannot_be_read(metadata: Metadata) -> None:
    uri = metadata.uri
    for number in range(READS_AT_ONCE + 1):
        metadata.mark(number, A)
        metadata.put(metadata.paths.lock(LedgerId(number)), encode_lock(f"worker-{number}"))
    metadata.put(metadata.paths.lock(LedgerId(7)), b"{")
    workers = [row["worker"] for row in parsed("autorecovery", "list", "-m", uri)]
    expected = [f"worker-{number}" for number in range(READS_AT_ONCE + 1)]
    assert workers == [*expected[:7], "?", *expected[8:]]
    assert parsed("autorecovery", "status", "-m", uri)["being_copied"] == READS_AT_ONCE + 1


def listed(uri: str, *options: str) -> list[int]:
    return [row["ledger"] for row in parsed("autorecovery", "list", "-m", uri, *options)]


def test_switching_it_off_and_on(metadata: Metadata) -> None:
    uri = metadata.uri
    metadata.vote("first")
    for _ in range(2):
        output("autorecovery", "disable", "-m", uri)
        assert metadata.client.exists(metadata.paths.disable)
    assert parsed("autorecovery", "status", "-m", uri)["enabled"] is False
    said = refusal(Exit.FAILED, "autorecovery", "trigger-audit", "-m", uri)
    assert "disabled" in said
    assert "tailrace autorecovery enable" in said
    for _ in range(2):
        output("autorecovery", "enable", "-m", uri)
        assert not metadata.client.exists(metadata.paths.disable)
    text = output("autorecovery", "status", "-m", uri).decode()
    assert text.splitlines()[0].split() == ["enabled", "yes"]


def test_the_delay_and_the_audit(metadata: Metadata) -> None:
    uri, path = metadata.uri, metadata.paths.lost_bookie_recovery_delay
    command = ("autorecovery", "lost-bookie-recovery-delay", "-m", uri)
    assert output(*command).split() == [b"0"]
    assert output(*command, "300").split() == [b"300"]
    assert metadata.data(path) == b"300"
    assert parsed(*command) == {"lost_bookie_recovery_delay_s": 300}
    assert "-1" in refusal(Exit.USAGE, *command, "--", "-1")
    metadata.vote("first")
    before = metadata.client.get(path)[1].version
    done = tailrace("autorecovery", "trigger-audit", "-m", uri)
    assert (done.returncode, done.stderr) == (0, b"first audits\n")
    data, stat = metadata.client.get(path)
    assert (data, stat.version) == (b"300", before + 1)  # as BookKeeper's shell asks for it


def closed(*bookies: BookieId, size: int = 1, last_entry_id: int = 9) -> LedgerMetadata:
    ledger = LedgerMetadata(
        ensemble_size=len(bookies), write_quorum=size, ack_quorum=1,
        fragments=(Fragment(0, bookies),),
    )  # fmt: skip
    return ledger.closed(last_entry_id, 100)


def test_a_decommission_that_nobody_helps(metadata: Metadata) -> None:
    uri = metadata.uri
    command = ("bookie", "decommission", A, "-m", uri)
    assert "there is no bookie a:1" in refusal(Exit.FAILED, *command)
    metadata.put(metadata.ledgers.cookie(A), b"5\n")
    metadata.store(7, closed(A, B))
    assert "there is no auditor" in refusal(Exit.FAILED, *command)
    metadata.vote("first")
    said = refusal(Exit.FAILED, *command, "--timeout", "0")
    assert "1 of 1 ledgers still have entries at a:1" in said
    assert "autorecovery list --missing-replica a:1" in said
    assert metadata.client.exists(metadata.ledgers.cookie(A))
    metadata.put(metadata.ledgers.read_only_bookie(A), b"")
    assert "is registered" in refusal(Exit.FAILED, *command)
    metadata.delete(metadata.ledgers.read_only_bookie(A))
    metadata.store(7, closed(B, BookieId("c:1")))
    output(*command)
    assert not metadata.client.exists(metadata.ledgers.cookie(A))


def test_a_decommission_where_there_is_nothing_to_copy(metadata: Metadata) -> None:
    """Named, but without entries: nobody has to copy that, so no auditor is needed."""
    metadata.put(metadata.ledgers.cookie(A), b"5\n")
    metadata.store(7, closed(A, B, last_entry_id=-1))
    metadata.store(8, closed(B, A, last_entry_id=0))
    output("bookie", "decommission", A, "-m", metadata.uri)
    assert not metadata.client.exists(metadata.ledgers.cookie(A))


def test_a_process_that_cannot_begin(metadata: Metadata, zookeeper: ZooKeeperServer) -> None:
    nowhere = AutoRecoveryUnderTest(f"zk://{zookeeper.hosts}/no/ledgers", "first")
    said = nowhere.refused()
    assert "there is no cluster" in said
    assert "tailrace cluster init" in said
    away = AutoRecoveryUnderTest("zk://127.0.0.1:1/ledgers", "first", "--set", "zkTimeout=500")
    assert "is ZooKeeper running at zk://127.0.0.1:1/ledgers?" in away.refused()
    metadata.put(metadata.paths.layout, b'type: "NEW"\nversion: 2\n')
    strange = AutoRecoveryUnderTest(metadata.uri, "first")
    assert "only BASIC 1 is known" in strange.refused()


def test_settings() -> None:
    rows = parsed("autorecovery", "--show-config", "--set", "lostBookieRecoveryDelay=60")
    values = {row["setting"]: row["value"] for row in rows}
    assert values["lostBookieRecoveryDelay"] == "60"
    assert values["rereplicationEntryBatchSize"] == "10"
    said = refusal(Exit.USAGE, "autorecovery", "--set", "lostBookieRecoveryDealy=60")
    assert "did you mean lostBookieRecoveryDelay?" in said
    assert "tailrace autorecovery --show-config" in said
    for wrong in ("bookieId=a b", "zkTimeout=0", "ledgersPath=/x", "metadataServiceUri=sqlite:x"):
        assert "error:" in refusal(Exit.USAGE, "autorecovery", "--set", wrong)
