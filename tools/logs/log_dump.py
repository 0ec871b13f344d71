"""The lines of `tailrace log dump`: every record of a log, and what is wrong with it."""

import json
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from tailrace.broker.json_bytes import named_bytes
from tailrace.core.errors import CorruptData
from tailrace.core.log.owner_records import INDEX_MAGIC, read_part
from tailrace.protocol.distributedlog.record import LogRecord
from tailrace.protocol.errors import ProtocolError
from tailrace.protocol.records.batch import read_header, verify_crc
from tailrace.protocol.records.record import iter_records
from tailrace.tools.logs.inspection import StoredEntry, StoredLog, StoredSegment, codec_name

Line = dict[str, Any]

RECORD_SHOWN_BYTES = 80
"""A key or value is cut here when it is printed for people."""


def dump_lines(log: StoredLog, start: int, lssn: int | None, *, records: bool) -> Iterator[Line]:
    """Yield a line for each log record whose last offset is not below `start`.

    What does not verify is a line with `error`; the next entry follows.
    """
    for segment in log.segments:
        ended = not segment.metadata.in_progress and segment.metadata.last_txid < start
        if (lssn is None and ended) or lssn not in (None, segment.metadata.lssn):
            continue
        for entry_id in segment.entry_ids[_first(segment, start) :]:
            yield from _entry_lines(segment, entry_id, start, records=records)


def _first(segment: StoredSegment, start: int) -> int:
    """Return the index of the first entry to print; a search that meets damage prints all."""
    if start == 0:
        return 0
    try:
        entry_id = segment.entry_reaching(start)
    except CorruptData:
        return 0
    return len(segment.entry_ids) if entry_id is None else bisect_left(segment.entry_ids, entry_id)


def _entry_lines(
    segment: StoredSegment, entry_id: int, start: int, *, records: bool
) -> Iterator[Line]:
    try:
        stored = segment.read(entry_id)
    except CorruptData as error:
        yield {**_place(segment, entry_id, None), "kind": "damaged", "error": str(error)}
        return
    for slot, record in stored.slots:
        if record.txid < start:
            continue
        line = {**_place(segment, entry_id, slot), "txid": record.txid, "lac": stored.entry.lac}
        if record.is_control or record.is_end_of_stream:
            yield {**line, "kind": _control_kind(record), "bytes": len(record.payload)}
        else:
            yield {**line, "kind": "batch", **_batch(stored, record)}
            if records:
                yield from _record_lines(segment, entry_id, slot, record)


def _place(segment: StoredSegment, entry_id: int, slot: int | None) -> Line:
    return {
        "segment": segment.metadata.lssn,
        "ledger": segment.metadata.ledger_id,
        "entry": entry_id,
        "slot": slot,
    }


def _control_kind(record: LogRecord) -> str:
    if record.is_end_of_stream:
        return "end of stream"
    try:
        part = read_part(record.payload)
    except ProtocolError:
        return "control"
    if part is None:
        return "control"
    kind = "index" if part.magic == INDEX_MAGIC else "snapshot"
    return kind if part.total == 1 else f"{kind} {part.number + 1}/{part.total}"


def _batch(stored: StoredEntry, record: LogRecord) -> Line:
    try:
        header = read_header(record.payload)
    except ProtocolError as error:
        return {"bytes": len(record.payload), "error": str(error)}
    line: Line = {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "bytes": header.size_bytes,
        "codec": codec_name(header.codec),
        "leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "timestamp_type": header.timestamp_type.name.lower(),
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "transactional": header.is_transactional,
        "control_batch": header.is_control,
        "crc": f"{header.crc:08x}",
        "file": stored.place.path.name,
        "position": stored.place.position,
    }
    try:
        verify_crc(record.payload)
    except ProtocolError as error:
        line["error"] = str(error)
    return line


def _record_lines(
    segment: StoredSegment, entry_id: int, slot: int, batch: LogRecord
) -> Iterator[Line]:
    place = _place(segment, entry_id, slot)
    try:
        for record in iter_records(batch.payload):
            yield {
                **place,
                "kind": "record",
                "offset": record.offset,
                "timestamp": record.timestamp,
                **named_bytes("key", record.key),
                **named_bytes("value", record.value),
                "headers": [
                    {"name": name, **named_bytes("value", value)} for name, value in record.headers
                ],
            }
    except ProtocolError as error:
        yield {**place, "kind": "record", "error": str(error)}


def print_line(line: Line, *, as_json: bool) -> None:
    """Print one line: JSON, or its place and then `name=value`."""
    if as_json:
        print(json.dumps(line, ensure_ascii=False))
        return
    slot = "-" if line["slot"] is None else line["slot"]
    indent = "    " if line["kind"] == "record" else ""
    print(
        f"{indent}{line['segment']},{line['entry']},{slot} {line['kind']}",
        *(
            f"{name}={_shown(value)}"
            for name, value in line.items()
            if name not in ("segment", "entry", "slot", "kind")
        ),
    )


def _shown(value: Any) -> str:
    if isinstance(value, str):
        cut = value[:RECORD_SHOWN_BYTES]
        plain = cut == value and cut.isprintable() and " " not in cut and cut
        return cut if plain else json.dumps(cut, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)
