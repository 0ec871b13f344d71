"""The images of the container tests: a base with Python, and Tailrace on it.

What is fetched from elsewhere is kept: the base by the daemon, the wheels in `.cache/wheels`.
"""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.docker import probe
from tests.docker.engine import CACHE, ROOT, docker
from tests.wheel import FETCH_WITHIN_S, locked_wheels

OFFICIAL: Final = "python:3.11-slim"
BASE: Final = "tailrace-test-base:bookworm"
WHEELS_IMAGE: Final = "tailrace-test-wheels"
IMAGE: Final = "tailrace-test:latest"
PACKAGES: Final = "python3,python3-venv"

DEBOOTSTRAP: Final = f"""
mount -t tmpfs base "$1"
debootstrap --variant=minbase --include={PACKAGES} bookworm "$1"
cd "$1"
tar --create --file "$2" --exclude './proc/*' --exclude './sys/*' --exclude './var/cache/apt/*' \\
  --exclude './var/lib/apt/lists/*' --exclude './usr/share/doc/*' --exclude './usr/share/locale/*' .
"""


class CannotBuild(Exception):
    """No image can be made here: there is no base with Python, or no wheels."""


def is_there(image: str) -> bool:
    """Whether the daemon has an image."""
    command = ["docker", "image", "inspect", image]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def size_of(image: str) -> int:
    """Return the bytes of an image, with its base."""
    return int(docker("image", "inspect", image, "--format", "{{.Size}}"))


def base_image() -> str:
    """Return the Dockerfile's default base if it can be had, else Debian's Python.

    Errors: CannotBuild, with what would help.
    """
    for image in (OFFICIAL, BASE):
        if is_there(image):
            return image
    if os.geteuid() == 0 and shutil.which("debootstrap"):
        _debootstrap()
        return BASE
    _try("a base image", "docker", "pull", "--quiet", OFFICIAL)
    return OFFICIAL


def build(context: Path) -> str:
    """Build Tailrace's image as docs/operations/containers.md says, and return its base.

    The wheels are those that are here. The stage that installs them is kept between runs; the rest
    is left to `discard`.
    Errors: CannotBuild if base or wheels cannot be had, or containers do not work here.
    """
    with ThreadPoolExecutor(1) as beside:
        wheels = beside.submit(_wheels)
        base = base_image()
        probe.check(base, context.parent / f"{context.name}-probe")
        _fill(context, wheels.result())
    options = ["--build-arg", f"BASE={base}", "--build-arg", "PIP_NO_INDEX=1"]
    command = ["build", "--file", f"{context}/docker/Dockerfile", *options]
    docker(*command, "--target", "wheels", "--tag", WHEELS_IMAGE, str(context))
    docker(*command, "--build-arg", "REVISION=test", "--tag", IMAGE, str(context))
    return base


def discard() -> None:
    """Remove what `build` made of this tree."""
    docker("image", "rm", "--force", IMAGE)
    docker("image", "prune", "--force", "--filter", "label=io.tailrace.stage=build")


def _debootstrap() -> None:
    """Make a Debian with Python in memory and import it.

    In namespaces of its own, so that no mount and no process outlives it, however it ends.
    """
    folder = CACHE / "base"
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder.with_suffix(".tar")
    alone = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork"]
    alone += ["--kill-child", "sh", "-euc", DEBOOTSTRAP, "sh", str(folder), str(archive)]
    _try("a base image", *alone)
    docker("import", str(archive), BASE)
    archive.unlink()


def _fill(context: Path, wheels: Path) -> None:
    """Copy what the Dockerfile may see, and the wheels."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    patterns = [line.removeprefix("!") for line in lines if line.startswith("!")]
    for source in [found for each in patterns for found in ROOT.glob(each)] + [
        ROOT / ".dockerignore",
        ROOT / "docker" / "Dockerfile",
    ]:
        target = context / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
    shutil.copytree(wheels, context / "wheels")


def _wheels() -> Path:
    try:
        return locked_wheels()
    except subprocess.TimeoutExpired:
        raise CannotBuild(f"wheels: pip takes over {FETCH_WITHIN_S} s") from None
    except subprocess.CalledProcessError as error:
        raise CannotBuild(f"wheels: {error.stdout[-500:]}{error.stderr[-500:]}") from error


def _try(what: str, *command: str) -> None:
    """Get `what` by a command that may not work here. Errors: CannotBuild with what it said."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotBuild(f"{what}: {command[0]} takes over {FETCH_WITHIN_S} s") from None
    if done.returncode != 0:
        raise CannotBuild(f"{what}: {done.stdout[-500:]}{done.stderr[-500:]}")
