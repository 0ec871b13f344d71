"""The wheel, and a virtual environment of a user who has installed it."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.fetched import CACHE, once

ROOT = Path(__file__).resolve().parents[1]
FETCH_WITHIN_S = 600


def build_wheel(folder: Path, source: Path = ROOT, **environment: str) -> Path:
    """Build the wheel into an empty folder."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run(
        [*build, str(source)],
        check=True,
        capture_output=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    (found,) = folder.glob("*.whl")
    return found


def make_dist(folder: Path) -> Path:
    """Make wheel and source distribution in `folder`, as the README says; return the wheel."""
    made = subprocess.run(
        ["make", "dist", f"DIST={folder}"], cwd=ROOT, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    (found,) = folder.glob("*.whl")
    return found


def locked_wheels() -> Path:
    """Return a folder with the wheels of everything that an installation of Tailrace is made of.

    They are fetched when a lock file has changed. Errors: CalledProcessError with what pip prints.
    """
    locks = [ROOT / "requirements" / each for each in ("image.lock", "image-build.lock")]
    folder = CACHE / "wheels"
    with once(folder, b"".join(each.read_bytes() for each in locks)) as todo:
        if todo:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes"]
            pip += ["--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(folder)]
            files = [f"--requirement={each}" for each in locks]
            subprocess.run(
                [*pip, *files], check=True, capture_output=True, text=True, timeout=FETCH_WITHIN_S
            )
    return folder


def unpacked_sdist(dist: Path, folder: Path) -> Path:
    """Unpack the source distribution that lies in `dist`."""
    (packed,) = dist.glob("*.tar.gz")
    shutil.unpack_archive(packed, folder, filter="data")
    return folder / packed.name.removesuffix(".tar.gz")


def site_packages(venv: Path) -> Path:
    """Return where an environment's packages lie."""
    return Path(sysconfig.get_path("purelib", "venv", vars={"base": str(venv)}))


def make_venv(venv: Path, wheel: Path) -> Path:
    """Make an environment with the wheel in it and return its Python.

    Dependencies are this environment's locked ones; the packages under test are the venv's own.
    """
    make = [sys.executable, "-m", "venv", "--without-pip", str(venv)]
    subprocess.run(make, check=True, timeout=120)
    python = venv / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    install += ["--disable-pip-version-check", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, timeout=120, capture_output=True)
    (site_packages(venv) / "locked.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python
