"""The wheel, and a virtual environment of a user who has installed it."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


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


def unpacked_sdist(folder: Path) -> Path:
    """Make the source distribution and unpack it."""
    build = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True, timeout=120)
    (packed,) = folder.glob("*.tar.gz")
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
