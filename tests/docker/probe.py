"""Do containers work here, as the tests use them: with ports and folders of this machine?

A daemon may answer that cannot run any (a sandbox), or that runs them on another machine.
"""

import subprocess
from pathlib import Path
from time import monotonic, sleep
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from tests.docker.engine import CannotStart
from tests.ports import free_port

WITHIN_S: Final = 60
_WORD: Final = "seen"


def check(image: str, folder: Path) -> None:
    """Let a container of an image with Python serve a new folder. Errors: CannotStart."""
    folder.mkdir()
    (folder / "word").write_text(_WORD)
    port = free_port()
    run = ("run", "--detach", "--publish", f"127.0.0.1:{port}:80", "--volume", f"{folder}:/seen:ro")
    serve = ("python3", "-m", "http.server", "--directory", "/seen", "80")
    container = _docker(*run, image, *serve)
    try:
        deadline = monotonic() + WITHIN_S
        while _read(port) != _WORD:
            if monotonic() > deadline:
                raise CannotStart("ports and folders of containers are not those of this machine")
            sleep(0.05)
    finally:
        _docker("rm", "--force", container)


def _read(port: int) -> str:
    try:
        with urlopen(f"http://127.0.0.1:{port}/word", timeout=1) as answer:
            return str(answer.read().decode())
    except (URLError, OSError):
        return ""


def _docker(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["docker", *arguments], capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotStart(f"docker {arguments[0]} takes more than {WITHIN_S} s") from None
    if done.returncode != 0:
        raise CannotStart(f"no container runs here: {done.stderr[-500:]}")
    return done.stdout.strip()
