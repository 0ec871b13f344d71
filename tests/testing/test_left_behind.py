"""However a test run ends, no process, port or directory of a broker is left."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import psutil
import pytest

from tailrace.testing.ports import reserve_port
from tests.testing.conftest import RUN_TIMEOUT_S, UserPytest

_BROKERS = int(os.environ.get("TAILRACE_TEST_BROKERS", "8"))
"""Side by side under xdist; 20 is what the fixture promises on two cores."""
_GONE_TIMEOUT_S = 60

_HANGS = """
import os, threading

def test_hangs(tailrace, tailrace_broker):
    tailrace_broker.pause()
    text = "".join(f"{b.pid} {b.port}\\n" for b in (tailrace, tailrace_broker))
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
def hanging(user: UserPytest, *arguments: str) -> Iterator[Popen[str]]:
    """Run a test that hangs with two brokers, one of them paused."""
    (user.project / "test_it.py").write_text(_HANGS)
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
@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["plain", "xdist"])
def test_kill_9_of_pytest_leaves_nothing(user: UserPytest, workers: list[str]) -> None:
    with hanging(user, *workers) as running:
        processes, ports = brokers(user.project / "brokers")
        assert len(user.left()) == 2
        running.kill()
        assert_gone(user, processes, ports)


def test_ctrl_c_leaves_nothing(user: UserPytest) -> None:
    with hanging(user) as running:
        processes, ports = brokers(user.project / "brokers")
        running.send_signal(signal.SIGINT)
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
