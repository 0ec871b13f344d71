"""`docker compose`, in whatever form it is here."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.docker.engine import ROOT

WITHIN_S: Final = 240


def compose_command() -> list[str]:
    """Return the plugin's command or the older program's; the test is skipped without either."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if plugin.returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    pytest.skip("neither `docker compose` nor docker-compose is here")


class Project:
    """One set of containers, from files below `docker/`, under a name of its own."""

    def __init__(self, name: str, *files: Path, **variables: str) -> None:
        self.name = name
        chosen = [part for file in files for part in ("--file", str(file))]
        self._command = [*compose_command(), "--project-name", name, *chosen]
        self._environment = {**os.environ, **variables}

    def run(self, *arguments: str) -> str:
        """Run one command. Errors: AssertionError with what it said."""
        done = subprocess.run(
            [*self._command, *arguments],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(arguments)}:\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def close(self) -> None:
        """Remove its containers, networks and volumes."""
        self.run("down", "--volumes", "--timeout", "0")
