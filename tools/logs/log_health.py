"""`tailrace log inspect|check`: what is wrong with a log, and its ends read again."""

from typing import Annotated, Any

import typer

from tailrace.core.log.names import check_log_name
from tailrace.core.log.open_namespace import OpenNamespace
from tailrace.core.log.stream_inspection import Problem, find_problems, read_stream
from tailrace.core.log.stream_repair import EndCheck, check_ends, holding_lock, repair_ends
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.tools.cluster.cluster_access import (
    CLIENT_ID,
    LedgersOfNamespace,
    Namespace,
    on_namespace,
)
from tailrace.tools.errors import Exit
from tailrace.tools.logs.log_streams import OneLog
from tailrace.tools.options import Json
from tailrace.tools.output import Column, note, show_rows


def inspect(
    log: OneLog, namespace: Namespace, metadata: LedgersOfNamespace = None, as_json: Json = False
) -> None:
    """Look for what does not fit in the metadata of a log and of its ledgers.

    Gaps and duplicates in the numbers, overlapping txids, missing, shared or short ledgers, counts
    and counters that disagree, foreign nodes. Ends with 1 when there is any.
    """

    async def work(opened: OpenNamespace) -> list[Problem]:
        paths = LogPaths(opened.uri.root, check_log_name(log))
        return find_problems(await read_stream(opened.store, opened.ledgers, paths))

    problems = on_namespace(namespace, metadata, work)
    rows = [{"problem": kind, "place": place, "detail": detail} for kind, place, detail in problems]
    if rows or as_json:
        columns = [Column("problem"), Column("place"), Column("detail")]
        show_rows(rows, columns, as_json=as_json)
    else:
        note("nothing is wrong")
    if rows:
        raise typer.Exit(Exit.FAILED)


def check(
    log: OneLog,
    namespace: Namespace,
    metadata: LedgersOfNamespace = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair/--dry-run", help="Record ends that are too small; else only say so."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Read the last record of each completed segment again, and compare it with the metadata.

    As `dlog admin dlck`. Ends with 1 when an end is too small and was not repaired.
    """

    async def work(opened: OpenNamespace) -> list[EndCheck]:
        paths = LogPaths(opened.uri.root, check_log_name(log))
        if repair:
            async with holding_lock(opened.store, paths, CLIENT_ID):
                return await repair_ends(opened.store, opened.ledgers, paths)
        stream = await read_stream(opened.store, opened.ledgers, paths)
        return [each async for each in check_ends(opened.ledgers, stream.segments)]

    checks = on_namespace(namespace, metadata, work, changes=repair)
    show_rows([_row(each, repair=repair) for each in checks], _COLUMNS, as_json=as_json)
    if not repair and any(each.is_too_small for each in checks):
        raise typer.Exit(Exit.FAILED)


def _row(check: EndCheck, *, repair: bool) -> dict[str, Any]:
    verdict = "ok"
    if check.is_too_small:
        verdict = "repaired" if repair else "too small"
    return {
        "segment": check.said.lssn,
        "ledger": check.said.ledger_id,
        "verdict": verdict,
        "last_dlsn": _dlsn(check.said),
        "last_txid": check.said.last_txid,
        "records": check.said.record_count,
        "found_dlsn": None if check.found is None else ",".join(map(str, check.found.dlsn)),
        "found_txid": None if check.found is None else check.found.txid,
        "found_records": None if check.found is None else check.found.position,
    }


def _dlsn(segment: SegmentMetadata) -> str:
    return ",".join(map(str, DLSN(segment.lssn, segment.last_entry_id, segment.last_slot)))


_COLUMNS = [
    Column("segment", right=True),
    Column("ledger", right=True),
    Column("verdict"),
    Column("last_dlsn", title="last dlsn"),
    Column("last_txid", right=True, title="last txid"),
    Column("records", right=True),
    Column("found_dlsn", title="found dlsn"),
    Column("found_txid", right=True, title="found txid"),
    Column("found_records", right=True, title="found records"),
]
