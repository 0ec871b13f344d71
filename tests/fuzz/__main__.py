"""Coverage-guided runs by hand: `python -m tests.fuzz TARGET... --minutes 20`.

Needs atheris: `make fuzz` brings it (requirements/fuzz.lock; wheels for Linux on x86-64). What
reaches new lines goes into tests/fuzz/corpus; an input that shows a fault is printed, and left in
.cache/fuzz.
"""

import argparse
import hashlib
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.fuzz.corpus import keep, kept, minimized, starting_points
from tests.fuzz.coverage import ROOT
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

CACHE: Final = ROOT / ".cache" / "fuzz"
RUN_TIMEOUT_S: Final = 10
MEMORY_MB: Final = 2048


def main() -> int:
    """Run the targets one after the other; return 1 if one of them showed a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", nargs="+", choices=[*TARGETS, "all"], metavar="TARGET")
    parser.add_argument("--minutes", type=float, default=20.0, help="of each target (20)")
    parser.add_argument("--seed", type=int, default=0, help="of libFuzzer; 0 chooses one")
    asked = parser.parse_args()
    names = list(TARGETS) if "all" in asked.target else asked.target
    return max(_fuzz(TARGETS[name], asked.minutes, asked.seed) for name in names)


def _fuzz(target: Target, minutes: float, seed: int) -> int:
    folder = CACHE / target.name
    folder.mkdir(parents=True, exist_ok=True)
    write_inputs(folder, starting_points(target))
    began = time.monotonic()
    ended = subprocess.run(
        [
            sys.executable, "-m", "tests.fuzz.atheris_run", target.name, str(folder),
            f"-max_total_time={round(60 * minutes)}", f"-max_len={target.bytes_max}",
            f"-timeout={RUN_TIMEOUT_S}", f"-rss_limit_mb={MEMORY_MB}", f"-seed={seed}",
            f"-artifact_prefix={folder}-", "-print_final_stats=1", *_words(folder, target),
        ],
        cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    before = len(kept(target))
    keep(target, minimized(target, [path.read_bytes() for path in folder.iterdir()]))
    print(
        f"{target.name}: {(time.monotonic() - began) / 60:.1f} minutes, "
        f"{_runs(ended.stdout)} runs, {before} -> {len(kept(target))} inputs kept",
        flush=True,
    )
    if ended.returncode:
        print(ended.stdout[-6000:], flush=True)
    return min(abs(ended.returncode), 1)


def write_inputs(folder: Path, inputs: Iterable[bytes], prefix: bytes = b"") -> None:
    """Write inputs as libFuzzer reads them: a file each, named by what is in it."""
    for data in inputs:
        whole = prefix + data
        (folder / hashlib.sha1(whole, usedforsecurity=False).hexdigest()).write_bytes(whole)


def _words(folder: Path, target: Target) -> list[str]:
    if not target.dictionary:
        return []
    path = folder.with_suffix(".words")
    lines = ["".join(f"\\x{byte:02x}" for byte in word) for word in target.dictionary]
    path.write_text("".join(f'"{line}"\n' for line in lines), encoding="ascii")
    return [f"-dict={path}"]


def _runs(output: str) -> str:
    for line in output.splitlines():
        if line.startswith("stat::number_of_executed_units:"):
            return line.rpartition(" ")[2]
    return "?"


if __name__ == "__main__":
    raise SystemExit(main())
