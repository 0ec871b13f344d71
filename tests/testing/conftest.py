"""A user's environment with the wheel, and pytest runs in it."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.wheel import build_wheel, make_venv

RUN_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class UserPytest:
    """pytest in an environment of its own, in a project's folder; brokers' folders lie in `tmp`."""

    python: Path
    project: Path
    tmp: Path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it in the background."""
        environment = {**os.environ, "TMPDIR": str(self.tmp)}
        environment = {k: v for k, v in environment.items() if not k.startswith("PYTEST_")}
        return subprocess.Popen(
            [self.python, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
            cwd=self.project,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # a process group of its own, as a terminal would give it
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run it and return its exit code and what it printed."""
        with self.start(*arguments) as running:
            try:
                printed, _ = running.communicate(timeout=RUN_TIMEOUT_S)
            finally:
                running.kill()
        return running.returncode, printed

    def left(self) -> list[Path]:
        """Return the folders of brokers that are still there."""
        return list(self.tmp.glob("tailrace-*"))


@pytest.fixture(scope="session")
def user_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("user")
    return make_venv(folder / "venv", build_wheel(folder / "dist"))


@pytest.fixture
def user(user_python: Path, tmp_path: Path) -> Iterator[UserPytest]:
    """A user with an empty project."""
    project, tmp = tmp_path / "project", tmp_path / "tmp"
    project.mkdir()
    tmp.mkdir()
    (project / "pytest.ini").write_text("[pytest]\n")
    yield UserPytest(user_python, project, tmp)
    assert not list(tmp.glob("tailrace-*"))
