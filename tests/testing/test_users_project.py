"""A user's project with packages called `core`, `protocol` and `broker`, beside the wheel."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.three_bookies import ThreeBookies
from tests.docs.page import DOCS, program, run_page
from tests.process import TailraceProcess
from tests.testing.conftest import UserPytest
from tests.wheel import site_packages
from tests.zookeeper import ZooKeeperServer

SEEDS = 50
SEEDS_WITHIN_S = 240


@pytest.fixture(scope="session")
def own_packages(user_python: Path) -> Path:
    """Put the user's packages where everything of the environment finds them first."""
    site = site_packages(user_python.parents[1])
    for name in ("core", "protocol", "broker"):
        (site / name).mkdir()
        (site / name / "__init__.py").write_text("mine = True\n")
    (site / "own.pth").write_text(
        "import core, protocol, broker\n"
    )  # in each process, at its start
    return user_python


def test_its_tests_use_the_fixture(own_packages: Path, user: UserPytest) -> None:
    (user.project / "test_orders.py").write_text(
        "import broker, core, protocol\n\n\n"
        "def test_a_broker_is_there(tailrace_broker):\n"
        "    assert core.mine and protocol.mine and broker.mine\n"
        "    tailrace_broker.kill()\n"
        "    tailrace_broker.start()\n"
    )
    code, printed = user.run()
    assert code == 0, printed


def test_it_restores_a_changelog(own_packages: Path, tmp_path: Path) -> None:
    command = own_packages.with_name("tailrace")
    with TailraceProcess(tmp_path / "data", command=command) as broker:
        where = {"TAILRACE_BOOTSTRAP": broker.bootstrap}
        assert "live: 1, hash" in run_page("restore.md", where, tmp_path, own_packages)


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[ThreeBookies]:
    with ThreeBookies(zookeeper, tmp_path / "cluster") as running:
        yield running


@pytest.mark.java  # of ZooKeeper
def test_it_embeds_the_log(own_packages: Path, cluster: ThreeBookies, tmp_path: Path) -> None:
    where = {"TAILRACE_NAMESPACE": cluster.namespace, "TAILRACE_METADATA": cluster.metadata}
    assert "payments: 2 records" in run_page("dlog.md", where, tmp_path, own_packages)


def test_it_is_simulated(own_packages: Path, tmp_path: Path) -> None:
    story = program(DOCS / "sim.md").partition('\nif __name__ == "__main__":')[0]
    (tmp_path / "payments.py").write_text(story)
    (tmp_path / "seeds.py").write_text(
        "import payments\nfrom tailrace import sim\n\n"
        'if __name__ == "__main__":\n'
        f"    print(sim.failures(payments.story, range({SEEDS}), jobs=2))\n"
    )
    done = subprocess.run(
        [str(own_packages), "seeds.py"],
        cwd=tmp_path,
        env={"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=SEEDS_WITHIN_S,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
