"""Runs the examples of a page of `docs/`: its ```python blocks, in order, as one program.

    run_page("dlog.md", {"TAILRACE_NAMESPACE": cluster.namespace}, tmp_path)

A page gets its surroundings as its reader does: from environment variables that it names itself,
with an address or a path in each. The page's test starts what there must be (a broker, a cluster;
fixtures of `conftest.py`, or its own), and gives the variables here; all others of the name
TAILRACE_* are taken away. The program runs in a process of its own, in an empty folder, and imports
what is installed, not what lies in the repository. All blocks share their names, as if they were
one file, so a later one uses what an earlier one made. A page is as its reader sees it: no block is
hidden, and none is changed. What must hold it asserts itself.

A block that cannot be run has the reason behind its language: ```python skip: needs Docker
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

DOCS: Final = Path(__file__).parents[2] / "docs"
RUN_WITHIN_S: Final = 120
_FENCE: Final = "```"
_SKIP: Final = "skip: "


class Block(NamedTuple):
    """A ```python block: the line of its first statement, from 1, and its text."""

    line: int
    code: str
    skip: str = ""
    """Why it is not run."""


def blocks(text: str) -> list[Block]:
    """Return the Python blocks of a page. Errors: ValueError for one that does not end."""
    found: list[Block] = []
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if not line.startswith(_FENCE):
            continue
        language, _, rest = line.removeprefix(_FENCE).partition(" ")
        inside: list[str] = []
        for _, code in lines:
            if code == _FENCE:
                break
            inside.append(code)
        else:
            raise ValueError(f"line {number}: the block does not end")
        if language == "python":
            if rest and not rest.startswith(_SKIP):
                raise ValueError(f"line {number}: {rest!r} is not {_SKIP!r} and a reason")
            found.append(Block(number + 1, "\n".join(inside) + "\n", rest.removeprefix(_SKIP)))
    return found


def run_page(page: str | Path, environment: Mapping[str, str], folder: Path) -> str:
    """Run a page, by its name in `docs/` or by its path; return what it printed.

    Errors: AssertionError with its output, in which tracebacks name the page and its line.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TAILRACE_")}
    work = folder / "work"
    work.mkdir()
    done = subprocess.run(
        [sys.executable, "-P", __file__, str(DOCS / page)],
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


def _run(page: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page.read_text()):
        if not block.skip:
            before = "\n" * (block.line - 1)  # so that lines have the page's numbers
            exec(compile(before + block.code, page, "exec", dont_inherit=True), names)


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
