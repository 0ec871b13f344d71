"""JSON of others: whatever is wrong with it, one tuple of errors holds all that a reader raises."""

import ast
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec
import pytest

from tailrace.core.runtime.stored_json import NOT_JSON
from tests.rooms import OWN_PROCESSES, ROOT

DEEP: Final = b"[" * 5000 + b"]" * 5000
NAMED: Final = "NOT_JSON"


class _Stored(msgspec.Struct):
    number: int


@pytest.mark.parametrize(
    "damage",
    [b"", b"\xff", b'"\\ud800"', b'"\xff"', b'{"number":' + b"9" * 5000 + b"}",
     b'{"number":1e999}', b'{"x":' + DEEP + b"}", DEEP[:5000]],
    ids=range(8),
)  # fmt: skip
def test_what_does_not_decode_raises_one_of_them(damage: bytes) -> None:
    with pytest.raises(NOT_JSON):
        msgspec.json.decode(damage, type=_Stored)
    with suppress(*NOT_JSON):
        json.loads(damage)


def test_every_reader_of_json_expects_them() -> None:
    """A reader stands in a `try` that names NOT_JSON: so no node and no request ends a task."""
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for room in OWN_PROCESSES
        for path in sorted((ROOT / room).rglob("*.py"))
        for call in _unguarded(ast.parse(path.read_text(encoding="utf-8")), guarded=False)
    ]
    assert found == []


def _unguarded(node: ast.AST, *, guarded: bool) -> Iterator[ast.Call]:
    if isinstance(node, ast.Call) and not guarded and _reads_json(node):
        yield node
    if isinstance(node, ast.Try):
        inside = guarded or any(_names(handler.type) for handler in node.handlers if handler.type)
        for child in node.body:
            yield from _unguarded(child, guarded=inside)
        for child in (*node.handlers, *node.orelse, *node.finalbody):
            yield from _unguarded(child, guarded=guarded)
        return
    for child in ast.iter_child_nodes(node):
        yield from _unguarded(child, guarded=guarded)


def _names(kinds: ast.expr) -> bool:
    return any(isinstance(each, ast.Name) and each.id == NAMED for each in ast.walk(kinds))


def _reads_json(call: ast.Call) -> bool:
    name: Any = call.func
    text = ast.unparse(name)
    return text in ("json.load", "json.loads", "msgspec.json.decode") or text.endswith(
        ("_DECODER.decode", "_RACK_MAPPING.decode")
    )
