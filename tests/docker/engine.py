"""A Docker daemon for the container tests: the one that answers, else a private one."""

import ctypes
import fcntl
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
ANSWER_WITHIN_S: Final = 30
START_WITHIN_S: Final = 60
STOP_WITHIN_S: Final = 60
BRIDGE: Final = "docker0"
"""What a daemon makes, and does not remove."""
TURN_WITHIN_S: Final = 600
_PR_SET_PDEATHSIG: Final = 1
_prctl: Final = ctypes.CDLL(None).prctl  # found now: a child of a fork had better do little


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
    """Whether a daemon answers, soon."""
    if shutil.which("docker") is None:
        return False
    command = ["docker", "version"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=ANSWER_WITHIN_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def missing() -> str:
    """Return what a private daemon would need and is not here; empty if it can be started."""
    if os.geteuid() != 0:
        return "root"
    return " ".join(each for each in ("docker", "dockerd", "iptables") if not shutil.which(each))


class CannotStart(Exception):
    """A private daemon cannot run here."""


class Engine:
    """A private daemon. Its images stay in the cache, so that the next run builds little.

    The cache has one at a time: another run of these tests, or another worker, waits for its turn.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tailrace-docker-"))  # paths of sockets: short
        self._log = self._folder / "log"
        self._daemon: subprocess.Popen[bytes] | None = None
        self._had_bridge = False
        CACHE.mkdir(parents=True, exist_ok=True)
        self._turn = (CACHE / "engine.lock").open("w")
        self.address = f"unix://{self._folder / 'socket'}"

    def start(self) -> Self:
        """Start it, make `docker` use it, and return once it answers. It ends with this process.

        Errors: CannotStart if it does not come up: not every root may mount and make networks.
        """
        self._wait_for_turn()
        self._had_bridge = _has_bridge()
        images = (CACHE / "engine").resolve()  # runc takes no path with a symbolic link
        folders = ("--data-root", images, "--exec-root", self._folder / "run")
        with self._log.open("wb") as log:
            self._daemon = subprocess.Popen(
                ["dockerd", *folders, "--pidfile", self._folder / "pid", "--host", self.address],
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for pytest, which ends the daemon in order
                preexec_fn=_end_with_us,  # noqa: PLW1509 - one system call
            )
        os.environ["DOCKER_HOST"] = self.address
        deadline = monotonic() + START_WITHIN_S
        while not answers():
            has_ended = self._daemon.poll() is not None
            if has_ended or monotonic() > deadline:
                said = self._log.read_text()[-500:]
                self.close()
                how = "ends at its start" if has_ended else f"is not up in {START_WITHIN_S} s"
                raise CannotStart(f"dockerd {how}: {said}")
            sleep(0.1)
        return self

    def close(self) -> None:
        """End it, and with it every container; of its networks nothing stays."""
        if self._daemon is not None and self._daemon.poll() is None:
            self._daemon.send_signal(signal.SIGTERM)
            try:
                self._daemon.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._daemon.kill()
                self._daemon.wait()
        os.environ.pop("DOCKER_HOST", None)
        is_ours = self._daemon is not None and not self._had_bridge
        if is_ours and _has_bridge() and shutil.which("ip"):
            subprocess.run(["ip", "link", "delete", BRIDGE], check=False)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._turn.close()

    def _wait_for_turn(self) -> None:
        deadline = monotonic() + TURN_WITHIN_S
        while True:
            try:
                fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if monotonic() > deadline:
                    self.close()
                    raise CannotStart(f"another run has {CACHE} for {TURN_WITHIN_S} s") from None
                sleep(0.5)
            else:
                return


def _has_bridge() -> bool:
    return Path("/sys/class/net", BRIDGE).exists()


def _end_with_us() -> None:
    """Have the kernel end the daemon in order when the process that started it is killed."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
