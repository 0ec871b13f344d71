"""Cold storage as operators have it: processes that copy, are killed, verify and restore."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cli import output
from tests.cluster.cold_cluster import ColdCluster
from tests.cluster.cold_program import RECORDS, SEGMENTS
from tests.zookeeper import ZooKeeperServer

TXIDS = list(range(SEGMENTS * RECORDS))


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[ColdCluster]:
    """A log of three segments, 800 KB each; nothing is copied."""
    cold = {"url": str(tmp_path / "cold"), "block_bytes": 64 * 1024, "retry_pause_ms": 10}
    with ColdCluster(zookeeper, tmp_path, cold) as running:
        assert running.step("write", record_bytes=20_000) == len(TXIDS)
        yield running


def objects(tmp_path: Path) -> list[Path]:
    return sorted(each for each in (tmp_path / "cold").rglob("*") if each.is_file())


@pytest.mark.crash
def test_a_process_killed_in_mid_copy_costs_nothing(cluster: ColdCluster, tmp_path: Path) -> None:
    before = cluster.step("read")
    for _ in range(2):
        cluster.kill_while_copying(upload_bytes_per_s=200_000)
    assert len(objects(tmp_path)) == 2, "what was killed is there, under names that nobody knows"
    assert len(json.loads(cluster.cli("verify", "--json", code=1))) == 2
    assert cluster.step("read") == before
    assert cluster.step("copy") == [1, 2, 3]
    assert len(objects(tmp_path)) == 3, "leftovers went with the copy that took"
    assert cluster.step("release") == [1, 2]
    assert cluster.step("read") == before
    assert before["txids"] == TXIDS


def test_status_verify_and_restore(cluster: ColdCluster, tmp_path: Path) -> None:
    before = cluster.step("read")
    cluster.step("copy")
    cluster.step("release")
    (row,) = json.loads(cluster.cli("status", "--json"))
    assert (row["log"], row["segments"], row["on_bookies"]) == ("s", 3, 1)
    assert (row["cold"], row["cold_only"], row["not_copied"]) == (3, 2, 0)
    assert [each["on_bookies"] for each in row["details"]] == [False, False, True]
    assert "cold only" in cluster.cli("status")
    found = json.loads(cluster.cli("verify", "--json"))
    assert [each["lssn"] for each in found] == [1, 2, 3]
    assert not any(each["problem"] for each in found)

    path = next(each for each in objects(tmp_path) if each.name.startswith(f"{2:018d}"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    wrong = [row for row in json.loads(cluster.cli("verify", "--json", code=1)) if row["problem"]]
    assert [row["lssn"] for row in wrong] == [2]
    assert "ColdObjectCorrupt" in wrong[0]["problem"]
    cluster.cli("restore", "s", "1", code=1)
    assert json.loads(cluster.cli("status", "--json"))[0]["on_bookies"] == 1

    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    assert json.loads(cluster.cli("restore", "s", "2", "--json"))["restored"] == [2]
    assert "restored 1 segments: 1" in cluster.cli("restore", "s", "1")
    (row,) = json.loads(cluster.cli("status", "--json"))
    assert (row["on_bookies"], row["cold_only"]) == (3, 0)
    for each in objects(tmp_path):
        each.unlink()
    assert cluster.step("read") == before


def test_logs_below_a_name_are_looked_at_too(cluster: ColdCluster) -> None:
    where = ("-m", cluster.metadata, "-n", cluster.namespace)
    output("log", "create", "a/b/c", "a/b", *where)
    cluster.step("copy")
    assert [row["log"] for row in json.loads(cluster.cli("status", "--json"))] == [
        "a/b",
        "a/b/c",
        "s",
    ]
    assert {row["log"] for row in json.loads(cluster.cli("verify", "--json"))} == {"s"}


def test_what_is_wrong_on_the_command_line_is_said(cluster: ColdCluster) -> None:
    assert cluster.cli("restore", "nosuch", "1", code=1) == ""
    assert cluster.cli("verify", "nosuch", code=1) == ""
    assert cluster.cli("status", "nosuch", code=1) == ""
