"""Everything is imported as `tailrace.something`: a user's own `core` is never taken for ours."""

import ast
import os
from collections.abc import Iterator
from typing import Final

import pytest

from tests.rooms import ROOMS, ROOT

SOURCES: Final = sorted(
    path
    for room in (*ROOMS, "docker", "tailrace", "tests")
    for path in (ROOT / room).rglob("*.py")
    if not any((ROOT / "tailrace" / each) in path.parents for each in ROOMS)
)


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield node.module


def test_nothing_is_imported_by_the_name_of_its_folder_alone() -> None:
    assert len(SOURCES) > 800
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        for name in imported(ast.parse(path.read_text()))
        if name.partition(".")[0] in ROOMS
    }
    assert not found


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_is_a_link_to_its_folder(room: str) -> None:
    assert os.readlink(ROOT / "tailrace" / room) == f"../{room}"
