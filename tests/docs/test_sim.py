"""docs/sim.md: its story runs as it stands there."""

import subprocess
import sys
from pathlib import Path

from tests.docs.page import run_page


def test_its_story_holds_in_all_seeds(tmp_path: Path) -> None:
    printed = run_page("sim.md", {"PYTHONHASHSEED": "0"}, tmp_path)
    assert "virtual seconds" in printed
    assert "seed" not in printed


def test_its_command_runs_seeds_of_our_own() -> None:
    command = [sys.executable, "-m", "tailrace.sim", "--seeds", "2", "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "2 seeds, 0 failed" in done.stdout
