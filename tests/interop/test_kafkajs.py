"""KafkaJS (what most Node programs have): its program runs here, its package comes once by npm."""

import subprocess

import pytest

from tests.interop.kafkajs_programs import kafkajs_program
from tests.process import TailraceProcess

pytestmark = pytest.mark.interop

_TIMEOUT_S = 60


def test_topics_records_groups_and_offsets(broker: TailraceProcess, topic: str) -> None:
    done = subprocess.run(
        [*kafkajs_program("main"), broker.bootstrap, topic],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split("\n")[-2] == "offsets ok"
