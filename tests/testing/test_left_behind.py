"""However a test run ends, no process, port or directory of a broker is left."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import psutil
import pytest

from tailrace.testing.ports import reserve_port
from tests.testing.conftest import RUN_TIMEOUT_S, UserPytest

_BROKERS = int(os.environ.get("FIXTURE_TEST_BROKERS", "8"))
"""Side by side under xdist; 20 is what the fixture promises on two cores."""
_GONE_TIMEOUT_S = 60

_HANGS = """
import os, threading

def test_hangs({fixtures}):
    brokers = [{fixtures}]
    brokers[-1].pause()
    text = "".join(f"{{b.pid}} {{b.port}}\\n" for b in brokers)
    with open("part", "w") as file:
        file.write(text)
    os.rename("part", "brokers")
    threading.Event().wait(600)
"""

_MANY = """
import os, pytest
from tailrace.testing.metadata import answers

@pytest.mark.parametrize("number", range({workers}))
def test_two_each(number, tailrace, tailrace_broker, barrier):
    assert tailrace.port != tailrace_broker.port
    for broker in (tailrace, tailrace_broker):
        assert answers(broker.host, broker.port, 30)
        with open("ports", "a") as file:
            file.write(f"{{broker.pid}} {{broker.port}}\\n")
    barrier()
"""

_BARRIER = """
import pathlib, time, pytest

@pytest.fixture
def barrier(worker_id):
    def wait():
        here = pathlib.Path("here")
        here.mkdir(exist_ok=True)
        (here / worker_id).touch()
        deadline = time.monotonic() + 100
        while len(list(here.iterdir())) < {workers}:
            assert time.monotonic() < deadline, "not all workers came"
            time.sleep(0.01)
    return wait
"""


@contextmanager
def hanging(user: UserPytest, fixtures: str, *arguments: str) -> Iterator[Popen[str]]:
    """Run a test that hangs with brokers, the last of them paused."""
    (user.project / "test_it.py").write_text(_HANGS.format(fixtures=fixtures))
    with user.start(*arguments) as running:
        try:
            deadline = time.monotonic() + RUN_TIMEOUT_S
            while not (user.project / "brokers").exists():
                assert running.poll() is None, running.communicate()[0]
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield running
        finally:
            running.kill()


def brokers(path: Path) -> tuple[list[psutil.Process], list[int]]:
    """Return the brokers that a run wrote down with their guardians, and their ports."""
    found = [tuple(map(int, line.split())) for line in path.read_text().splitlines()]
    processes = [psutil.Process(pid) for pid, _ in found]
    guardians = [parent for one in processes if (parent := one.parent()) is not None]
    assert len(guardians) == len(processes)
    return processes + guardians, [port for _, port in found]


def assert_gone(user: UserPytest, processes: list[psutil.Process], ports: list[int]) -> None:
    _, alive = psutil.wait_procs(processes, _GONE_TIMEOUT_S)
    assert alive == []
    for port in ports:
        reserve_port(port).close()
    assert user.left() == []


@pytest.mark.crash
@pytest.mark.parametrize(
    ("fixtures", "workers"),
    [("tailrace, tailrace_broker", []), ("tailrace", ["-n", "1"])],
    ids=["plain", "xdist"],
)
def test_kill_9_of_pytest_leaves_nothing(
    user: UserPytest, fixtures: str, workers: list[str]
) -> None:
    with hanging(user, fixtures, *workers) as running:
        processes, ports = brokers(user.project / "brokers")
        assert len(user.left()) == len(ports)
        running.kill()
        assert_gone(user, processes, ports)


@pytest.mark.crash
@pytest.mark.parametrize("delay_ms", [0, 20, 40, 80, 160, 320])
def test_kill_9_while_it_starts_leaves_nothing(tmp_path: Path, delay_ms: int) -> None:
    code = """
import tempfile
tempfile.gettempdir()  # Python writes and removes a file of its own there, the first time
from tailrace.testing import Broker
print("go", flush=True)
Broker().start()
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with Popen([sys.executable, "-c", code], stdout=PIPE, env=environment) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"go\n"
        time.sleep(delay_ms / 1000)  # the kill comes at another step each time
        left = processes_that_name(tmp_path)
        running.kill()
    _, alive = psutil.wait_procs(left, _GONE_TIMEOUT_S)
    deadline = time.monotonic() + _GONE_TIMEOUT_S
    while processes_that_name(tmp_path):  # one that was about to be started
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert alive == []
    assert list(tmp_path.iterdir()) == []


def processes_that_name(folder: Path) -> list[psutil.Process]:
    """Return the guardian and the broker of a folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or [])
    ]


def test_ctrl_c_leaves_nothing(user: UserPytest) -> None:
    with hanging(user, "tailrace") as running:
        processes, ports = brokers(user.project / "brokers")
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        printed, _ = running.communicate(timeout=RUN_TIMEOUT_S)
        assert running.returncode == pytest.ExitCode.INTERRUPTED, printed
        assert_gone(user, processes, ports)


def test_many_side_by_side_under_xdist(user: UserPytest) -> None:
    workers = _BROKERS // 2
    (user.project / "test_it.py").write_text(_MANY.format(workers=workers))
    (user.project / "conftest.py").write_text(_BARRIER.format(workers=workers))
    code, printed = user.run("-n", str(workers), "-o", "tailrace_start_timeout=100")
    assert code == 0, printed
    lines = (user.project / "ports").read_text().split("\n")[:-1]
    assert len({line.split()[1] for line in lines}) == 2 * workers
    assert not any(psutil.pid_exists(int(line.split()[0])) for line in lines)
    assert user.left() == []
