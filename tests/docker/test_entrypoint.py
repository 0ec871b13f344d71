"""What the image's entrypoint makes of options and variables; needs no Docker."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.docker.engine import ROOT
from tests.ports import free_port
from tests.server_process import READY_WITHIN_S, TAILRACE, ServerProcess

BOTH = {
    "DATA": "/var/lib/tailrace",
    "LISTENERS": "HOST://0.0.0.0:9092,DOCKER://0.0.0.0:19092",
    "INSECURE_LISTENERS": "true",
    "INTER_BROKER_LISTENER_NAME": "DOCKER",
    "ADVERTISED_LISTENERS": "HOST://localhost:9092",
}
DATA_ALONE = {"DATA": BOTH["DATA"]}
UNTOLD = {name: value for name, value in BOTH.items() if name != "ADVERTISED_LISTENERS"}
IN_A_CLUSTER = {name: value for name, value in BOTH.items() if name != "DATA"}
PREFIX = "TAILRACE_"


def run(folder: Path, *arguments: str, **variables: str) -> tuple[str, dict[str, str]]:
    """Return what `tailrace` was called with, and the variables it was given."""
    shown = folder / "tailrace"
    shown.write_text(f'#!/bin/sh\necho "$*"\nenv | grep ^{PREFIX} || true\n')
    shown.chmod(0o755)
    given = {PREFIX + name: value for name, value in variables.items()}
    words, *lines = subprocess.run(
        ["/bin/sh", str(ROOT / "docker" / "entrypoint"), *arguments],
        env={"PATH": f"{folder}:{os.environ['PATH']}", **given},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    pairs = (line.removeprefix(PREFIX).partition("=") for line in lines)
    return words, {name: value for name, _, value in pairs}


@pytest.mark.parametrize(
    ("arguments", "called", "told"),
    [
        ("start", "start", BOTH),
        ("--set num.partitions=3", "start --set num.partitions=3", BOTH),
        ("broker --set a=b", "broker --set a=b", IN_A_CLUSTER),
        ("start --listen :9", "start --listen :9", DATA_ALONE),
        ("start --set listeners=A://:9", "start --set listeners=A://:9", DATA_ALONE),
        ("--set=listeners=A://:9", "start --set=listeners=A://:9", DATA_ALONE),
        ("start --advertise h:9", "start --advertise h:9", UNTOLD),
        ("--set advertised.listeners=H://h:9", "start --set advertised.listeners=H://h:9", UNTOLD),
        ("--version", "--version", {}),
        ("topic list", "topic list", {}),
        ("bookie --listen :9", "bookie --listen :9", {}),
    ],
)
def test_options(tmp_path: Path, arguments: str, called: str, told: dict[str, str]) -> None:
    assert run(tmp_path, *arguments.split()) == (called, told)


def test_variables_that_are_set_stay_as_they_are(tmp_path: Path) -> None:
    own = {"LISTENERS": "A://:9", "DATA": "/d"}
    assert run(tmp_path, "start", **own) == ("start", own)
    for told in ("HOST://h:9", ""):
        given = {"ADVERTISED_LISTENERS": told, "INTER_BROKER_LISTENER_NAME": "HOST"}
        assert run(tmp_path, "start", **given) == ("start", {**BOTH, **given})


def test_the_secure_compose_file_starts_a_broker_that_asks_who_comes(tmp_path: Path) -> None:
    """What `docker/secure.yaml` gives to a container, given to a process."""
    text = (ROOT / "docker" / "secure.yaml").read_text()
    ports = {port: str(free_port()) for port in ("9092", "19092", "29092")}
    for port, other in ports.items():
        text = re.sub(rf"(?<=:){port}\b", other, text)
    text = text.replace("${PORT:-9092}", ports["9092"])
    service = yaml.safe_load(text)["services"]["tailrace"]
    environment = {**service["environment"], "TAILRACE_DATA": str(tmp_path / "data")}
    with Started(environment, service["command"]) as broker:
        assert f"ready: bootstrap=localhost:{ports['9092']}" in broker.output
        _, *health = service["healthcheck"]["test"]
        done = subprocess.run([sys.executable, *health[1:]], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        written = (tmp_path / "data" / "security" / "librdkafka.properties").read_text()
        given = dict(line.split("=", 1) for line in written.splitlines())
        admin = AdminClient({**given, "bootstrap.servers": f"localhost:{ports['9092']}"})
        assert set(admin.list_topics(timeout=30).brokers) == {1}
        with pytest.raises(KafkaException):
            AdminClient(
                {"bootstrap.servers": f"localhost:{ports['9092']}", "log_level": 0}
            ).list_topics(timeout=1)


class Started(ServerProcess):
    """The entrypoint with the `tailrace` of the tests."""

    ready_line = "ready: "

    def __init__(self, environment: dict[str, str], command: str) -> None:
        super().__init__()
        variables = [f"{name}={value}" for name, value in environment.items()]
        path = f"PATH={TAILRACE.parent}:{os.environ['PATH']}"
        entrypoint = str(ROOT / "docker" / "entrypoint")
        self.command = ["env", path, *variables, "/bin/sh", entrypoint, *command.split()]

    def __enter__(self) -> Self:
        ready = self.launch_command(self.command).get(timeout=READY_WITHIN_S)
        assert ready is not None, self.output
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
