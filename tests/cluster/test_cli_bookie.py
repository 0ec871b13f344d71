"""`tailrace bookie list|info|cookie|format|rebuild-index` on a cluster of bookie processes."""

import asyncio
from pathlib import Path

import pytest

from tailrace.tools.errors import Exit
from tests.bookie_process import BookieUnderTest
from tests.cluster.cli import output, parsed, refusal, tailrace
from tests.unit.bookie.world import L1, add, ask, open_small
from tests.zookeeper import ZooKeeperServer


@pytest.fixture
def uri(zookeeper: ZooKeeperServer) -> str:
    """A cluster without bookies."""
    uri = f"zk://{zookeeper.hosts}{zookeeper.make_root()}/ledgers"
    output("cluster", "init", "--metadata", uri)
    return uri


def test_a_bookie_s_life_as_its_operator_sees_it(uri: str, tmp_path: Path) -> None:
    bookie = BookieUnderTest(uri, tmp_path / "bookie").start()
    name = bookie.bookie_id
    try:
        (row,) = parsed("bookie", "list", "-m", uri)
        assert row == {"bookie": name, "mode": "writable", "address": name, "http": None}
        (room,) = parsed("bookie", "info", "-m", uri)
        assert (room["bookie"], room["status"]) == (name, "EOK")
        assert 0 < room["free_bytes"] < room["total_bytes"]
        assert f'bookieHost: "{name}"' in output("bookie", "cookie", name, "-m", uri).decode()
        said = refusal(Exit.FAILED, "bookie", "cookie", name, "-m", uri, "--delete", "--yes")
        assert "is running" in said
        said = refusal(Exit.FAILED, "bookie", "format", "--data", str(bookie.data), "--yes")
        assert f"in use by process {bookie.pid}" in said
    finally:
        bookie.stop()

    (row,) = parsed("bookie", "list", "-m", uri)
    assert row["mode"] == "not running"
    gone = tailrace("bookie", "info", name, "-m", uri)
    assert gone.returncode == 1
    assert b"LOCAL_UNAVAILABLE" in gone.stdout

    said = refusal(Exit.FAILED, "bookie", "format", "--data", str(bookie.data), stdin=b"n\n")
    assert "nothing was erased" in said
    output("bookie", "format", "--data", str(bookie.data), stdin=b"y\n")
    assert not list(bookie.data.glob("bookie/*/current"))
    assert "cookie" in bookie.refused()  # an id that promised something, without its data

    said = refusal(Exit.FAILED, "bookie", "cookie", name, "-m", uri, "--delete", stdin=b"n\n")
    assert "nothing was deleted" in said
    output("bookie", "cookie", name, "-m", uri, "--delete", "--yes")
    assert parsed("bookie", "list", "-m", uri) == []
    assert "no cookie" in refusal(Exit.FAILED, "bookie", "cookie", name, "-m", uri)
    bookie.start()
    bookie.close()


def test_format_without_a_bookie(tmp_path: Path) -> None:
    said = refusal(Exit.FAILED, "bookie", "format", "--data", str(tmp_path), "--yes")
    assert "no files of a bookie" in said


def test_rebuild_index(tmp_path: Path) -> None:
    where = ("bookie", "rebuild-index", "--data", str(tmp_path))
    assert "no files of a bookie" in refusal(Exit.FAILED, *where)

    async def write() -> None:
        bookie = await open_small(tmp_path / "bookie")
        for entry_id in range(70):
            await ask(bookie, add(L1, entry_id))
        await bookie.checkpoint()
        refused = await asyncio.to_thread(refusal, Exit.FAILED, *where)
        assert "in use by process" in refused
        await bookie.close()

    asyncio.run(write())
    assert parsed(*where) == []
    (path,) = tmp_path.rglob("*.idx")
    path.write_bytes(path.read_bytes()[:1024] + bytes(8192))
    (planned,) = parsed(*where, "--dry-run")
    assert (planned["ledger"], planned["entries"], planned["fenced"]) == (1, 70, False)
    assert "damaged" in planned["why"]
    assert "not a list of ledger ids" in refusal(Exit.FAILED, *where, "-l", "one")
    assert parsed(*where, "-l", "1") == [planned]
    assert parsed(*where) == []
