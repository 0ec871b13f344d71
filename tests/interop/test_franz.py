"""franz-go, mostly with its defaults: a Go program that is built here, from the module proxy."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.process import TailraceProcess
from tests.sasl_broker import MECHANISMS, SaslBroker

pytestmark = pytest.mark.interop

_SOURCE = Path(__file__).with_name("franz")
_BUILD_TIMEOUT_S = 240
_BUILD = ("go", "build", "-buildvcs=false", "-gcflags=all=-l -dwarf=false", "-ldflags=-s -w")
_BUILD_SETTINGS = {"CGO_ENABLED": "0", "GOGC": "400"}
"""On a new machine Go's library is compiled as well, for a run of seconds: nothing is inlined,
nothing is told to debuggers, no C. Of 75 CPU-seconds 35 are left."""
_RUN_TIMEOUT_S = 30


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    built = tmp_path_factory.mktemp("franz") / "franz"
    done = subprocess.run(
        [*_BUILD, "-o", str(built), "."],
        cwd=_SOURCE,
        env=os.environ | _BUILD_SETTINGS,
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return built


def test_topics_records_groups_and_transactions(
    broker: TailraceProcess, topic: str, program: Path
) -> None:
    name = f"{topic}-franz"
    done = subprocess.run(
        [program, broker.bootstrap, name],
        capture_output=True,
        text=True,
        timeout=_RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "administer ok"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_it_logs_in_over_tls(sasl: SaslBroker, program: Path, mechanism: str) -> None:
    done = subprocess.run(
        [program, sasl.ssl, f"franz-{mechanism}"],
        env=os.environ | sasl.environment(mechanism),
        capture_output=True,
        text=True,
        timeout=_RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "administer ok" in done.stdout
