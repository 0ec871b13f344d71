"""docs/thin-client.md, and what it promises, before two write proxies and a read proxy."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tailrace import dlog
from tailrace.core.access.client.config import KEYS
from tailrace.dlog import sync
from tests.cluster.rolling import Rolled, Rolling
from tests.cluster.three_bookies import SESSION_MS, ThreeBookies
from tests.docs.page import DOCS, run_page
from tests.proxy_process import ReadProxyUnderTest, WriteProxyUnderTest

pytestmark = pytest.mark.java  # of ZooKeeper
PAGE = "thin-client.md"
STORY_WITHIN_S: Final = 120
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
    """`python -m tests.cluster.rolling` does it with 1,000 streams."""
    for proxy in proxies:
        if not proxy.is_running:  # the test before has killed it
            proxy.start()
    rolling = Rolling(cluster.namespace, proxies, [f"rolling-{n}" for n in range(10)])

    async def story() -> Rolled:
        async with asyncio.timeout(STORY_WITHIN_S):
            return await rolling.run(period_s=0.02)

    rolled = asyncio.run(story())
    assert rolled.moves > 0


def test_its_settings_have_the_defaults_that_it_shows() -> None:
    known = {
        setting.name: str(setting.default)
        for setting in dlog.known_client_settings()
        # how it gets in, to proxies and to ZooKeeper: in one row each
        if setting.name not in KEYS and not setting.name.startswith("zookeeper.")
    }
    rows = [line.split("|") for line in (DOCS / PAGE).read_text().splitlines() if "| `" in line]
    shown = {row[1].strip(" `"): row[2].strip().replace(",", "") for row in rows}
    assert {name: default for name, default in shown.items() if name in known} == known
