"""The Python of README, testing and testcontainers runs as it stands there.

Blocks with tests are run by pytest with the plugin, in a folder of their own beside `orders.py` of
docs/examples; so are the others, as the body of a test. One that needs Docker is only compiled, and
what it imports from `tailrace` is there: tests/docker uses it.
"""

import ast
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import Block, blocks, name_of
from tests.rooms import ROOT

PAGES: Final = ("README.md", "docs/testing.md", "docs/testcontainers.md")
BLOCKS: Final = [
    block for page in PAGES for block in blocks(ROOT / page) if block.language == "python"
]
TIMEOUT_S: Final = 120


def needs_docker(block: Block) -> bool:
    return block.notes.get("needs") == "docker"


def as_test(block: Block) -> str:
    """Return a block as a module with a test."""
    if "def test_" in block.text:
        return block.text
    return "def test_block():\n" + "".join(f"    {line}\n" for line in block.lines)


def test_they_run(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(ROOT / "docs" / "examples" / "pytest" / "orders.py", project)
    run = [block for block in BLOCKS if not needs_docker(block)]
    for block in run:
        stem = name_of(block.page).replace("/", "_").removesuffix(".md")
        (project / f"test_{stem}_{block.number}.py").write_text(as_test(block))
    (project / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment["TMPDIR"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tests = sum(max(1, block.text.count("def test_")) for block in run)
    assert f"{tests} passed" in done.stdout, done.stdout
    assert not list(tmp_path.glob("tailrace-*")), "a broker left its folder"


@pytest.mark.parametrize("block", [*filter(needs_docker, BLOCKS)], ids=lambda block: block.place)
def test_what_needs_docker_imports_what_is_there(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("tailrace"):
            module = importlib.import_module(str(node.module))
            assert all(hasattr(module, name.name) for name in node.names)
