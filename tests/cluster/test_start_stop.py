"""`tailrace start`: what it prints, how it ends, and that nobody shares its folder."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.process import TailraceProcess
from tests.server_process import TAILRACE


def _run(*arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(TAILRACE), *arguments], capture_output=True, text=True, timeout=timeout, check=False
    )


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(
    broker_factory: Callable[..., TailraceProcess], how: signal.Signals
) -> None:
    broker = broker_factory().start()
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("t", b"v")
    assert producer.flush(30) == 0
    assert broker.end(how) == 0
    assert "Traceback" not in broker.output


def test_a_second_start_names_the_holder(broker_factory: Callable[..., TailraceProcess]) -> None:
    broker = broker_factory().start()
    second = _run("start", "--data", str(broker.data), "--listen", "127.0.0.1:0")
    assert second.returncode != 0
    assert str(broker.pid) in second.stderr
    assert "Traceback" not in second.stderr


def test_a_taken_port_is_named(
    broker_factory: Callable[..., TailraceProcess], tmp_path: Path
) -> None:
    broker = broker_factory().start()
    second = _run("start", "--data", str(tmp_path / "other"), "--listen", broker.bootstrap)
    assert second.returncode != 0
    assert broker.bootstrap in second.stderr
    assert "Traceback" not in second.stderr


def test_an_unknown_key_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    done = _run("start", "--data", str(tmp_path / "d"), "--set", "num.partition=3")
    assert done.returncode != 0
    assert "num.partitions" in done.stderr
    assert not (tmp_path / "d").exists()


def test_every_source_of_settings(
    broker_factory: Callable[..., TailraceProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tailrace.toml"
    file.write_text('"num.partitions" = 2\n"auto.create.topics.enable" = false\n')
    monkeypatch.setenv("TAILRACE_NUM_PARTITIONS", "3")
    broker = broker_factory(
        "--config", str(file), "--set", "auto.create.topics.enable=true"
    ).start()
    done = _run("topic", "create", "t", "--bootstrap", broker.bootstrap)
    assert done.returncode == 0, done.stderr
    listed = _run("topic", "describe", "t", "--bootstrap", broker.bootstrap, "--json")
    assert listed.stdout.count('"leader"') == 3


def test_the_module_runs_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tailrace", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert "start" in done.stdout
