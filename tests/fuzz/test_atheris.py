"""libFuzzer over all targets, bounded: the same runs each time."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.fuzz.__main__ import write_inputs
from tests.fuzz.corpus import kept
from tests.fuzz.coverage import ROOT
from tests.fuzz.targets import TARGETS

RUNS: Final = 6000
SEED: Final = 34


@pytest.mark.slow
def test_a_bounded_run_over_all_targets_finds_nothing(tmp_path: Path) -> None:
    for number, target in enumerate(TARGETS.values()):
        write_inputs(tmp_path, [b"", *kept(target)], bytes((number,)))
    ended = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.atheris_run", "all", str(tmp_path),
         f"-runs={RUNS}", f"-seed={SEED}", "-max_len=2048", "-timeout=60", "-rss_limit_mb=2048",
         f"-artifact_prefix={tmp_path}/"],
        cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "0"}, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-4000:]
    assert f"Done {RUNS} runs" in ended.stdout
