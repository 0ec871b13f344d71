"""`tailrace cleaner`: what a broker's log cleaner does, and what it should do."""

from typing import Annotated, Any

import typer

from tailrace.tools.options import CommandConfig, Json
from tailrace.tools.output import Column, show_json, show_rows
from tailrace.tools.topics.admin_http import ADMIN, Admin, AdminPort

app = typer.Typer(no_args_is_help=True, add_completion=False)

Logs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TOPIC-PARTITION]...", show_default="all of the broker"),
]


@app.callback()
def cleaner() -> None:
    """Watch and steer a broker's log cleaner, over its HTTP port."""


@app.command()
def status(
    admin: Admin = ADMIN, command_config: CommandConfig = None, as_json: Json = False
) -> None:
    """Show what is being cleaned, what is paused, and what cannot be cleaned and why."""
    _show(AdminPort(admin, command_config).ask("cleaner"), as_json=as_json)


@app.command()
def plan(admin: Admin = ADMIN, command_config: CommandConfig = None, as_json: Json = False) -> None:
    """Show head and tail of every compacted log, the filthiest first, and whether it is due."""
    rows = AdminPort(admin, command_config).ask("cleaner", "plan")
    if not as_json:
        for row in rows:
            row["ratio"] = f"{row['ratio']:.2f}"
            row["is_due"] = "yes" if row["is_due"] else "no"
    show_rows(rows, _PLAN, as_json=as_json)


@app.command()
def run(
    logs: Logs = None,
    admin: Admin = ADMIN,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Clean logs now, whatever their ratio; those that could not be cleaned are tried again."""
    _show(
        AdminPort(admin, command_config).ask("cleaner", "run", body=_names(logs)), as_json=as_json
    )


@app.command()
def pause(
    logs: Logs = None,
    admin: Admin = ADMIN,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Leave logs alone until `resume`, or until the broker starts again."""
    _show(
        AdminPort(admin, command_config).ask("cleaner", "pause", body=_names(logs)), as_json=as_json
    )


@app.command()
def resume(
    logs: Logs = None,
    admin: Admin = ADMIN,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Take up logs again."""
    _show(
        AdminPort(admin, command_config).ask("cleaner", "resume", body=_names(logs)),
        as_json=as_json,
    )


def _names(logs: list[str] | None) -> list[str]:
    """Return what the broker calls them; a partition may be typed as `where` and `log` take it."""
    return [log.replace("/", "-") for log in logs or ()]


_PLAN = [
    Column("name", title="log"),
    Column("state"),
    Column("ratio", right=True),
    Column("is_due", title="due"),
    Column("clean_bytes", right=True, title="tail"),
    Column("cleanable_bytes", right=True, title="head"),
    Column("first_dirty", right=True, title="first dirty"),
    Column("first_uncleanable", right=True, title="first uncleanable"),
    Column("delay_ms", right=True, title="overdue ms"),
]

_CLEANING = [
    Column("log"),
    Column("percent", right=True, title="%"),
    Column("read_bytes", right=True, title="read"),
    Column("written_bytes", right=True, title="written"),
    Column("seconds", right=True),
]


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(found)
        return
    print(f"cleaner: {'on' if found['enabled'] else 'off'}, {found['threads']} workers")
    print(
        f"passes: {found['passes']} done, {found['failures']} failed;"
        f" {found['read_bytes']} bytes read, {found['written_bytes']} written,"
        f" {found['throttled_seconds']} s throttled"
    )
    if found["paused"]:
        print(f"paused: {' '.join(found['paused'])}")
    if found["wanted"]:
        print(f"waiting: {' '.join(found['wanted'])}")
    if found["cleaning"]:
        show_rows(found["cleaning"], _CLEANING)
    for each in found["uncleanable"]:
        print(f"uncleanable: {each['log']}: {each['reason']}")
