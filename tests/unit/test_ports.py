"""A port that a test was given is given to no other, whatever else is tested on this machine."""

import subprocess
import sys

from tests.ports import FIRST, free_port
from tests.rooms import ROOT

_FROM = (
    "from tests import ports; ports._tries = iter(range({0}, {0} + 100)); print(ports.free_port())"
)


def test_a_port_is_given_to_one_process() -> None:
    """Also while no process listens on it: its server is being started, or was killed."""
    given = {free_port() for _ in range(3)}
    code = _FROM.format(min(given) - FIRST)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) not in given
