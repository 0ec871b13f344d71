"""Nothing runs for ever by hand: `core.runtime.forever` does, which no failure ends.

Ruff cannot see it, so this reads the code. In a coroutine, a loop is by hand

- if it has no end: its condition is a constant, or asks only whether its owner is closed, and
  nothing in it returns or breaks;
- if it tries again and again: something in it is caught, and it sleeps.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.rooms import OWN_PROCESSES, ROOT

ALLOWED: Final = {
    "core/runtime/forever.py": "it is the one way",
}
"""Files with such a loop, and why it is right there."""

_ENDS: Final = re.compile(r"clos|stop|dead|shut|cancel|running")


def by_hand(source: str) -> Iterator[int]:
    """Yield the lines of such loops."""
    for coroutine in ast.walk(ast.parse(source)):
        if isinstance(coroutine, ast.AsyncFunctionDef):
            for node in _own_nodes(coroutine):
                if _is_endless(node) or _tries_again(node):
                    yield node.lineno


def _own_nodes(parent: ast.AST) -> Iterator[ast.expr | ast.stmt | ast.excepthandler]:
    """Yield what is below a node, without what functions inside of it do."""
    for node in ast.iter_child_nodes(parent):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            if isinstance(node, ast.expr | ast.stmt | ast.excepthandler):
                yield node
            yield from _own_nodes(node)


def _is_endless(node: ast.AST) -> bool:
    if not isinstance(node, ast.While):
        return False
    if any(isinstance(each, ast.Return | ast.Break) for each in _own_nodes(node)):
        return False
    return isinstance(node.test, ast.Constant) or _asks_only_for_the_end(node.test)


def _asks_only_for_the_end(test: ast.expr) -> bool:
    names = [each.attr for each in ast.walk(test) if isinstance(each, ast.Attribute)]
    names += [each.id for each in ast.walk(test) if isinstance(each, ast.Name)]
    asked = [name for name in names if name not in ("self", "is_set", "done")]
    return bool(asked) and all(_ENDS.search(name) for name in asked)


def _tries_again(node: ast.AST) -> bool:
    is_unbounded = isinstance(node, ast.For) and _is_unbounded(node.iter)
    if not is_unbounded and not isinstance(node, ast.While):
        return False
    nodes = list(_own_nodes(node))
    catches = any(isinstance(each, ast.Try) and each.handlers for each in nodes)
    return catches and any(
        isinstance(each, ast.Await)
        and isinstance(each.value, ast.Call)
        and ast.unparse(each.value.func).endswith("sleep")
        for each in nodes
    )


def _is_unbounded(iterated: ast.expr) -> bool:
    return isinstance(iterated, ast.Call) and ast.unparse(iterated.func) in ("count", "cycle")


def test_nothing_runs_for_ever_by_hand() -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for package in OWN_PROCESSES
        for path in sorted((ROOT / package).rglob("*.py"))
        if (lines := list(by_hand(path.read_text(encoding="utf-8"))))
    }
    by_others = {path: lines for path, lines in found.items() if path not in ALLOWED}
    assert not by_others, "use tailrace.core.runtime.forever.Forever: `run`, or `until_done`"
    assert found.keys() == ALLOWED.keys(), "an exception that nothing needs any more"


@pytest.mark.parametrize(
    "loop",
    [
        "while True:\n  await work()",
        "while 1:\n  work()",
        "while not self._is_closed:\n  await work()",
        "while not stopped.is_set():\n  await work()",
        "while self.is_on:\n  try:\n   return await work()\n  except E:\n   await asyncio.sleep(1)",
        "for n in count():\n  try:\n   await work()\n  except E:\n   await asyncio.sleep(n)",
        "while True:\n  async def inner():\n   return 1\n  await inner()",
    ],
)
def test_loops_by_hand_are_seen(loop: str) -> None:
    assert list(by_hand(f"async def f(self):\n {loop}")) == [2]


@pytest.mark.parametrize(
    "loop",
    [
        "while True:\n  if await work():\n   return",
        "while left and not self._is_closed:\n  left = await work()",
        "while self.lac < at:\n  await self._wait()",
        "for n in range(3):\n  try:\n   await work()\n  except E:\n   await asyncio.sleep(n)",
        "async for n in items:\n  await work()",
    ],
)
def test_loops_that_end_are_left_alone(loop: str) -> None:
    assert not list(by_hand(f"async def f(self):\n {loop}"))
