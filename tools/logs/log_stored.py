"""`tailrace log` over the files of a standalone broker: the segments of a partition."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.processes.standalone_config import StandaloneConfig
from tailrace.tools.logs.position_spec import parse_partition
from tailrace.tools.output import Column, Step, progress, show_rows
from tailrace.tools.settings import data_option, load_settings

if TYPE_CHECKING:
    from tailrace.broker.partition.offsets import Totals
    from tailrace.tools.logs.inspection import StoredLog, StoredSegment


class Wanted(NamedTuple):
    """Which part of a log is printed."""

    start: int
    """First offset, which is the first txid."""
    segment: int | None
    limit: int | None


def show_stored(partition: str, data: Path | None, config: Path | None, *, as_json: bool) -> None:
    """List the segments of a partition."""
    settings, stored = _open(partition, data, config)
    from tailrace.tools.logs.inspection import damage

    rows = []
    entries = sum(len(segment.entry_ids) for segment in stored.segments)
    with damage(settings), progress("read segments", "entries") as step:
        done = 0
        for segment in stored.segments:
            rows.append(_segment_row(segment, step, done, entries))
            done += len(segment.entry_ids)
    show_rows(rows, _SEGMENT_COLUMNS, as_json=as_json)


def dump_stored(
    partition: str,
    data: Path | None,
    config: Path | None,
    wanted: Wanted,
    *,
    records: bool,
    as_json: bool,
) -> None:
    """Print what is in a partition, control records too."""
    settings, stored = _open(partition, data, config)
    from tailrace.tools.logs.inspection import damage
    from tailrace.tools.logs.log_dump import dump_lines, print_line

    with damage(settings):
        lines = dump_lines(stored, wanted.start, wanted.segment, records=records)
        for number, line in enumerate(lines):
            if wanted.limit is not None and number >= wanted.limit:
                break
            print_line(line, as_json=as_json)


def _open(
    partition: str, data: Path | None, config: Path | None
) -> tuple[StandaloneConfig, "StoredLog"]:
    at = parse_partition(partition)
    settings = load_settings(config, options=data_option(data)).config
    from tailrace.tools.logs.inspection import open_log

    return settings, open_log(settings, at)


_SEGMENT_COLUMNS = [
    Column("segment", right=True),
    Column("state"),
    Column("ledger", right=True),
    Column("entries", right=True),
    Column("first_offset", right=True, title="first"),
    Column("last_offset", right=True, title="last"),
    Column("batches", right=True),
    Column("records", right=True),
    Column("bytes", right=True),
    Column("completed"),
]


def _segment_row(segment: "StoredSegment", step: Step, done: int, entries: int) -> dict[str, Any]:
    metadata = segment.metadata
    indexed = None if metadata.in_progress else segment.totals()
    totals = indexed or _read_through(segment, step, done, entries)
    step(done + len(segment.entry_ids), entries)
    return {
        "segment": metadata.lssn,
        "state": _state(segment),
        "ledger": metadata.ledger_id,
        "entries": len(segment.entry_ids),
        "first_offset": totals.first_offset if totals.batches else None,
        "last_offset": totals.next_offset - 1 if totals.batches else None,
        "batches": totals.batches,
        "records": totals.records,
        "bytes": totals.size_bytes,
        "max_timestamp": totals.max_timestamp if totals.max_timestamp >= 0 else None,
        "completed": _time(metadata.completion_time_ms) if not metadata.in_progress else None,
        "counted_by": "its index" if indexed else "reading",
    }


def _state(segment: "StoredSegment") -> str:
    metadata = segment.metadata
    if segment.ledger is None:
        return "ledger gone" if segment.object_name is None else "cold storage"
    state = "in progress" if metadata.in_progress else "completed"
    truncation = metadata.truncation.name.lower().replace("_", " ")
    return state if truncation == "active" else f"{state}, {truncation}"


def _read_through(segment: "StoredSegment", step: Step, done: int, entries: int) -> "Totals":
    from tailrace.broker.partition.offsets import SegmentIndex

    index = SegmentIndex()
    for found in segment.batches():
        header, entry_id = found.header, found.stored.entry.entry_id
        index.add(
            header.base_offset,
            header.last_offset,
            entry_id,
            header.size_bytes,
            header.max_timestamp,
            header.record_count,
        )
        step(done + entry_id, entries)
    return index.totals


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
