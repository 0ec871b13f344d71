"""Fixtures that every kind of test shares."""

import asyncio
import gc
import linecache
import logging
import re
import signal
import traceback
import warnings
from collections.abc import Iterator
from functools import cache
from itertools import count, islice
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings

from tailrace.core.runtime.collector import loading_modules, look_seldom
from tests import bytecode
from tests.process import TailraceProcess
from tests.zookeeper import ZooKeeperServer

_numbers = count()
_walk_stack = traceback.walk_stack

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
BY_FILE = ("tests/cluster/", "tests/docs/", "tests/interop/")
"""Folders whose files have servers of their own, which each worker would start again."""
STACK_FRAMES = 4
"""How much of a stack asyncio's debug mode remembers of each future, task and call: whose line it
is. All of it, which it takes of futures, has pytest's sixty frames: half of the tests' CPU."""

_IMPORTS_KAFKA_PYTHON = re.compile(r"^\s*(from|import) kafka\b", re.MULTILINE)


@cache
def _uses_kafka_python(file: Path) -> bool:
    return _IMPORTS_KAFKA_PYTHON.search(file.read_text()) is not None


@pytest.fixture(autouse=True)
def _collect_what_kafka_python_leaves(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let go of the sockets that kafka-python does not close (those it could not connect) here.

    Else the collector finds them in some other test, which fails: warnings are errors. What it logs
    has errors that hold them.
    """
    caplog = None
    if _uses_kafka_python(request.node.path):
        caplog = request.getfixturevalue("caplog")
    yield
    if caplog is not None:
        caplog.get_records("call").clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let kafka-python leave sockets open in its own tests."""
    if _uses_kafka_python(item.path):
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
        item.add_marker(
            pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
        )


def pytest_configure() -> None:
    """Have debug mode remember little, and SIGINT reach what tests start.

    A shell's background jobs ignore it, and so would the processes that they start. For each stack
    `traceback` asks the file system whether sources have changed: no test changes one. How long a
    busy machine takes for a step of a loop, which debug mode warns of, is nothing that tests count.
    """
    asyncio.constants.DEBUG_STACK_DEPTH = STACK_FRAMES  # type: ignore[misc]
    traceback.walk_stack = _nearest_frames
    unasked = vars(linecache) | {"checkcache": lambda _filename: None}
    traceback.linecache = SimpleNamespace(**unasked)  # type: ignore[attr-defined]
    logging.getLogger("asyncio").addFilter(_tells_no_time)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _tells_no_time(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Executing ")


def _nearest_frames(f: FrameType | None) -> Iterator[tuple[FrameType, int]]:
    return islice(_walk_stack(f), STACK_FRAMES)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Look for no garbage meanwhile, nor ever in what the collected tests consist of; then seldom.

    As a broker does (`core/runtime/collector.py`): the looks were a twentieth of the tests' CPU.
    """
    with loading_modules():
        bytecode.make_share(session.config)
        collected = yield
    look_seldom()
    return collected


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a folder, or a file, together with `--dist loadgroup`.

    xdist 3.8 tells groups by a suffix of test ids, which pytest 9.2 takes no notice of.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class BySharedServers(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            for folder in ON_ONE_WORKER:
                if nodeid.startswith(folder):
                    return folder
            return nodeid.partition("::")[0] if nodeid.startswith(BY_FILE) else nodeid

        def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
            for scope in [scope for scope, tests in workload.items() if all(tests.values())]:
                del workload[scope]  # else each test of thousands looks at all before it
            return super()._pending_of(workload)

    return BySharedServers(config, log)


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
