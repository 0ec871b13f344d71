"""A server that is forked is a process like that of the executable, and does what that does."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.forks import may_be_fork
from tests.ports import free_port
from tests.process import TailraceProcess
from tests.server_process import TAILRACE, Child, execute, fork

_WITHIN_S = 60
_ROOT = Path(__file__).parents[2]
_LOOK = """
import gc, json, os, random, resource, signal, sys, threading

def about(stream):
    file = os.readlink(f"/proc/self/fd/{stream.fileno()}").partition(":")[0]
    kind = type(stream.buffer).__name__, stream.line_buffering, stream.write_through
    return file, *kind, stream.encoding, stream.errors

def lines(name):
    return dict(line.split(":", 1) for line in open(name).read().splitlines())

status = lines("/proc/self/status")
kept = "Umask State Groups NoNewPrivs Seccomp CapEff Cpus_allowed Mems_allowed Threads THP_enabled"
kept += " SigPnd ShdPnd SigBlk SigIgn SigCgt"
kernel = [f"/proc/self/{name}" for name in ("oom_score_adj", "timerslack_ns", "autogroup")]
limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
print(json.dumps({
    "argv": sys.argv,
    "path": sys.path,
    "file": __file__,
    "is_main": sys.modules["__main__"].__dict__ is globals(),
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "streams": [about(stream) for stream in (sys.stdin, sys.stdout, sys.stderr)],
    "are_first": [sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
    "descriptors": os.listdir("/proc/self/fd"),
    "status": {name: status.get(name) for name in kept.split()},
    "handlers": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
    "nice": os.nice(0),
    "kernel": {name: open(name).read() for name in kernel if os.path.exists(name)},
    "group": os.getpgrp(),
    "session": os.getsid(0),
    "threads": threading.active_count(),
    "collector": [gc.isenabled(), *gc.get_threshold()],
    "switches": sys.getswitchinterval(),
}))
print(json.dumps([os.getpid(), os.getppid(), random.random()]))
print("out", end=" ")
print("err", file=sys.stderr, end=" ")
print("out")
signal.pause()
"""

Start = Callable[..., Child]
both_ways = pytest.mark.parametrize("start", [execute, fork])


class Looking:
    """A process that says how it sees itself, and waits."""

    def __init__(self, start: Start, script: Path) -> None:
        self.child = start([str(script), "--set", "a=b\udcff"], _environment(GIVEN="1"))
        assert self.child.stdout is not None
        self.seen: dict[str, Any] = json.loads(self.child.stdout.readline())
        self.pid, self.parent, self.random = json.loads(self.child.stdout.readline())
        assert self.child.stdout.readline() == "out err out\n"
        assert self.pid == self.child.pid

    def end(self, how: int = signal.SIGTERM) -> int:
        assert self.child.poll() is None
        self.child.send_signal(how)
        return ended(self.child)[0]


def ended(child: Child) -> tuple[int, str]:
    """Return the exit code and the rest of what was printed."""
    assert child.stdout is not None
    with child.stdout as stdout:
        said = stdout.read()
    return child.wait(_WITHIN_S), said


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1", **more}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Something that can be executed."""
    made = tmp_path / "look"
    made.write_text(f"#!{sys.executable}\n{_LOOK}")
    made.chmod(0o755)
    return made


@contextmanager
def looking(start: Start, script: Path) -> Iterator[Looking]:
    process = Looking(start, script)
    try:
        yield process
    finally:
        process.child.kill()
        ended(process.child)


def test_it_sees_what_an_executed_one_sees(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with looking(fork, script) as earlier, looking(fork, script) as second:
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("HOME", raising=False)
        with looking(execute, script) as executed, looking(fork, script) as forked:
            assert forked.seen == executed.seen
            assert forked.seen["folder"] == str(tmp_path)
            assert len(forked.seen["descriptors"]) == 4, "its streams, and the one it looks with"
        assert earlier.seen["folder"] != str(tmp_path)
        assert earlier.parent == second.parent
        assert earlier.random != second.random


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1], ids=str)
@both_ways
def test_a_signal_that_it_does_not_handle_is_its_code(
    start: Start, how: signal.Signals, script: Path
) -> None:
    process = Looking(start, script)
    assert process.end(how) == -how
    assert process.child.poll() == process.child.wait(0) == -how
    assert not psutil.pid_exists(process.pid)
    process.child.send_signal(how)  # to nobody


@both_ways
def test_its_number_is_kept_until_its_end_was_heard(start: Start, script: Path) -> None:
    process = Looking(start, script)
    with pytest.raises(subprocess.TimeoutExpired):
        process.child.wait(0)
    os.kill(process.pid, signal.SIGKILL)
    assert process.child.stdout is not None
    assert process.child.stdout.read() == ""
    os.kill(process.pid, 0)
    assert ended(process.child)[0] == -signal.SIGKILL
    assert not psutil.pid_exists(process.pid)


def test_ctrl_c_leaves_others_to_be_forked(script: Path) -> None:
    with looking(fork, script) as first:
        os.kill(first.parent, signal.SIGINT)
        with looking(fork, script) as second:
            assert second.parent == first.parent


def test_it_ends_with_the_process_that_wanted_it(script: Path) -> None:
    code = (
        "import os, sys; from tests.server_process import fork; "
        "child = fork(sys.argv[1:], os.environ); [child.stdout.readline() for _ in range(3)]; "
        "print(child.pid, flush=True); sys.stdin.read(); os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", code, str(script)]
    pipe = subprocess.PIPE
    environment = _environment()
    with subprocess.Popen(command, cwd=_ROOT, env=environment, stdin=pipe, stdout=pipe) as tests:
        assert tests.stdout is not None
        end = os.pidfd_open(int(tests.stdout.readline()))
    try:
        assert select.select([end], [], [], _WITHIN_S)[0]
    finally:
        os.close(end)


@pytest.mark.parametrize("variable", ["PYTHONASYNCIODEBUG", "LC_ALL", "MALLOC_ARENA_MAX"])
def test_what_python_reads_at_its_start_needs_a_start(variable: str) -> None:
    assert may_be_fork(_environment())
    assert may_be_fork(_environment(TAILRACE_NUM_PARTITIONS="2"))
    assert not may_be_fork(_environment(**{variable: "1"}))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=str)
@both_ways
def test_a_broker_begins_and_ends(start: Start, how: signal.Signals, tmp_path: Path) -> None:
    data = tmp_path / "data"
    listen = f"127.0.0.1:{free_port()}"
    child = start([str(TAILRACE), "start", "--data", str(data), "--listen", listen], _environment())
    assert child.stdout is not None
    assert [child.stdout.readline() for _ in range(3)] == [
        f"Tailrace keeps its data in {data}\n",
        f"connect with bootstrap.servers={listen}; end with Ctrl-C\n",
        f"ready: bootstrap={listen}\n",
    ]
    assert (data / "tailrace.lock").read_text() == f"{child.pid}\n"
    child.send_signal(how)
    assert ended(child) == (0, "")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["start", "--data", "/dev/null/d"], 1),
        (["broker", "--metadata", "nonsense"], 2),
        (["bookie", "--none"], 2),
    ],
    ids=str,
)
def test_it_refuses_to_start_the_same(words: list[str], code: int) -> None:
    executed = ended(execute([str(TAILRACE), *words], _environment()))
    assert ended(fork([str(TAILRACE), *words], _environment())) == executed
    assert executed[0] == code


def test_one_that_ended_by_itself_leaves_nothing_open() -> None:
    """Else a start that fails fails the next test too: what it printed to is found unclosed."""
    process = TailraceProcess(Path("/dev/null/d"))
    with pytest.raises(AssertionError, match="ended before it was ready"):
        process.start()
    process.close()
    assert process._child is not None
    assert process._child.stdout is not None
    assert process._child.stdout.closed
