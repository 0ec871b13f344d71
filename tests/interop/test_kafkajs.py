"""KafkaJS (what most Node programs have): its program runs here, its package comes once by npm."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fetched import CACHE, once, tool
from tests.process import TailraceProcess
from tests.sasl_broker import MECHANISMS, SaslBroker

pytestmark = pytest.mark.interop

_SOURCE = Path(__file__).with_name("kafkajs")
_FILES = ("package.json", "package-lock.json", ".npmrc", "main.js")
_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def program() -> list[str]:
    node, npm = tool("node"), tool("npm")
    folder = CACHE / "kafkajs"
    with once(folder, b"".join((_SOURCE / name).read_bytes() for name in _FILES)) as todo:
        if todo:
            for name in _FILES:
                shutil.copy(_SOURCE / name, folder)
            done = subprocess.run(
                [npm, "ci"], cwd=folder, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
    return [node, str(folder / "main.js")]


def test_topics_records_groups_and_offsets(
    broker: TailraceProcess, topic: str, program: list[str]
) -> None:
    done = subprocess.run(
        [*program, broker.bootstrap, topic],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split("\n")[-2] == "offsets ok"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_it_logs_in_over_tls(sasl: SaslBroker, program: list[str], mechanism: str) -> None:
    done = subprocess.run(
        [*program, sasl.ssl, f"kafkajs-{mechanism}"],
        env=os.environ | sasl.environment(mechanism),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "offsets ok" in done.stdout
