"""`tailrace where`: from an offset to the bytes on disk, and back from a DLSN."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailrace.tools.logs.position_spec import POSITION_HELP, parse_position
from tailrace.tools.options import Json, StandaloneConfigFile, StandaloneData
from tailrace.tools.output import show_json
from tailrace.tools.settings import data_option, load_settings

if TYPE_CHECKING:
    from tailrace.tools.logs.inspection import Found, StoredLog

app = typer.Typer(add_completion=False)


@app.command()
def where(
    position: Annotated[str, typer.Argument(metavar="POSITION", help=POSITION_HELP)],
    data: StandaloneData = None,
    config: StandaloneConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show where a record lies: DLSN, ledger, entry, slot, bookies, file and position.

    Reads the files of a data directory, also while a broker runs on it.
    """
    spec = parse_position(position)
    settings = load_settings(config, options=data_option(data)).config
    from tailrace.tools.logs.inspection import damage, open_log

    log = open_log(settings, spec.at)
    with damage(settings):
        found = log.find_dlsn(spec.dlsn) if spec.dlsn else log.find_offset(spec.offset or 0)
        described = _describe(log, found, spec.offset)
    if as_json:
        show_json(described)
    else:
        _show(described)


def _describe(log: "StoredLog", found: "Found", offset: int | None) -> dict[str, Any]:
    from tailrace.tools.logs.inspection import codec_name

    header, entry, place = found.header, found.stored.entry, found.stored.place
    ledger = found.segment.ledger
    return {
        "topic": log.at.topic,
        "partition": log.at.partition,
        "offset": header.base_offset if offset is None else offset,
        "dlsn": f"{found.dlsn.lssn},{found.dlsn.entry_id},{found.dlsn.slot}",
        "stream": log.stream,
        "segment": found.dlsn.lssn,
        "segment_state": "in progress" if found.segment.metadata.in_progress else "completed",
        "ledger": found.segment.metadata.ledger_id,
        "entry": entry.entry_id,
        "slot": found.slot,
        "bookies": list(ledger.fragment_of(entry.entry_id).ensemble) if ledger else [],
        "batch": {
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "records": header.record_count,
            "bytes": header.size_bytes,
            "codec": codec_name(header.codec),
            "leader_epoch": header.partition_leader_epoch,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "max_timestamp": header.max_timestamp,
        },
        "file": str(place.path),
        "entry_position": place.position,
        "entry_bytes": place.size,
        "batch_position": found.batch_position,
    }


def _show(described: dict[str, Any]) -> None:
    batch = described["batch"]
    print(f"{described['topic']}/{described['partition']}@{described['offset']}")
    print(f"  dlsn      {described['dlsn']}  (segment, entry, slot)")
    print(f"  stream    {described['stream']}")
    print(f"  segment   {described['segment']}, {described['segment_state']}")
    print(
        f"  ledger    {described['ledger']}, entry {described['entry']}, slot {described['slot']}"
    )
    print(f"  bookies   {', '.join(described['bookies']) or '-'}")
    print(
        f"  batch     offsets {batch['base_offset']} to {batch['last_offset']}, "
        f"{batch['records']} records, {batch['bytes']} bytes, codec {batch['codec']}, "
        f"leader epoch {batch['leader_epoch']}"
    )
    print(
        f"  file      {described['file']}, entry at {described['entry_position']} "
        f"({described['entry_bytes']} bytes)"
        + (
            f", batch at {described['batch_position']}"
            if described["batch_position"] is not None
            else ", batch compressed in it"
        )
    )
