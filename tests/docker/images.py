"""The images of the container tests: a base with Python, and Tailrace on it.

What is fetched from elsewhere lies in `.cache/docker` afterwards: the base's files, and the wheels.
"""

import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.docker.engine import CACHE, ROOT, docker

OFFICIAL: Final = "python:3.11-slim"
BASE: Final = "tailrace-test-base:bookworm"
WHEELS_IMAGE: Final = "tailrace-test-wheels"
IMAGE: Final = "tailrace-test:latest"
PACKAGES: Final = "ca-certificates,python3,python3-venv"
LOCKS: Final = ("requirements/image.lock", "requirements/image-build.lock")


class NoBase(Exception):
    """There is no image with Python, and none can be made here."""


def is_there(image: str) -> bool:
    """Whether the daemon has an image."""
    command = ["docker", "image", "inspect", image]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def size_of(image: str) -> int:
    """Return the bytes of an image, with its base."""
    return int(docker("image", "inspect", image, "--format", "{{.Size}}"))


def base_image() -> str:
    """Return the Dockerfile's default base if it can be had, else Debian's Python.

    Errors: NoBase, with what would help.
    """
    for image in (OFFICIAL, BASE):
        if is_there(image):
            return image
    archive = CACHE / "base-bookworm.tar.gz"
    if not archive.exists():
        if shutil.which("debootstrap") is None:
            pulled = subprocess.run(["docker", "pull", OFFICIAL], capture_output=True, check=False)
            if pulled.returncode == 0:
                return OFFICIAL
            raise NoBase(f"a base image: {OFFICIAL} cannot be pulled, nor is debootstrap here")
        _debootstrap(archive)
    docker("import", str(archive), BASE)
    return BASE


def build(context: Path) -> str:
    """Build Tailrace's image as the README says, from wheels that are here, and return its base.

    The stage that installs the locked wheels is kept between runs; the rest is left to `discard`.
    """
    base = base_image()
    _fill(context)
    options = ["--build-arg", f"BASE={base}", "--build-arg", "PIP_NO_INDEX=1"]
    command = ["build", "--file", f"{context}/docker/Dockerfile", *options]
    docker(*command, "--target", "wheels", "--tag", WHEELS_IMAGE, str(context))
    docker(*command, "--build-arg", "REVISION=test", "--tag", IMAGE, str(context))
    return base


def discard() -> None:
    """Remove what `build` made of this tree."""
    docker("image", "rm", "--force", IMAGE)
    docker("image", "prune", "--force", "--filter", "label=io.tailrace.stage=build")


def _debootstrap(archive: Path) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    folder, unfinished = archive.with_name("base"), archive.with_suffix(".part")
    shutil.rmtree(folder, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoBase(f"a base image: debootstrap failed: {done.stdout[-500:]}{done.stderr[-500:]}")
    without = [f"--exclude=./{each}/*" for each in ("var/cache/apt", "var/lib/apt/lists", "proc")]
    _run("tar", "--create", "--gzip", *without, "--file", str(unfinished), "-C", str(folder), ".")
    unfinished.rename(archive)
    shutil.rmtree(folder)


def _fill(context: Path) -> None:
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
    shutil.copytree(_wheels(), context / "wheels")


def _wheels() -> Path:
    """Return the folder of all locked wheels; they are fetched when a lock file has changed."""
    locks = [ROOT / each for each in LOCKS]
    digest = sha256(b"".join(each.read_bytes() for each in locks)).hexdigest()[:16]
    wheels = CACHE / f"wheels-{digest}"
    if not wheels.exists():
        for old in CACHE.glob("wheels-*"):
            shutil.rmtree(old)
        unfinished = CACHE / "wheels.part"
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        pip += ["--only-binary", ":all:", "--require-hashes", "--dest", str(unfinished)]
        _run(*pip, *(f"--requirement={each}" for each in locks))
        unfinished.rename(wheels)
    return wheels


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
