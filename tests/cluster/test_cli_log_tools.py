"""`tailrace log` on a namespace: ZooKeeper, a bookie process, and logs written through them."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from tailrace.core.log.config import LogConfig
from tailrace.core.log.log import Log
from tailrace.core.log.open_namespace import NamespaceOptions, OpenNamespace, open_namespace
from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import encode_segment, in_progress_name, segment_name
from tailrace.core.metadata.store import Create, Delete
from tailrace.tools.errors import Exit
from tailrace.tools.logs.log_owner import Nobody
from tests.bookie_process import BookieUnderTest
from tests.cluster.cli import output, parsed, refusal
from tests.process import TailraceProcess
from tests.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.java

PAYLOADS: Final = [b"record %d" % number for number in range(6)]
_names = count()


class Namespace:
    """A bound namespace, by its URIs."""

    def __init__(self, zookeeper: ZooKeeperServer) -> None:
        self.root = zookeeper.make_root()
        self.metadata = f"zk://{zookeeper.hosts}{self.root}/ledgers"
        self.uri = f"distributedlog://{zookeeper.hosts}{self.root}/ns"

    def tool(self, *words: str) -> list[str]:
        """Return the words of `tailrace log` on this namespace."""
        return ["log", *words, "--namespace", self.uri]

    def paths(self, log: str) -> LogPaths:
        """Return where a log lies."""
        return LogPaths(f"{self.root}/ns", log)

    def inside(self, work: Callable[[OpenNamespace], Awaitable[Any]]) -> Any:
        """Do work on the namespace in this process."""

        async def run() -> Any:
            options = NamespaceOptions(log=LogConfig(client_id="test", control_flush_ms=0))
            async with open_namespace(self.uri, options) as opened:
                return await work(opened)

        return asyncio.run(run())

    def written(self, *, clean: bool = True) -> str:
        """Write a log with records 0..2 and 3..5 in two segments; the writer may just vanish."""
        name = f"log-{next(_names)}"

        async def work(opened: OpenNamespace) -> None:
            await opened.logs.create_log(name)
            log = await opened.logs.open_log(name)
            writer = await log.open_writer(Nobody())
            await append(writer, range(3))
            await writer.roll()
            await append(writer, range(3, 6))
            await (writer.close() if clean else writer.abort())

        self.inside(work)
        return name


async def append(writer: LogWriter, txids: range) -> None:
    for txid in txids:
        writer.append(txid, (PAYLOADS[txid],), len(PAYLOADS[txid]))
        await writer.flush()


@pytest.fixture(scope="module")
def place(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Namespace]:
    made = Namespace(zookeeper)
    output("cluster", "init", "--metadata", made.metadata)
    output("namespace", "bind", "-n", made.uri, "-m", made.metadata)
    bookie = BookieUnderTest(made.metadata, tmp_path_factory.mktemp("bookie")).start()
    yield made
    bookie.close()


def lines(*words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output(*words, "--json").splitlines()]


def test_create_and_list(place: Namespace) -> None:
    assert output(*place.tool("create", "tree/one", "tree/deep/two")).split() == [
        *(b"created", b"tree/one"),
        *(b"created", b"tree/deep/two"),
    ]
    assert "tree" in parsed(*place.tool("list"))
    assert output(*place.tool("list", "--prefix", "tree")).split() == [b"tree/deep", b"tree/one"]
    assert "already" in refusal(Exit.FAILED, *place.tool("create", "tree/one"))
    assert "InvalidStreamName" in refusal(Exit.FAILED, *place.tool("create", "a b"))
    assert parsed(*place.tool("show", "tree/one")) == []
    for command in ("show", "dump", "count", "inspect", "check", "recover"):
        text = refusal(Exit.FAILED, *place.tool(command, "none"))
        assert "there is no log" in text
        assert "tailrace log list" in text


def test_show_and_dump(place: Namespace) -> None:
    name = place.written()
    one, two = parsed(*place.tool("show", name))
    assert (one["segment"], one["state"], one["records"]) == (1, "completed", 3)
    assert (two["first_txid"], two["last_txid"], two["start_sequence_id"]) == (2, 5, 3)
    assert str(two["ledger"]) in output(*place.tool("show", name, "-m", place.metadata)).decode()
    everything = lines(*place.tool("dump", name))
    assert [bytes.fromhex(line["payload"]) for line in everything] == PAYLOADS
    assert [line["txid"] for line in everything] == list(range(6))
    assert [line["position"] for line in everything] == [1, 2, 3, 1, 2, 3]
    assert one["last_dlsn"] == everything[2]["dlsn"]
    assert lines(*place.tool("dump", name, "--from", "2")) == everything[2:]
    assert lines(*place.tool("dump", name, "--from", "2", "--count", "2")) == everything[2:4]
    assert lines(*place.tool("dump", name, "--dlsn", everything[1]["dlsn"])) == everything[1:]
    assert lines(*place.tool("dump", name, "--segment", "1")) == everything[:3]
    assert lines(*place.tool("dump", name, "--segment", "2", "--from", "4")) == everything[4:]
    text = output(*place.tool("dump", name, "--count", "1")).decode()
    assert text == f"{everything[0]['dlsn']} txid=0 position=1 bytes=8 record 0\n"
    assert PAYLOADS[0].hex() in output(*place.tool("dump", name, "--hex")).decode()
    refusal(Exit.USAGE, *place.tool("dump", name, "--dlsn", "1,2"))
    refusal(Exit.USAGE, *place.tool("dump", name, "--records"))


def test_count(place: Namespace) -> None:
    name = place.written()
    assert output(*place.tool("count", name)) == b"6\n"
    dlsn = lines(*place.tool("dump", name))[1]["dlsn"]
    counted = parsed(*place.tool("count", name, "--from-dlsn", dlsn))
    assert counted == {"log": name, "from": dlsn, "records": 5}


def test_recover_completes_what_a_dead_writer_left(place: Namespace) -> None:
    name = place.written(clean=False)
    assert parsed(*place.tool("show", name))[1]["state"] == "in progress"
    (row,) = parsed(*place.tool("recover", name))
    assert (row["segment"], row["state"], row["last_txid"]) == (2, "completed", 5)
    assert parsed(*place.tool("show", name))[1] == row
    assert parsed(*place.tool("recover", name)) == []
    assert parsed(*place.tool("inspect", name)) == []
    assert output(*place.tool("count", name)) == b"6\n"


def test_rename_and_delete(place: Namespace) -> None:
    name = place.written()
    before = parsed(*place.tool("show", name))
    output(*place.tool("rename", name, f"moved/{name}"))
    assert parsed(*place.tool("show", f"moved/{name}")) == before
    assert "there is no log" in refusal(Exit.FAILED, *place.tool("rename", name, "x"))
    command = place.tool("delete", f"moved/{name}")
    assert "nothing was changed" in refusal(Exit.FAILED, *command, stdin=b"n\n")
    output(*command, "--yes")
    ledgers = [row["ledger"] for row in parsed("ledger", "list", "-m", place.metadata)]
    assert not {row["ledger"] for row in before} & set(ledgers)
    refusal(Exit.FAILED, *command, "--yes")


def test_truncate(place: Namespace) -> None:
    name = place.written()
    dlsns = [line["dlsn"] for line in lines(*place.tool("dump", name))]
    command = place.tool("truncate", name, "--dlsn", dlsns[4])
    assert "nothing was changed" in refusal(Exit.FAILED, *command, stdin=b"n\n")
    rows = parsed(*command, "--yes")
    assert [row["state"] for row in rows] == [
        "completed, truncated",
        "completed, partially truncated",
    ]
    assert rows[1]["first_kept"] == dlsns[4]
    assert [line["dlsn"] for line in lines(*place.tool("dump", name))] == dlsns[4:]
    assert parsed(*command, "--yes") == []
    assert parsed(*place.tool("inspect", name)) == []


def test_a_log_that_is_written_is_left_to_its_owner(place: Namespace) -> None:
    async def work(opened: OpenNamespace) -> None:
        await opened.logs.create_log("owned")
        log = await opened.logs.open_log("owned")
        writer = await log.open_writer(Nobody())
        await append(writer, range(2))
        for words in (
            ("truncate", "owned", "--dlsn", "1,0,0", "--yes"),
            ("recover", "owned"),
            ("repair-seqno", "owned", "--yes"),
            ("rename", "owned", "free"),
            ("delete", "owned", "--yes"),
            ("check", "owned", "--repair"),
        ):
            text = await asyncio.to_thread(refusal, Exit.FAILED, *place.tool(*words))
            assert "ed by test" in text, text
            assert "stop its owner first" in text
        assert await asyncio.to_thread(parsed, *place.tool("inspect", "owned")) == []
        await append(writer, range(2, 4))
        await writer.close()

    place.inside(work)
    assert output(*place.tool("count", "owned")) == b"4\n"


async def _opened(opened: OpenNamespace, name: str) -> Log:
    log = await opened.logs.open_log(name)
    await log.refresh()
    return log


def test_check_finds_and_repairs_a_small_end(place: Namespace) -> None:
    name = place.written()
    paths = place.paths(name)

    async def shrink(opened: OpenNamespace) -> None:
        last = (await _opened(opened, name)).segments.segments[-1]
        small = replace(last, last_txid=4, record_count=2, last_entry_id=last.last_entry_id - 1)
        path = paths.segment(segment_name(last))
        await opened.store.multi([Delete(path), Create(path, encode_segment(small))])

    before = parsed(*place.tool("show", name))
    assert [row["verdict"] for row in parsed(*place.tool("check", name))] == ["ok", "ok"]
    place.inside(shrink)
    text = refusal(Exit.FAILED, *place.tool("check", name))
    assert text == ""  # the table says it all
    assert parsed(*place.tool("show", name)) != before
    rows = parsed(*place.tool("check", name, "--repair"))
    assert [row["verdict"] for row in rows] == ["ok", "repaired"]
    assert (rows[1]["last_txid"], rows[1]["found_txid"]) == (4, 5)
    assert parsed(*place.tool("show", name)) == before
    assert parsed(*place.tool("inspect", name)) == []


def test_repair_seqno_brings_back_a_hidden_segment(place: Namespace) -> None:
    name = place.written(clean=False)
    paths = place.paths(name)

    async def hide(opened: OpenNamespace) -> None:
        last = (await _opened(opened, name)).segments.segments[-1]
        await opened.store.delete(paths.segment(segment_name(last)))
        low = encode_segment(replace(last, lssn=1))
        await opened.store.create(paths.segment(in_progress_name(1)), low)
        await opened.store.set(paths.segments, b"1")

    place.inside(hide)
    assert output(*place.tool("count", name)) == b"3\n"
    problems = json.loads(tailrace_failed(*place.tool("inspect", name, "--json")))
    assert [row["problem"] for row in problems] == ["duplicate"]
    command = place.tool("repair-seqno", name)
    assert "nothing was changed" in refusal(Exit.FAILED, *command, stdin=b"n\n")
    assert parsed(*command, "--yes") == {"log": name, "was": in_progress_name(1), "number": 2}
    assert parsed(*command, "--yes") is None
    parsed(*place.tool("recover", name))
    assert output(*place.tool("count", name)) == b"6\n"
    assert parsed(*place.tool("inspect", name)) == []


def tailrace_failed(*words: str) -> bytes:
    """Return what a command prints that ends with 1."""
    from tests.cluster.cli import tailrace

    done = tailrace(*words)
    assert done.returncode == Exit.FAILED, done.stderr.decode()
    return done.stdout


def test_other_ledgers_than_the_bound_ones_are_refused(place: Namespace) -> None:
    name = place.written()
    other = place.metadata.replace("/ledgers", "/others")
    text = refusal(Exit.USAGE, *place.tool("show", name, "--metadata", other))
    assert "bound to the ledgers at" in text
    refusal(Exit.USAGE, "log", "show", name, "-n", "zk://h/x")
    refusal(Exit.UNREACHABLE, "log", "list", "-n", "distributedlog://127.0.0.1:1/ns")


def test_a_standalone_broker_is_looked_at_in_both_ways(tmp_path: Path) -> None:
    with TailraceProcess(tmp_path / "data") as broker:
        output("topic", "create", "t", bootstrap=broker.bootstrap)
        output("produce", "t", stdin=b"one\ntwo\n", bootstrap=broker.bootstrap)
        uri = f"sqlite:{tmp_path / 'data' / 'metadata.db'}"
        (name,) = [each for each in parsed("log", "list", "-n", uri) if each.startswith("t")]
        (row,) = parsed("log", "show", name, "-n", uri)
        (stored,) = parsed("log", "show", "t/0", "--data", str(tmp_path / "data"))
        assert row["ledger"] == stored["ledger"]
        assert parsed("log", "inspect", name, "-n", uri) == []
        for words in (("create", "x"), ("recover", name), ("check", name, "--repair")):
            assert "looked at" in refusal(Exit.FAILED, "log", *words, "-n", uri)
