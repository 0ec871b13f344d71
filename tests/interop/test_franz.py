"""franz-go, mostly with its defaults: a Go program that is built here, from the module proxy."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.process import TailraceProcess

pytestmark = pytest.mark.interop

_SOURCE = Path(__file__).with_name("franz")
_BUILD_TIMEOUT_S = 240
_RUN_TIMEOUT_S = 30


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not installed")
    built = tmp_path_factory.mktemp("franz") / "franz"
    command = [go, "build", "-buildvcs=false", "-o", str(built), "."]
    done = subprocess.run(
        command, cwd=_SOURCE, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False
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
