"""Kafka clients on the host, and in a container beside the broker's."""

import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Final

from tests.docker.engine import docker
from tests.docker.images import IMAGE

CLIENTS: Final = ("aiokafka", "confluent-kafka")
SCRIPT: Final = Path(__file__).with_name("round_trip.py")
WITHIN_S: Final = 120
_topics = count()


def from_the_host(client: str, bootstrap: str) -> str:
    """Produce and consume, and return what was printed."""
    command = [sys.executable, str(SCRIPT), client, bootstrap, f"host-{next(_topics)}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.strip()


def from_a_container(client: str, bootstrap: str, network: str, site_packages: Path) -> str:
    """Produce and consume in a container of a network; aiokafka, which no image has, is lent."""
    lent = ["--env", "PYTHONPATH=/lent"]
    for name in ("aiokafka", "async_timeout", "packaging"):
        if (site_packages / name).exists():
            lent += ["--volume", f"{site_packages / name}:/lent/{name}:ro"]
    return docker(
        *("run", "--rm", "--network", network, "--volume", f"{SCRIPT}:/{SCRIPT.name}:ro", *lent),
        *("--entrypoint", "python", IMAGE, f"/{SCRIPT.name}"),
        *(client, bootstrap, f"container-{next(_topics)}"),
        within_s=WITHIN_S,
    )
