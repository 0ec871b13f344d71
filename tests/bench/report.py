"""What `make bench` leaves behind: figures as JSON, and a table of medians, ranges and ratios."""

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from rich.table import Table

Rounds: TypeAlias = Mapping[str, Sequence[Mapping[str, float]]]
"""Figures by name, of each round, by whoever was measured; ours comes first."""


def save(path: Path, rounds: Rounds) -> None:
    """Write everything that was measured so far."""
    machine = {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "load": os.getloadavg(),
    }
    path.write_text(json.dumps({"machine": machine, "rounds": rounds}, indent=1))


def table(rounds: Rounds) -> Table:
    """Return a row for each figure: median and range of each, and ours over the others' median."""
    names = list(rounds)
    drawn = Table(title=f"median (range) of {len(rounds[names[0]])} rounds")
    drawn.add_column("figure")
    for name in names:
        drawn.add_column(name, justify="right")
    for name in names[1:]:
        drawn.add_column(f"/ {name}", justify="right")
    for figure in rounds[names[0]][0]:
        found = {name: _values(rounds[name], figure) for name in names}
        ratios = [_ratio(found[names[0]], found[name]) for name in names[1:]]
        drawn.add_row(figure, *(_cell(found[name]) for name in names), *ratios)
    return drawn


def _values(rounds: Sequence[Mapping[str, float]], figure: str) -> list[float]:
    return [figures[figure] for figures in rounds if figure in figures]


def _cell(found: list[float]) -> str:
    if not found:
        return "-"
    return f"{statistics.median(found):.4g} ({min(found):.4g}-{max(found):.4g})"


def _ratio(ours: list[float], others: list[float]) -> str:
    if not ours or not others or not statistics.median(others):
        return "-"
    return f"{statistics.median(ours) / statistics.median(others):.2f}"
