"""`tailrace log` over a namespace: making, listing, showing, printing and counting its logs."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from tailrace.core.errors import EndOfStream
from tailrace.core.log.last_record import count_all, count_from
from tailrace.core.log.log import Log
from tailrace.core.log.open_namespace import OpenNamespace
from tailrace.core.metadata.segment_metadata import SegmentMetadata, Truncation
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tailrace.protocol.distributedlog.record import LogRecord
from tailrace.tools.cluster.cluster_access import LedgersOfNamespace, Namespace, on_namespace
from tailrace.tools.logs.log_stored import Wanted
from tailrace.tools.logs.position_spec import parse_dlsn
from tailrace.tools.options import Json
from tailrace.tools.output import Column, note, show_json, show_rows

Logs = Annotated[list[str], typer.Argument(metavar="LOG...")]
OneLog = Annotated[str, typer.Argument(metavar="LOG")]

SHOWN_BYTES = 48
"""A payload is cut here when it is printed for people."""

_READ_BYTES = 1 << 20


def create(
    logs: Logs, namespace: Namespace, metadata: LedgersOfNamespace = None, as_json: Json = False
) -> None:
    """Make logs, or finish those that were begun. Refused for one that is there."""

    async def work(opened: OpenNamespace) -> None:
        for name in logs:
            await opened.logs.create_log(name)
            if not as_json:
                print(f"created {name}")

    on_namespace(namespace, metadata, work, changes=True)
    if as_json:
        show_json({"created": logs})


def list_logs(
    namespace: Namespace,
    metadata: LedgersOfNamespace = None,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="NAME", help="Those below this name.")
    ] = "",
    as_json: Json = False,
) -> None:
    """List the logs of a namespace: one level; a name that only has logs below it is listed too."""

    async def work(opened: OpenNamespace) -> list[str]:
        return await opened.logs.list_logs(prefix)

    names = on_namespace(namespace, metadata, work)
    if as_json:
        show_json(names)
        return
    for name in names:
        print(name)


def show_stream(namespace: str, metadata: str | None, name: str, *, as_json: bool) -> None:
    """List the segments of a log of a namespace."""

    async def work(opened: OpenNamespace) -> list[SegmentMetadata]:
        log = await opened.logs.open_log(name)
        await log.refresh()
        return list(log.segments)

    segments = on_namespace(namespace, metadata, work)
    show_rows([segment_row(segment) for segment in segments], _COLUMNS, as_json=as_json)


def dump_stream(
    namespace: str,
    metadata: str | None,
    name: str,
    wanted: Wanted,
    begin: DLSN | None,
    *,
    as_hex: bool,
    as_json: bool,
) -> None:
    """Print the records of a log of a namespace, as a reader gets them."""

    async def work(opened: OpenNamespace) -> None:
        log = await opened.logs.open_log(name)
        number = 0
        async with aclosing(_records(log, wanted, begin)) as found:
            async for dlsn, record in found:
                if wanted.limit is not None and number >= wanted.limit:
                    return
                number += 1
                _print(dlsn, record, as_hex=as_hex, as_json=as_json)

    on_namespace(namespace, metadata, work)


def count(
    log: OneLog,
    namespace: Namespace,
    metadata: LedgersOfNamespace = None,
    dlsn: Annotated[
        str | None,
        typer.Option("--from-dlsn", metavar="LSSN,ENTRY,SLOT", help="From this position on."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Count the records of a log by its metadata; those in writing by the last one."""
    start = None if dlsn is None else parse_dlsn(dlsn)

    async def work(opened: OpenNamespace) -> int:
        found = await opened.logs.open_log(log)
        return await (count_all(found) if start is None else count_from(found, start))

    records = on_namespace(namespace, metadata, work)
    if as_json:
        show_json({"log": log, "from": dlsn, "records": records})
    else:
        print(records)


def segment_row(segment: SegmentMetadata) -> dict[str, Any]:
    """Return what is shown of a segment."""
    done = not segment.in_progress
    cut = segment.truncation is not Truncation.ACTIVE
    state = "completed" if done else "in progress"
    return {
        "segment": segment.lssn,
        "state": f"{state}, {segment.truncation.name.lower()}".replace("_", " ") if cut else state,
        "ledger": segment.ledger_id,
        "first_txid": segment.first_txid,
        "last_txid": segment.last_txid if done else None,
        "records": segment.record_count if done else None,
        "last_dlsn": _text(DLSN(segment.lssn, segment.last_entry_id, segment.last_slot), done),
        "first_kept": _text(
            DLSN(segment.lssn, segment.min_active_entry_id, segment.min_active_slot), cut
        ),
        "start_sequence_id": segment.start_sequence_id if done else None,
        "region": segment.region_id,
        "version": segment.version,
        "completed": _time(segment.completion_time_ms) if done else None,
    }


_COLUMNS = [
    Column("segment", right=True),
    Column("state"),
    Column("ledger", right=True),
    Column("first_txid", right=True, title="first txid"),
    Column("last_txid", right=True, title="last txid"),
    Column("records", right=True),
    Column("last_dlsn", title="last dlsn"),
    Column("start_sequence_id", right=True, title="sequence id"),
    Column("completed"),
]


async def _records(
    log: Log, wanted: Wanted, begin: DLSN | None
) -> AsyncGenerator[tuple[DLSN, LogRecord], None]:
    """Yield what a reader gets from the wanted position on, up to the tail of now."""
    start: DLSN | int = begin or wanted.start or INITIAL
    if wanted.segment is not None and begin is None:
        start = DLSN(wanted.segment, 0, 0)
    reader = await log.open_reader(start)
    try:
        while batch := await reader.read(_READ_BYTES):
            for found in batch:
                if wanted.segment is not None and found.dlsn.lssn > wanted.segment:
                    return
                if found.record.txid >= wanted.start:
                    yield found
    except EndOfStream:
        note("the log was sealed here")
    finally:
        await reader.close()


def _print(dlsn: DLSN, record: LogRecord, *, as_hex: bool, as_json: bool) -> None:
    payload = bytes(record.payload)
    position = ",".join(map(str, dlsn))
    if as_json:
        facts = {"dlsn": position, "txid": record.txid, "position": record.position}
        print(json.dumps({**facts, "bytes": len(payload), "payload": payload.hex()}))
        return
    print(f"{position} txid={record.txid} position={record.position} bytes={len(payload)}", end=" ")
    print(payload.hex() if as_hex else _preview(payload))


def _preview(payload: bytes) -> str:
    cut = payload[:SHOWN_BYTES]
    text = cut.decode("ascii", "backslashreplace")
    more = "..." if len(payload) > SHOWN_BYTES else ""
    return (text if text.isprintable() else cut.hex(" ")) + more


def _text(dlsn: DLSN, shown: bool) -> str | None:
    return ",".join(map(str, dlsn)) if shown else None


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
