"""`tailrace bookie rebuild-index`: index files again, from a stopped bookie's entry logs."""

from pathlib import Path
from typing import Annotated

import typer

from tailrace.core.errors import CorruptData
from tailrace.core.runtime.config import Assignment
from tailrace.processes.bookie_config import BookieProcessConfig
from tailrace.protocol.bookkeeper.digest import ledger_master_key
from tailrace.protocol.ids import LedgerId
from tailrace.tools.errors import CliError
from tailrace.tools.options import Json
from tailrace.tools.output import Column, note, show_rows
from tailrace.tools.settings import load_settings_of

_COLUMNS = [
    Column("ledger", right=True),
    Column("entries", right=True),
    Column("fenced"),
    Column("key"),
    Column("whole"),
    Column("why"),
]


def rebuild_index(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="As given to tailrace bookie.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE.toml", help="As given to it.")
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="As given to it.")
    ] = None,
    ledger_ids: Annotated[
        str | None,
        typer.Option(
            "--ledger-ids",
            "-l",
            metavar="ID,ID",
            help="Only these ledgers, damaged or not.",
            show_default="those whose index is damaged or missing",
        ),
    ] = None,
    password: Annotated[
        str | None,
        typer.Option(
            "--password",
            "-p",
            help="Of ledgers whose master key is in no index and no journal any more; it must be "
            "the one in their metadata.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make the index files of a stopped bookie again from its entry logs.

    For an index, a mark or a checksum that a disk damaged. A ledger whose header is lost is fenced
    from then on: nothing but the index knew whether it was. Where an entry log is damaged, too, a
    ledger may lack entries (whole: no): the bookie answers EIO for what it does not find.
    """
    options = [] if data is None else [Assignment("data", str(data), f"--data {data}")]
    loaded = load_settings_of(
        BookieProcessConfig, "tailrace bookie", config, assignments or (), options
    )
    bookie = loaded.config.bookie_config()
    names = ", ".join(map(str, bookie.ledger_directories))
    if not any((directory / "current").is_dir() for directory in bookie.ledger_directories):
        raise CliError(
            "there are no files of a bookie", place=names, remedy="name its directory with --data"
        )
    from tailrace.bookie.index_rebuild import rebuild_indexes
    from tailrace.core.runtime.files import LockHeld, SystemFiles

    try:
        report = rebuild_indexes(
            bookie,
            SystemFiles(),
            ledger_ids=_ids(ledger_ids),
            master_key=b"" if password is None else ledger_master_key(password.encode()),
            dry_run=dry_run,
        )
    except LockHeld as error:
        raise CliError(str(error), place=names, remedy="stop that process first") from error
    except (OSError, CorruptData) as error:
        raise CliError(
            f"rebuilding failed: {error}", place=names, remedy="again: old files stay until then"
        ) from error
    for damage in (*report.marks, *report.damaged_logs):
        note(f"damaged: {damage}")
    rows = [
        {
            "ledger": one.ledger_id,
            "entries": one.entries,
            "fenced": one.fenced,
            "key": one.key,
            "whole": one.is_whole,
            "why": one.why,
        }
        for one in report.ledgers
    ]
    show_rows(rows, _COLUMNS, as_json=as_json)
    note(f"{names}: {len(rows)} ledgers {'to rebuild' if dry_run else 'rebuilt'}")


def _ids(given: str | None) -> list[LedgerId]:
    try:
        return [LedgerId(int(part)) for part in given.split(",")] if given else []
    except ValueError as error:
        raise CliError(
            f"{given!r} is not a list of ledger ids", place="--ledger-ids", remedy="as in 7,12"
        ) from error
