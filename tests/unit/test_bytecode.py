"""Each worker makes its share of the tests' bytecode; together they make all that can be made."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.bytecode import make_share


def test_shares_are_whole_and_what_cannot_be_read_is_left_to_collection(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for name in ("test_one", "test_two", "beside"):
        (tmp_path / f"{name}.py").write_text("assert 1\n")
    (tmp_path / "test_broken.py").write_text("def test_x(:\n")
    made: list[set[str]] = []
    for number in range(2):
        worker = SimpleNamespace(
            workerinput={"workerid": f"gw{number}", "workercount": 2},
            invocation_params=SimpleNamespace(dir=tmp_path),
            args=["."],
            stash=pytestconfig.stash,
            getini=pytestconfig.getini,
        )
        before = set().union(*made)
        make_share(cast("pytest.Config", worker))
        files = (tmp_path / "__pycache__").glob("*.pyc")
        made.append({file.name.partition(".")[0] for file in files} - before)
    assert all(made)
    assert set().union(*made) == {"test_one", "test_two", "beside"}
