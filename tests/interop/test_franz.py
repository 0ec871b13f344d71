"""franz-go, mostly with its defaults: a Go program that is built here, from the module proxy."""

import subprocess

import pytest

from tests.interop.franz_programs import franz_program
from tests.process import TailraceProcess

pytestmark = pytest.mark.interop

_RUN_TIMEOUT_S = 30


def test_topics_records_groups_and_transactions(broker: TailraceProcess, topic: str) -> None:
    name = f"{topic}-franz"
    done = subprocess.run(
        [franz_program("franz"), broker.bootstrap, name],
        capture_output=True,
        text=True,
        timeout=_RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "administer ok"
