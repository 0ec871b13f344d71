"""`tailrace region` on bookie processes that say where they stand."""

from pathlib import Path

import pytest

from tailrace.tools.errors import Exit
from tests.bookie_process import BookieUnderTest
from tests.cluster.cli import output, parsed, refusal
from tests.zookeeper import ZooKeeperServer


@pytest.fixture
def uri(zookeeper: ZooKeeperServer) -> str:
    """A cluster without bookies."""
    uri = f"zk://{zookeeper.hosts}{zookeeper.make_root()}/ledgers"
    output("cluster", "init", "--metadata", uri)
    return uri


def test_regions_as_bookies_say_and_as_operators_open_them(uri: str, tmp_path: Path) -> None:
    rules = ("--rules", f"/{uri.rsplit('/', 2)[1]}/regions")
    here = BookieUnderTest(uri, tmp_path / "b1", "--set", "networkLocation=/eu/r1")
    there = BookieUnderTest(uri, tmp_path / "b2", "--set", "networkLocation=/us/r1")
    silent = BookieUnderTest(uri, tmp_path / "b3")
    try:
        for bookie in (here, there, silent):
            bookie.start()

        def regions() -> dict[str, tuple[int, str]]:
            rows = parsed("region", "list", "-m", uri, *rules)
            return {row["region"]: (row["writable"], row["new_copies"]) for row in rows}

        open_everywhere = {"default-region": (1, "yes"), "eu": (1, "yes"), "us": (1, "yes")}
        assert regions() == open_everywhere
        output("region", "close", "us", "-m", uri, *rules)
        output("region", "close", "asia", "-m", uri, *rules)
        assert regions() == open_everywhere | {"us": (1, "closed"), "asia": (0, "closed")}
        output("region", "open", "us", "-m", uri, *rules)
        output("region", "write", "us", "-m", uri, *rules)
        assert regions()["eu"] == (1, "not to be written")
        assert regions()["us"] == (1, "yes")
        output("region", "write", "--configured", "-m", uri, *rules)
        output("region", "open", "asia", "-m", uri, *rules)
        assert regions() == open_everywhere

        here.stop()
        here.arguments = ("--set", "networkLocation=/asia/r1")
        here.start()
        assert set(regions()) == {"default-region", "asia", "us"}
    finally:
        for bookie in (here, there, silent):
            bookie.close()


def test_what_is_refused(uri: str) -> None:
    assert "name regions" in refusal(Exit.USAGE, "region", "write", "-m", uri)
    assert "name regions" in refusal(Exit.USAGE, "region", "write", "eu", "--all", "-m", uri)
    rules = ("--rules", f"/{uri.rsplit('/', 2)[1]}/regions")
    output("region", "close", "us", "-m", uri, *rules)
    text = refusal(Exit.FAILED, "region", "open", "su", "-m", uri, *rules)
    assert "region su is not closed" in text
    assert "closed: us" in text
