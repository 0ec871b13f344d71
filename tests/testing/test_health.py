"""`python -m tailrace.health`: what health checks ask."""

import subprocess
import sys
from collections.abc import Callable

from tests.ports import free_port
from tests.process import TailraceProcess


def health(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "tailrace.health", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_it_tells_who_answers(broker_factory: Callable[..., TailraceProcess]) -> None:
    broker = broker_factory().start()
    done = health(broker.bootstrap)
    assert (done.returncode, done.stdout) == (0, f"{broker.bootstrap} answers\n")
    assert health(f":{broker.port}").returncode == 0


def test_it_tells_who_does_not() -> None:
    done = health(f"127.0.0.1:{free_port()}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not answer" in done.stderr


def test_a_host_that_cannot_be_is_one_that_does_not_answer() -> None:
    for host in ("x" * 64, "a..b"):
        done = health(f"{host}:9092")
        assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr


def test_what_is_no_address_is_refused() -> None:
    for wrong in (("nonsense",), ("h:x",), ("h:65536",), ("h:1", "h:2"), ("TLS://h:1",)):
        done = health(*wrong)
        assert done.returncode == 2
        assert "127.0.0.1:9092" in done.stderr
