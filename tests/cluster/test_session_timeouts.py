"""How soon ZooKeeper misses who died: what it grants, and what is said where that is not enough."""

import re
from pathlib import Path
from urllib.request import urlopen

import pytest

from tailrace.tools.cluster.cluster import ZOO_CFG, session_advice
from tests.cluster.cli import tailrace
from tests.cluster.three_bookies import ThreeBookies
from tests.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.java

AS_APACHE_SHIPS_IT = "tickTime=2000\nminSessionTimeout=-1\nmaxSessionTimeout=-1\n"
WHERE = "in zoo.cfg of every server: "


@pytest.fixture
def begun(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What `cluster init` says to people, on a ZooKeeper with these settings."""
    server = ZooKeeperServer(tmp_path / "zookeeper", settings=request.param).start()
    try:
        done = tailrace("cluster", "init", "--metadata", f"zk://{server.hosts}/ledgers")
    finally:
        server.stop()
    assert done.returncode == 0
    assert done.stdout.startswith(b"cluster ")
    return done.stderr.decode()


@pytest.mark.parametrize("begun", [AS_APACHE_SHIPS_IT], indirect=True)
def test_a_zookeeper_that_is_too_slow_is_told_what_to_change(begun: str) -> None:
    assert "misses a broker that died after 4000 ms, not 1000" in begun
    assert f"try, {WHERE}{ZOO_CFG}" in begun


@pytest.mark.parametrize("begun", ["\n".join([*ZOO_CFG.split(), ""])], indirect=True)
def test_what_it_is_told_is_enough(begun: str) -> None:
    assert begun == ""


@pytest.mark.parametrize(
    ("broker_ms", "bookie_ms", "words"),
    [
        (1_000, 10_000, []),
        (400, 10_000, []),
        (4_000, 10_000, ["minSessionTimeout is too long"]),
        (1_000, 4_000, ["maxSessionTimeout is too short"]),
        (4_000, 4_000, ["minSessionTimeout is too long", "maxSessionTimeout is too short"]),
    ],
)
def test_what_is_said(broker_ms: int, bookie_ms: int, words: list[str]) -> None:
    advice = session_advice(broker_ms, bookie_ms)
    assert len(advice) == len(words) + bool(words)
    assert all(word in line for word, line in zip(words, advice, strict=False))


def test_the_compose_file_says_the_same() -> None:
    names = {
        "ZOO_TICK_TIME": "tickTime",
        "ZOO_INIT_LIMIT": "initLimit",
        "ZOO_SYNC_LIMIT": "syncLimit",
    }
    text = (Path(__file__).parents[2] / "docker/cluster.yaml").read_text()
    said = [f"{names[name]}={value}" for name, value in re.findall(r'(ZOO_\w+): "(\d+)"', text)]
    said += re.findall(r"ZOO_CFG_EXTRA: (.*)", text)[0].split()
    assert sorted(said) == sorted(ZOO_CFG.split())


def test_a_broker_tells_that_it_is_missed_later_than_it_wants(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path / "zookeeper", settings=AS_APACHE_SHIPS_IT).start()
    try:
        with ThreeBookies(server, tmp_path) as cluster:
            http = ("--set", "admin.http.enable=true", "--set", "admin.http.port=0")
            broker = cluster.broker("--set", "zkSessionTimeout=1000", *http).start()
            (place,) = re.findall(r"admin: http=(\S+)", broker.output)
            with urlopen(f"http://{place}/metrics", timeout=30) as answer:
                metrics = answer.read().decode().splitlines()
            assert "metadata_sessions_total 1.0" in metrics, "how often sessions are lost is seen"
            assert "zookeeper_session_timeout asked_ms=1000 granted_ms=4000" in broker.output
            broker.kill()
            broker.restart()  # though what the dead one left stays for longer than it asked
    finally:
        server.stop()
