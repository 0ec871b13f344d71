"""Programs of franz-go: built once, from the module proxy."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.fetched import CACHE, once, tool

_SOURCE: Final = Path(__file__).with_name("franz")
_BUILD_TIMEOUT_S: Final = 240
_BUILD: Final = (
    *("go", "build", "-buildvcs=false", "-gcflags=all=-l -dwarf=false", "-ldflags=-s -w"),
)
_BUILD_SETTINGS: Final = {"CGO_ENABLED": "0", "GOGC": "400"}
"""On a new machine Go's library is compiled as well, for a run of seconds: nothing is inlined,
nothing is told to debuggers, no C. Of 75 CPU-seconds 35 are left."""


def franz_program(name: str) -> str:
    """Return the path of a program: "franz", or "secured"."""
    tool("go")
    folder = CACHE / "franz"
    files = sorted(path for path in _SOURCE.rglob("*") if path.is_file())
    with once(folder, b"".join(path.read_bytes() for path in files)) as todo:
        if todo:
            shutil.copytree(_SOURCE, folder, dirs_exist_ok=True)
            done = subprocess.run(
                [*_BUILD, "-o", f"{folder}/bin/", "./..."],
                cwd=folder,
                env=os.environ | _BUILD_SETTINGS,
                capture_output=True,
                text=True,
                timeout=_BUILD_TIMEOUT_S,
                check=False,
            )
            assert done.returncode == 0, done.stderr
    return str(folder / "bin" / name)
