"""`tailrace topic stats` and `latest`: what topics hold, by key."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tailrace.tools.errors import CliError
from tailrace.tools.options import CommandConfig, Json
from tailrace.tools.output import Column, note, progress, show_json, show_rows
from tailrace.tools.topics.admin_http import ADMIN, Admin, AdminPort

_STATS = [
    Column("partition", right=True),
    Column("records", right=True),
    Column("live_keys", right=True, title="live keys"),
    Column("tombstones", right=True),
    Column("size_bytes", right=True, title="bytes"),
    Column("tail_bytes", right=True, title="tail"),
    Column("head_bytes", right=True, title="head"),
    Column("ratio", right=True, title="dirty"),
    Column("saved_bytes", right=True, title="saved"),
    Column("last_clean_ms", right=True, title="last clean"),
]
_LATEST = [
    Column("partition", right=True),
    Column("offset", right=True),
    Column("timestamp", right=True),
    Column("key"),
    Column("value"),
]

Topic = Annotated[str, typer.Argument(metavar="TOPIC")]


def stats(
    topic: Topic,
    admin: Admin = ADMIN,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Count a topic's records, live keys and delete markers, exactly.

    The broker keeps the latest offset of each key and reads only what is new since the last
    question; the first one reads the topic. What cannot be exact is said.
    """
    found = _ask_to_the_end(AdminPort(admin, command_config), topic, "stats", {})
    if as_json:
        show_json(found)
    else:
        rows = [row for row in found["partitions"] if "error" not in row]
        for row in rows:
            row["ratio"] = f"{row['dirty_ratio']:.2f}"
        show_rows(rows, _STATS)
    _tell(found)


def latest(
    topic: Topic,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Only this key.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=100_000, help="Keys of a partition at most.")
    ] = 1000,
    admin: Admin = ADMIN,
    command_config: CommandConfig = None,
    as_json: Json = False,
) -> None:
    """Show the latest record of each key, as far as it is decided."""
    query = {"limit": str(limit)} | ({} if key is None else {"key": key})
    found = _ask_to_the_end(AdminPort(admin, command_config), topic, "latest", query)
    if as_json:
        show_json(found)
    else:
        rows: list[dict[str, Any]] = []
        for partition in found["partitions"]:
            index = partition["partition"]
            for each in partition.get("keys", ()):
                shown = {name: _shown(each, name) for name in ("key", "value")}
                rows.append({"partition": index, **each, **shown})
        show_rows(rows, _LATEST)
    _tell(found)


def _shown(record: Mapping[str, Any], name: str) -> str | None:
    """Return what a terminal can take: bytes that are no text, and letters that steer, are not."""
    if name not in record:
        return f"base64:{record[f'{name}_base64']}"
    value = record[name]
    return value if value is None or value.isprintable() else json.dumps(value)


def _ask_to_the_end(admin: AdminPort, topic: str, what: str, query: Mapping[str, str]) -> Any:
    """Ask until the broker has read all of the topic, or reads no more of it."""
    with progress(f"read {topic}", "offsets") as step:
        found = admin.ask("topics", topic, what, **query)
        total = left = _unread(found)
        while left:
            step(max(total - left, 0), total)
            found = admin.ask("topics", topic, what, **query)
            before, left = left, _unread(found)
            if not found["read_bytes"] or left >= before:
                break  # it is written faster than it is read: the answer says so
    return found


def _unread(found: Mapping[str, Any]) -> int:
    return sum(row.get("unread_offsets", 0) for row in found["partitions"])


def _tell(found: Mapping[str, Any]) -> None:
    """Say what is not exact, and what could not be asked. Errors: CliError for the latter."""
    for row in found["partitions"]:
        if row.get("bound"):
            note(f"partition {row['partition']}: {row['bound']}")
    failed = [row["error"] for row in found["partitions"] if "error" in row]
    if failed:
        raise CliError(
            "; ".join(failed),
            place=f"topic {found['topic']}",
            remedy="ask the broker that owns it, by its --admin HOST:PORT",
        )
