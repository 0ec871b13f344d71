"""`tailrace topic stats` and `latest`: what topics hold, by key."""

from typing import Annotated, Any

import typer

from broker.cli.admin_http import ADMIN, Admin, ask
from broker.cli.options import Json
from broker.cli.output import Column, note, show_json, show_rows

_STATS = [
    Column("partition", right=True),
    Column("records", right=True),
    Column("keys", right=True),
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


def stats(topic: Topic, admin: Admin = ADMIN, as_json: Json = False) -> None:
    """Count a topic's records, keys and delete markers exactly, by reading it on the broker."""
    found = ask(admin, "topics", topic, "stats")
    if as_json:
        show_json(found)
        return
    for row in found["partitions"]:
        row["ratio"] = f"{row['dirty_ratio']:.2f}"
        if row["bound"]:
            note(f"partition {row['partition']}: {row['bound']}")
    show_rows(found["partitions"], _STATS)


def latest(
    topic: Topic,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Only this key.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=100_000, help="Keys of a partition at most.")
    ] = 1000,
    admin: Admin = ADMIN,
    as_json: Json = False,
) -> None:
    """Show the latest record of each key, as far as it is decided."""
    query = {"limit": str(limit)} | ({} if key is None else {"key": key})
    found = ask(admin, "topics", topic, "latest", **query)
    if as_json:
        show_json(found)
        return
    rows: list[dict[str, Any]] = []
    for partition in found["partitions"]:
        rows += [{"partition": partition["partition"], **each} for each in partition["keys"]]
        if not partition["is_whole"]:
            note(f"partition {partition['partition']}: there are more than {limit} keys")
    show_rows(rows, _LATEST)
