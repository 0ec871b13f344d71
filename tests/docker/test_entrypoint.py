"""What the image's entrypoint makes of options and variables; needs no Docker."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.docker.engine import ROOT

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
