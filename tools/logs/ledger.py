"""`tailrace ledger`: the ledgers of a cluster."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailrace.core.errors import LedgerNotFound
from tailrace.core.metadata.ledger_metadata import LedgerMetadata
from tailrace.core.metadata.ledger_tree import ledger_ranges
from tailrace.core.runtime.tasks import together
from tailrace.protocol.ids import LedgerId
from tailrace.tools.cluster.cluster_access import Cluster, ClusterMetadata, Metadata, on_cluster
from tailrace.tools.errors import CliError
from tailrace.tools.options import Json
from tailrace.tools.output import Column, note, progress, show_json, show_rows

if TYPE_CHECKING:
    from tailrace.core.ledger.reader import LedgerReader

app = typer.Typer(no_args_is_help=True, add_completion=False)

Id = Annotated[int, typer.Argument(metavar="LEDGER", min=0, max=2**63 - 1)]


class LedgerStateName(StrEnum):
    """A ledger's state, as it is typed."""

    OPEN = "open"
    IN_RECOVERY = "in_recovery"
    CLOSED = "closed"


_READ_CHUNK = 16
"""Entries of one read: an entry may have 5 MiB."""
_METADATA_CHUNK = 64


@app.callback()
def ledger() -> None:
    """Look at, read, recover and delete the ledgers of a cluster."""


@app.command("list")
def list_ledgers(
    metadata: Metadata,
    bookie: Annotated[
        str | None, typer.Option("--bookie", metavar="ID", help="Only those that this one keeps.")
    ] = None,
    state: Annotated[
        LedgerStateName | None, typer.Option("--state", help="Only those in this state.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List all ledgers: state, quorums, end, bookies of the last fragment."""

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        rows = []
        with progress("read metadata", "ledgers") as step:
            async for ids in ledger_ranges(cluster.store, cluster.root):
                for at in range(0, len(ids), _METADATA_CHUNK):
                    found = await _metadata_of(cluster, ids[at : at + _METADATA_CHUNK])
                    rows += [_row(ledger_id, ledger) for ledger_id, ledger in found]
                    step(len(rows))
        return rows

    rows = on_cluster(metadata, work)
    if bookie is not None:
        rows = [row for row in rows if any(bookie in f["bookies"] for f in row["fragments"])]
    if state is not None:
        rows = [row for row in rows if row["state"] == state.name]
    show_rows(rows, _COLUMNS, as_json=as_json)


@app.command()
def show(ledger_id: Id, metadata: Metadata, as_json: Json = False) -> None:
    """Show everything that the metadata says of a ledger. Its password is not shown."""

    async def work(cluster: Cluster) -> dict[str, Any]:
        return _row(LedgerId(ledger_id), await cluster.ledgers.ledger_metadata(LedgerId(ledger_id)))

    row = on_cluster(metadata, work)
    if as_json:
        show_json(row)
        return
    for key, value in row.items():
        if key not in ("fragments", "bookies"):
            print(f"{key:14} {'-' if value is None else value}")
    show_rows(row["fragments"], [Column("first_entry", right=True), Column("bookies")])


@app.command()
def read(
    ledger_id: Id,
    metadata: Metadata,
    first: Annotated[int, typer.Option("--from", metavar="ENTRY", min=0)] = 0,
    last: Annotated[
        int | None,
        typer.Option("--to", metavar="ENTRY", min=0, help="Inclusive.", show_default="LAC"),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write the payloads to stdout as they are.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line, payloads in hex.")
    ] = False,
) -> None:
    """Print confirmed entries; each one's digest is verified. Does not fence."""
    from tailrace.tools.logs.ledger_entries import EntryPrinter

    printer = EntryPrinter(raw=raw, as_json=as_json)

    async def work(cluster: Cluster) -> None:
        reader = await cluster.ledgers.open_ledger(LedgerId(ledger_id), recover=False)
        end = reader.last_confirmed if last is None else last
        if end > reader.last_confirmed:
            raise CliError(f"ledger {ledger_id} is confirmed up to entry {reader.last_confirmed}")
        for at in range(first, end + 1, _READ_CHUNK):
            for entry in await reader.read(at, min(end, at + _READ_CHUNK - 1)):
                printer.show(entry)

    on_cluster(metadata, work)


@app.command()
def recover(ledger_id: Id, metadata: ClusterMetadata, as_json: Json = False) -> None:
    """Fence a ledger and fix its end: its writer, if it still lives, can add nothing any more."""

    async def work(cluster: Cluster) -> "LedgerReader":
        with progress("recover", "entries"):
            return await cluster.ledgers.open_ledger(LedgerId(ledger_id), recover=True)

    closed = on_cluster(metadata, work, changes=True).metadata
    if as_json:
        show_json(_row(LedgerId(ledger_id), closed))
    else:
        print(f"ledger {ledger_id} ends at entry {closed.last_entry_id}, {closed.length} bytes")


@app.command()
def delete(
    ledger_id: Id,
    metadata: ClusterMetadata,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a ledger from the metadata; bookies free its room at their next collection."""

    async def work(cluster: Cluster) -> None:
        found = await cluster.ledgers.ledger_metadata(LedgerId(ledger_id))
        if not yes and not typer.confirm(f"delete ledger {ledger_id} ({found.state.name})?"):
            raise CliError("nothing was deleted")
        await cluster.ledgers.delete_ledger(LedgerId(ledger_id))

    on_cluster(metadata, work, changes=True)
    note(f"ledger {ledger_id} is deleted")


_COLUMNS = [
    Column("ledger", right=True),
    Column("state"),
    Column("quorums", title="E/Qw/Qa"),
    Column("last_entry", right=True, title="last entry"),
    Column("bytes", right=True),
    Column("digest"),
    Column("bookies"),
]


async def _metadata_of(
    cluster: Cluster, ids: list[LedgerId]
) -> list[tuple[LedgerId, LedgerMetadata]]:
    found = await together([_read(cluster, ledger_id) for ledger_id in ids])
    return [(at, ledger) for at, ledger in zip(ids, found, strict=True) if ledger is not None]


async def _read(cluster: Cluster, ledger_id: LedgerId) -> LedgerMetadata | None:
    try:
        return await cluster.ledgers.ledger_metadata(ledger_id)
    except LedgerNotFound:
        return None  # deleted since its directory was read


def _row(ledger_id: LedgerId, ledger: LedgerMetadata) -> dict[str, Any]:
    last = ledger.fragments[-1]
    return {
        "ledger": ledger_id,
        "state": ledger.state.name,
        "quorums": f"{ledger.ensemble_size}/{ledger.write_quorum}/{ledger.ack_quorum}",
        "last_entry": ledger.last_entry_id if ledger.is_closed else None,
        "bytes": ledger.length if ledger.is_closed else None,
        "digest": ledger.digest.name,
        "created": _time(ledger.ctime_ms),
        "custom": {key: str(value, "utf-8", "replace") for key, value in ledger.custom.items()},
        "bookies": list(last.ensemble),
        "fragments": [
            {"first_entry": first, "bookies": list(ensemble)}
            for first, ensemble in ledger.fragments
        ],
    }


def _time(ms: int | None) -> str | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat()
