"""What commands print: tables for people, JSON for programs, progress for whoever waits.

stdout carries the answer and nothing else; everything about the work goes to stderr. rich loads
only when a table or a bar is drawn.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol


class Column(NamedTuple):
    """One column of a table: a key of the rows, and how it is shown."""

    key: str
    right: bool = False
    title: str = ""


class Step(Protocol):
    """Tells a progress bar how far the work is."""

    def __call__(self, done: int, total: int | None = None) -> None:
        """Set how much is done, and of how much if that is known by now."""


def show_json(value: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def show_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    *,
    as_json: bool = False,
    title: str | None = None,
) -> None:
    """Print rows as a table, or whole as JSON."""
    if as_json:
        show_json(rows)
        return
    from rich.console import Console
    from rich.table import Table

    person = sys.stdout.isatty()
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        justify: Any = "right" if column.right else "left"
        # A program that cuts columns must see whole words, so nothing wraps without a terminal.
        table.add_column(column.title or column.key, justify=justify, no_wrap=not person)
    for row in rows:
        table.add_row(*(_cell(row.get(column.key)) for column in columns))
    console = Console(highlight=False, markup=False, width=None if person else _WIDTH_MAX)
    with console.capture() as drawn:
        console.print(table)
    print("\n".join(line.rstrip() for line in drawn.get().splitlines()))


_WIDTH_MAX = 10_000


def note(text: str) -> None:
    """Say something about the work."""
    print(text, file=sys.stderr)


@contextmanager
def progress(what: str, unit: str, *, quiet: bool = False) -> Iterator[Step]:
    """Draw a bar on stderr while the work goes on, if a person is there to see it."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} " + unit),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=None)

        def step(done: int, total: int | None = None) -> None:
            if total is None:
                bar.update(task, completed=done)
            else:
                bar.update(task, completed=done, total=total)

        yield step


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(_cell(item) for item in value)
    return str(value)
