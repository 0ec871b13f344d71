"""docs/thin-client.md, and what it promises, before two write proxies and a read proxy."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tailrace import dlog
from tailrace.dlog import sync
from tests.cluster.three_bookies import SESSION_MS, ThreeBookies
from tests.docs.page import DOCS, run_page
from tests.proxy_process import ReadProxyUnderTest, WriteProxyUnderTest

pytestmark = pytest.mark.java  # of ZooKeeper
PAGE = "thin-client.md"
QUORUMS = ("bkcEnsembleSize=3", "bkcWriteQuorumSize=3", "bkcAckQuorumSize=2")
SETTINGS = [
    word for each in (*QUORUMS, f"zkSessionTimeout={SESSION_MS}") for word in ("--set", each)
]


@pytest.fixture(scope="module")
def proxies(cluster: ThreeBookies) -> Iterator[list[WriteProxyUnderTest]]:
    sync.bind_namespace(cluster.namespace, cluster.metadata)
    writes = [
        WriteProxyUnderTest(cluster.metadata, cluster.namespace, shard, *SETTINGS)
        for shard in range(2)
    ]
    read = ReadProxyUnderTest(
        cluster.metadata, cluster.namespace, 0, "--set", f"zkSessionTimeout={SESSION_MS}"
    )
    made = [*writes, read]
    try:
        for each in made:
            each.start()
        yield writes
    finally:
        for each in made:
            each.close()


def test_its_examples_run(
    cluster: ThreeBookies, proxies: list[WriteProxyUnderTest], tmp_path: Path
) -> None:
    printed = run_page(PAGE, {"TAILRACE_NAMESPACE": cluster.namespace}, tmp_path)
    assert "payments: 1003 records" in printed
    assert any(f"owned by {each.at}" in printed for each in proxies)
    assert "clicked in clicks_" in printed


def test_the_death_of_an_owner_loses_no_record_and_doubles_none(
    cluster: ThreeBookies, proxies: list[WriteProxyUnderTest]
) -> None:
    payloads = [b"%d" % n for n in range(3_000)]
    with sync.ThinClient(cluster.namespace) as client:
        client.create("orders")
        with client.open_writer("orders") as writer:
            taken = [writer.submit(payload) for payload in payloads[:1_500]]
            taken[100].result(60)
            owner = client.owner("orders")
            (killed,) = [each for each in proxies if each.at == owner]
            killed.kill()
            taken += [writer.submit(payload) for payload in payloads[1_500:]]
            positions = [each.result(60) for each in taken]
        assert client.owner("orders") != owner
        with client.read("orders") as reader:
            found = [next(reader) for _ in payloads]
        assert [each.payload for each in found] == payloads
        assert [each.dlsn for each in found] == positions


def test_a_rolling_restart_is_not_seen_by_who_writes(
    cluster: ThreeBookies, proxies: list[WriteProxyUnderTest]
) -> None:
    streams = [f"rolling-{n}" for n in range(10)]
    with sync.ThinClient(cluster.namespace) as client, ExitStack() as stack:
        for stream in streams:
            client.create(stream)
        writers = [stack.enter_context(client.open_writer(stream)) for stream in streams]
        rounds, ends = count(), threading.Event()
        taken: list[list[Future[dlog.DLSN]]] = []

        def write() -> None:
            while not ends.is_set():
                payload = b"%d" % next(rounds)
                taken.append([writer.submit(payload) for writer in writers])
                taken[-1][0].result(60)

        with ThreadPoolExecutor(1) as threads:
            writing = threads.submit(write)
            try:
                for proxy in proxies:
                    if proxy.is_running:
                        assert proxy.stop() == 0
                    proxy.start()
                    client.write(streams[0], b"behind a restart")
            finally:
                ends.set()
            writing.result(60)
        for at, stream in enumerate(streams):
            positions = [each[at].result(60) for each in taken]
            assert positions == sorted(set(positions))
            client.release(stream)
            with client.read(stream, tail=False) as reader:
                found = [record.payload for record in reader]
            found = [payload for payload in found if payload != b"behind a restart"]
            assert found == [b"%d" % n for n in range(len(taken))]


def test_its_settings_have_the_defaults_that_it_shows() -> None:
    known = {setting.name: str(setting.default) for setting in dlog.known_client_settings()}
    rows = [line.split("|") for line in (DOCS / PAGE).read_text().splitlines() if "| `" in line]
    shown = {row[1].strip(" `"): row[2].strip().replace(",", "") for row in rows}
    assert {name: default for name, default in shown.items() if name in known} == known
