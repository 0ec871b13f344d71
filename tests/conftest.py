"""Fixtures that every kind of test shares."""

import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.process import TailraceProcess
from tests.zookeeper import ZooKeeperServer

_numbers = count()

ON_ONE_WORKER = (
    "tests/docker/",
    "tests/interop/bookkeeper/",
    "tests/interop/distributedlog/",
    "tests/interop/kafka/",
    "tests/java/",
    "tests/spark/",
    "tests/testing/",
)
"""Folders whose tests share what takes seconds to make: JVMs, an environment with the wheel."""


def pytest_configure() -> None:
    """Let processes that tests start be interrupted: a shell's background jobs ignore SIGINT."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep a folder's tests together with `--dist loadgroup`.

    xdist 3.8 tells groups by a suffix of test ids, which pytest 9.2 takes no notice of.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFolder(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((folder for folder in ON_ONE_WORKER if nodeid.startswith(folder)), nodeid)

    return ByFolder(config, log)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TailraceProcess]:
    """A broker for one module, started from the command line on a port of its own."""
    with TailraceProcess(tmp_path_factory.mktemp("broker") / "data") as running:
        yield running


@pytest.fixture
def broker_factory(tmp_path: Path) -> Iterator[type[TailraceProcess]]:
    """Brokers that a test starts, kills and starts again; whatever still runs is stopped."""
    made: list[TailraceProcess] = []

    class Made(TailraceProcess):
        def __init__(self, *arguments: str, data: Path | None = None) -> None:
            super().__init__(data or tmp_path / f"data-{next(_numbers)}", *arguments)
            made.append(self)

    yield Made
    for process in made:
        process.__exit__()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """A ZooKeeper for all tests of this process: each takes a root of its own (`make_root`)."""
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")).start()
    yield server
    server.stop()


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """A ZooKeeper for a test that stops, kills or pauses it."""
    server = ZooKeeperServer(tmp_path / "zookeeper").start()
    yield server
    server.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that nobody else uses."""
    return f"{request.node.name[:60].replace('[', '.').replace(']', '')}-{next(_numbers)}"


# Examples take as long as they take on a shared machine; the number of examples is the bound.
settings.register_profile("tailrace", deadline=None)
settings.load_profile("tailrace")
