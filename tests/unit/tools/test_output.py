"""stdout for programs, stderr for people."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.tools.output import Column, progress, show_rows

HOUSE = Path(__file__).parents[4]
ROWS = [
    {"name": "a", "n": 1, "on": True, "all": [1, 2]},
    {"name": "b" * 300, "n": None, "on": False},
]
COLUMNS = [Column("name"), Column("n", right=True, title="count"), Column("on"), Column("all")]


def test_a_program_gets_whole_words_and_no_trailing_blanks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_rows(ROWS, COLUMNS)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["name", "count", "on", "all"],
        ["a", "1", "yes", "1,2"],
        ["b" * 300, "-", "no", "-"],
    ]
    assert all(line == line.rstrip() for line in lines)


def test_json_has_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(ROWS, COLUMNS[:1], as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS


def test_markup_in_names_stays_text(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows([{"name": "[red]x[/red]"}], COLUMNS[:1])
    assert "[red]x[/red]" in capsys.readouterr().out


def test_no_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("work", "things") as step:
        step(1, 2)
        step(2)
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal() -> None:
    code = (
        "from tailrace.tools.output import progress\n"
        "with progress('count sheep', 'sheep') as step:\n"
        "    step(1, 2); step(2)\n"
    )
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=HOUSE,
        stdin=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    ) as child:
        os.close(theirs)
        drawn = b""
        try:
            while data := os.read(ours, 4096):
                drawn += data
        except OSError:
            pass  # Linux: the other end of a pseudo-terminal is gone
        assert child.wait(30) == 0
    os.close(ours)
    assert b"count sheep" in drawn
    assert b"sheep" in drawn
