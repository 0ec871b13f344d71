"""`tailrace restore`: the latest value per key of a topic, with proof."""

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tailrace.core.runtime.clock import SystemClock
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.options import BOOTSTRAP, TIMEOUT_S, Bootstrap, CommandConfig, Json, Timeout
from tailrace.tools.output import Column, note, show_json, show_rows

if TYPE_CHECKING:
    from tailrace.restore import Report, RestoreError, Sink, Step

app = typer.Typer(add_completion=False)


@app.command()
def restore(
    topic: str = typer.Argument(help="The topic: a changelog, compacted or not."),
    sqlite: Path | None = typer.Option(
        None, "--sqlite", metavar="FILE", help="Into the table `restored` of an SQLite file."
    ),
    parquet: Path | None = typer.Option(
        None, "--parquet", metavar="DIR", help="Into DIR/partition=N/latest.parquet."
    ),
    partitions: str | None = typer.Option(
        None, "--partitions", metavar="N,N", help="Only these.", show_default="all"
    ),
    verify: bool = typer.Option(
        False, "--verify", help="Fold the log again, by another client, and compare the hashes."
    ),
    fresh: bool = typer.Option(
        False, "--fresh", help="Forget what the output holds; else an interrupted run goes on."
    ),
    bootstrap: Bootstrap = BOOTSTRAP,
    command_config: CommandConfig = None,
    timeout: Timeout = TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Restore a topic: the latest value of each key, from its start to its end as it is now.

    It always ends, and says for each partition what was read, what is alive, how many offsets
    compaction has removed, and a hash of all live keys and values that any other restore of the
    range must match. What is interrupted goes on, in the same range, when the command is run
    again; what is finished is shown again, as it was. Without --sqlite or --parquet values stay in
    memory and only the numbers are shown.

    Works with Tailrace and with Apache Kafka 2.1 or later.
    """
    from tailrace import restore as library
    from tailrace.tools.clients.librdkafka import check_reachable, target

    check_reachable(target(bootstrap, (), timeout, command_config))
    options = library.Options(timeout_s=timeout, fresh=fresh, client_settings=command_config)
    with _told(), closing(_sink(sqlite, parquet)) as sink, _bar(topic, sqlite or parquet) as watch:
        report = library.restore(
            topic,
            bootstrap=bootstrap,
            sink=sink,
            partitions=_numbers(partitions),
            options=options,
            watch=watch,
        )
    show(report, as_json=as_json)
    if verify:
        _verify(report, bootstrap, timeout, command_config)


def _verify(
    report: "Report", bootstrap: str, timeout_s: float, command_config: Path | None
) -> None:
    """Fold the log again and compare. Errors: CliError."""
    from tailrace.restore import verify

    with _told():
        again = verify(
            report, bootstrap=bootstrap, timeout_s=timeout_s, client_settings=command_config
        )
    records = sum(each.records for each in again.partitions)
    note(f"verified: {records:,} records folded again give the same hash")


def show(report: "Report", *, as_json: bool) -> None:
    """Print a report; below a table, which a terminal may cut, the whole topic's hash."""
    rows: list[dict[str, Any]] = [each._asdict() for each in report.partitions]
    if as_json:
        show_json(
            {
                "topic": report.topic,
                "topic_id": report.topic_id,
                "hash": report.hash,
                "partitions": rows,
            }
        )
        return
    show_rows(rows, _COLUMNS)
    print(f"hash {report.hash} of {sum(each.live_keys for each in report.partitions):,} live keys")


_NUMBERS = ("partition", "start", "end", "records", "tombstones", "gaps", "bytes", "live_keys")
_COLUMNS = [
    *(Column(name, right=True, title=name.replace("_", " ")) for name in _NUMBERS),
    Column("hash"),
]


def _sink(sqlite: Path | None, parquet: Path | None) -> "Sink":
    from tailrace.restore import DictSink, SqliteSink, parquet_sink

    if sqlite is not None and parquet is not None:
        raise CliError("--sqlite and --parquet are one too many", code=Exit.USAGE)
    if sqlite is not None:
        return SqliteSink(sqlite)
    if parquet is None:
        return DictSink()
    try:
        return parquet_sink(parquet)
    except ImportError as error:
        raise CliError("pyarrow is not installed", remedy="pip install pyarrow") from error


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise CliError(
            f"{text!r} is no list of numbers",
            place="--partitions",
            remedy="--partitions 0,3",
            code=Exit.USAGE,
        ) from error


@contextmanager
def _told() -> Iterator[None]:
    """Let errors of the library and of the output leave as ours."""
    from tailrace.restore import RestoreError

    try:
        yield
    except RestoreError as error:
        raise _as_ours(error) from error
    except (OSError, sqlite3.Error) as error:
        raise CliError(
            f"the output cannot be written: {error}",
            remedy="make room or name another; what was saved stays, and a further run goes on",
        ) from error


def _as_ours(error: "RestoreError") -> CliError:
    from tailrace.restore import Unreachable

    code = Exit.UNREACHABLE if isinstance(error, Unreachable) else Exit.FAILED
    return CliError(error.cause, place=error.place, remedy=error.remedy, code=code)


@contextmanager
def _bar(topic: str, kept: Path | None) -> Iterator[Callable[["Step"], None]]:
    """Draw progress, rate and time left on stderr for a person; at the end, say how fast it was."""
    clock = SystemClock()
    began_s = clock.monotonic_s()
    last: list[Step] = []

    def keep(step: "Step") -> None:
        last[:] = [step]

    if sys.stderr.isatty():
        with _drawn(topic, keep) as watch:
            yield watch
    else:
        yield keep
    if last:
        took_s = max(clock.monotonic_s() - began_s, 1e-3)
        note(_speed(last[0].records, last[0].bytes, took_s))
    elif kept is not None:
        note(
            f"nothing was read: {kept} is finished, up to the end that is shown; --fresh reads anew"
        )


def _speed(records: int, size: int, took_s: float) -> str:
    return (
        f"{records:,} records, {size / 1e6:,.1f} MB in {took_s:.1f} s: "
        f"{records / took_s:,.0f} records/s, {size / 1e6 / took_s:,.1f} MB/s"
    )


@contextmanager
def _drawn(topic: str, keep: Callable[["Step"], None]) -> Iterator[Callable[["Step"], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn(f"restore {topic}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("offsets  {task.fields[rate]}  left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=None, rate="")

        def watch(step: "Step") -> None:
            keep(step)
            speed = bar.tasks[0].speed
            rate = "" if speed is None else f"{speed:,.0f}/s"
            bar.update(task, completed=step.offsets, total=step.offsets_total, rate=rate)

        yield watch
