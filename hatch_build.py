"""Compiles the loops over records when a wheel or an editable install is made.

They are one module of plain Python (protocol/records/record_loops.py); mypyc makes C of it. Where
that cannot be done the wheel is one for all platforms and the module runs as it is. What comes out
lies beside its source, in a checkout too, and holds its digest (see protocol/records/loops.py).

    python hatch_build.py    compile it unless that was done; 1 if it failed
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("tailrace", "protocol", "records")
SOURCE = FOLDER / "record_loops.py"
COMPILED = "_record_loops"
WITHIN_S = 300


class CannotCompile(Exception):
    """There is no compiler here, or it failed."""


class CompilingHook(BuildHookInterface[Any]):
    """Named in pyproject.toml."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and have the wheel say that it is for this platform. Errors: none."""
        if self.target_name != "wheel":
            return
        try:
            compile_loops(Path(self.root))
        except CannotCompile as error:
            self.app.display_warning(f"the loops over records stay uncompiled: {error}")
        else:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True


def compile_loops(root: Path) -> Path:
    """Return the extension in `root`, made anew unless it is of this source already.

    Errors: CannotCompile; then there is none, as one of another source would be of no use.
    """
    target = root / FOLDER / f"{COMPILED}{sysconfig.get_config_var('EXT_SUFFIX')}"
    source = (root / SOURCE).read_text()
    digest = sha256(source.encode()).hexdigest()
    if target.exists() and digest.encode() in target.read_bytes():
        return target
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        made = _compile(Path(scratch), f'{source}\nCOMPILED_FROM: Final = "{digest}"\n')
        beside = target.with_suffix(f".{os.getpid()}")
        beside.write_bytes(made.read_bytes())
        beside.chmod(0o755)
        beside.replace(target)  # at once: another process may have the old one open
    return target


def _compile(scratch: Path, source: str) -> Path:
    """Return what comes of a source; as no package is around it, that is one file and not two."""
    (scratch / f"{COMPILED}.py").write_text(source)
    command = [sys.executable, "-m", "mypyc", f"{COMPILED}.py"]
    flags = f"{os.environ.get('CFLAGS', '')} -fvisibility=hidden"  # so that calls are inlined
    try:
        done = subprocess.run(
            command,
            cwd=scratch,
            env={**os.environ, "CFLAGS": flags},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotCompile(str(error)) from error
    made = list(scratch.glob(f"{COMPILED}*.so"))
    if done.returncode or not made:
        lines = (done.stdout + done.stderr).strip().splitlines()
        raise CannotCompile(lines[-1] if lines else f"mypyc ended with {done.returncode}")
    return made[0]


if __name__ == "__main__":
    try:
        compile_loops(Path(__file__).parent)
    except CannotCompile as failure:
        sys.exit(f"the loops over records stay uncompiled: {failure}")
