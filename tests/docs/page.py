"""Runs the examples of a page of `docs/`: its ```python blocks, in order, as one program.

    run_page("dlog.md", {"TAILRACE_NAMESPACE": cluster.namespace}, tmp_path)

A page gets its surroundings as its reader does: from environment variables that it names itself,
with an address or a path in each. The page's test starts what there must be (a broker, a cluster;
fixtures of `conftest.py`, or its own), and gives the variables here; all others of the name
TAILRACE_* are taken away. The program runs in a process of its own, in an empty folder, and imports
what is installed, not what lies in the repository. All blocks share their names, as if they were
one file, so a later one uses what an earlier one made. A page is as its reader sees it: no block is
hidden, and none is changed. What must hold it asserts itself.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.docs.pages import blocks
from tests.rooms import ROOT

DOCS: Final = ROOT / "docs"
RUN_WITHIN_S: Final = 120
_RUN: Final = (
    "import sys; exec(compile(sys.stdin.read(), sys.argv[1], 'exec', dont_inherit=True),"
    " {'__name__': '__main__'})"
)


def program(page: Path) -> str:
    """Return the ```python blocks of a page as one program, each at the lines where it stands."""
    lines: list[str] = []
    for block in blocks(page):
        if block.language == "python":
            lines += [""] * (block.number - 1 - len(lines))
            lines += block.lines
    return "\n".join(lines) + "\n"


def run_page(
    page: str | Path,
    environment: Mapping[str, str],
    folder: Path,
    python: str | Path = sys.executable,
) -> str:
    """Run a page, by its name in `docs/` or by its path; return what it printed.

    Errors: AssertionError with its output, in which tracebacks name the page and its line.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TAILRACE_")}
    work = folder / "work"
    work.mkdir()
    done = subprocess.run(
        [str(python), "-P", "-c", _RUN, str(DOCS / page)],
        input=program(DOCS / page),
        cwd=work,
        env=kept | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, f"{page}:\n{done.stdout}"
    return done.stdout
