"""A Docker daemon for the container tests: the one that answers, else a private one."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from time import monotonic, sleep
from typing import Final, Self

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / ".cache" / "docker"
START_WITHIN_S: Final = 60
STOP_WITHIN_S: Final = 60


def docker(*arguments: str, within_s: float = 300) -> str:
    """Run `docker` and return what it prints. Errors: AssertionError with what it said."""
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=within_s, check=False
    )
    assert done.returncode == 0, f"docker {' '.join(arguments)}:\n{done.stdout}{done.stderr}"
    return done.stdout.strip()


def said_by(container: str) -> str:
    """Return a container's log."""
    done = subprocess.run(["docker", "logs", container], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def answers() -> bool:
    """Whether a daemon answers."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0


def missing() -> str:
    """Return what a private daemon would need and is not here; empty if it can be started."""
    if os.geteuid() != 0:
        return "root"
    return " ".join(each for each in ("docker", "dockerd", "iptables") if not shutil.which(each))


class CannotStart(Exception):
    """A private daemon cannot run here."""


class Engine:
    """A private daemon. Its images stay in the cache, so that the next run builds little."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tailrace-docker-"))  # paths of sockets: short
        self._log = self._folder / "log"
        self._daemon: subprocess.Popen[bytes] | None = None
        self.address = f"unix://{self._folder / 'socket'}"

    def start(self) -> Self:
        """Start it, make `docker` use it, and return once it answers.

        Errors: CannotStart if it ends by itself: not every root may mount and make networks.
        """
        images = (CACHE / "engine").resolve()  # runc takes no path with a symbolic link
        folders = ("--data-root", images, "--exec-root", self._folder / "run")
        with self._log.open("wb") as log:
            self._daemon = subprocess.Popen(
                ["dockerd", *folders, "--pidfile", self._folder / "pid", "--host", self.address],
                stdout=log,
                stderr=log,
            )
        os.environ["DOCKER_HOST"] = self.address
        deadline = monotonic() + START_WITHIN_S
        while not answers():
            if self._daemon.poll() is not None:
                said = self._log.read_text().splitlines()[-1:]
                self.close()
                raise CannotStart(f"dockerd ends at its start: {' '.join(said)}")
            assert monotonic() < deadline, self._log.read_text()[-4000:]
            sleep(0.1)
        return self

    def close(self) -> None:
        """End it, and with it every container."""
        assert self._daemon is not None
        if self._daemon.poll() is None:
            self._daemon.send_signal(signal.SIGTERM)
            self._daemon.wait(STOP_WITHIN_S)
        del os.environ["DOCKER_HOST"]
        shutil.rmtree(self._folder, ignore_errors=True)
