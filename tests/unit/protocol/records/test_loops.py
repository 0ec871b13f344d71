"""Which form of the loops is used: the compiled one, and only if it is of its source."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hatch_build
from tailrace.protocol.records import loops
from tests.wheel import ROOT


def test_the_loops_are_compiled_here() -> None:
    assert loops.WHY_PLAIN is None, f"{loops.WHY_PLAIN}; `make install` compiles them"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What the build sees, and the extension that was made of it."""
    house = tmp_path / "tailrace"
    house.mkdir()
    shutil.copy(ROOT / "tailrace" / "__init__.py", house)
    shutil.copytree(ROOT / "tailrace" / "protocol", house / "protocol")
    return tmp_path


def extension(tree: Path) -> Path:
    (found,) = (tree / hatch_build.FOLDER).glob(f"{hatch_build.COMPILED}*.so")
    return found


def why_plain(tree: Path) -> str:
    """Ask a process of that tree, which has to read a record in either form."""
    said = (
        "from tailrace.protocol.records import loops; "
        "print(loops.WHY_PLAIN, loops.scan(b'', 0, 0, 0, 0))"
    )
    command = [sys.executable, "-c", said]
    ran = subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True, timeout=60)
    reason, _, scanned = ran.stdout.strip().partition(" (")
    assert scanned == "0, 0, -1, 0, 0, 0)"
    return reason


def test_one_of_another_source_is_not_used(tree: Path) -> None:
    assert why_plain(tree) == "None"
    with (tree / hatch_build.SOURCE).open("a") as source:
        source.write("# changed\n")
    assert why_plain(tree) == "it was made from another version of its source"


def test_one_that_cannot_be_loaded_is_not_used(tree: Path) -> None:
    extension(tree).write_bytes(b"\x7fELF, once")
    assert why_plain(tree).startswith("it cannot be loaded: ")
    extension(tree).unlink()
    assert why_plain(tree).startswith("it cannot be loaded: ")


def test_a_changed_source_is_compiled_again_and_a_compiled_one_is_not(tree: Path) -> None:
    made = hatch_build.compile_loops(tree)
    before = made.stat().st_ino
    assert hatch_build.compile_loops(tree).stat().st_ino == before
    with (tree / hatch_build.SOURCE).open("a") as source:
        source.write("# changed\n")
    assert hatch_build.compile_loops(tree) == made
    assert made.stat().st_ino != before
    assert why_plain(tree) == "None"


def test_without_a_compiler_no_old_one_stays(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    with (tree / hatch_build.SOURCE).open("a") as source:
        source.write("# changed\n")
    with pytest.raises(hatch_build.CannotCompile):
        hatch_build.compile_loops(tree)
    assert not list((tree / hatch_build.FOLDER).glob("*.so"))
