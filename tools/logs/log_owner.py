"""`tailrace log rename|delete|truncate|recover|repair-seqno`: what only a log's owner may do.

Each takes the log's lock first, and is refused while a broker or another writer has it.
"""

from typing import Annotated, Any

import typer

from tailrace.core.errors import CoreError
from tailrace.core.log.log import Log
from tailrace.core.log.names import check_log_name
from tailrace.core.log.open_namespace import OpenNamespace
from tailrace.core.log.stream_inspection import StoredSegment, read_stream
from tailrace.core.log.stream_repair import holding_lock, plan_renumbering, renumber
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.tools.cluster.cluster_access import (
    CLIENT_ID,
    LedgersOfNamespace,
    Namespace,
    on_namespace,
)
from tailrace.tools.errors import CliError
from tailrace.tools.logs.log_streams import OneLog, segment_row
from tailrace.tools.logs.position_spec import parse_dlsn
from tailrace.tools.options import Json
from tailrace.tools.output import Column, note, show_json, show_rows

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class Nobody:
    """Hears nothing: a command appends no record (LogListener)."""

    def on_confirmed(self, txid: int) -> None:
        """Do nothing."""

    def on_failed(self, error: CoreError) -> None:
        """Do nothing: whatever the command did next says it."""


def truncate(
    log: OneLog,
    namespace: Namespace,
    dlsn: Annotated[
        str, typer.Option("--dlsn", metavar="LSSN,ENTRY,SLOT", help="First record to keep.")
    ],
    metadata: LedgersOfNamespace = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Give up all records before a position.

    Readers do not see them any more; the ledgers are deleted by the log's owner, by its retention.
    """
    keep = parse_dlsn(dlsn)
    if not yes and not typer.confirm(f"give up everything in {log} before {dlsn}?"):
        raise CliError("nothing was changed")

    async def work(opened: OpenNamespace) -> list[SegmentMetadata]:
        found = await opened.logs.open_log(log)
        writer = await found.open_writer(Nobody())
        try:
            before = {segment.lssn: segment for segment in await _all(found)}
            await found.truncate(keep)
            return [s for s in found.segments if before.get(s.lssn) != s]
        finally:
            await writer.close()

    _show(on_namespace(namespace, metadata, work, changes=True), as_json=as_json)


def rename(
    log: OneLog,
    new: Annotated[str, typer.Argument(metavar="NEW", help="Its name from now on.")],
    namespace: Namespace,
    metadata: LedgersOfNamespace = None,
) -> None:
    """Give a log another name, in one step. Refused while it is written, or if there is such a log.

    Not for the log of a topic: its broker would look for it under its old name.
    """

    async def work(opened: OpenNamespace) -> None:
        await opened.logs.rename_log(log, new)

    on_namespace(namespace, metadata, work, changes=True)
    note(f"{log} is {new} now")


def delete(
    log: OneLog, namespace: Namespace, metadata: LedgersOfNamespace = None, yes: Yes = False
) -> None:
    """Delete a log with all of its ledgers. Refused while it is written.

    Not for the log of a topic: `tailrace topic delete` does that.
    """
    if not yes and not typer.confirm(f"delete {log} with everything in it?"):
        raise CliError("nothing was changed")

    async def work(opened: OpenNamespace) -> None:
        await opened.logs.delete_log(log)

    on_namespace(namespace, metadata, work, changes=True)
    note(f"{log} is deleted")


def recover(
    log: OneLog, namespace: Namespace, metadata: LedgersOfNamespace = None, as_json: Json = False
) -> None:
    """Fence whoever wrote a log, and complete the segments that they left in progress."""

    async def work(opened: OpenNamespace) -> list[SegmentMetadata]:
        found = await opened.logs.open_log(log)
        begun = {segment.lssn for segment in await _all(found) if segment.in_progress}
        writer = await found.open_writer(Nobody())
        try:
            return [segment for segment in await _all(found) if segment.lssn in begun]
        finally:
            await writer.close()

    _show(on_namespace(namespace, metadata, work, changes=True), as_json=as_json)


def repair_seqno(
    log: OneLog,
    namespace: Namespace,
    metadata: LedgersOfNamespace = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Give a segment in progress whose number is too low the next one.

    As `dlog admin repairseqno`: such a segment hides behind the completed ones.
    """

    async def work(opened: OpenNamespace) -> dict[str, Any] | None:
        paths = LogPaths(opened.uri.root, check_log_name(log))
        async with holding_lock(opened.store, paths, CLIENT_ID) as lock:
            stream = await read_stream(opened.store, opened.ledgers, paths)
            plan = plan_renumbering(stream.nodes)
            if plan is None:
                return None
            stored, lssn = plan
            _ask(stored, lssn, yes=yes)
            lock.check_ownership()
            await renumber(opened.store, paths, stored, lssn)
            return {"log": log, "was": stored.node_name, "number": lssn}

    done = on_namespace(namespace, metadata, work, changes=True)
    if as_json:
        show_json(done)
    elif done is None:
        note("every number is as it must be")
    else:
        print(f"{done['was']} has number {done['number']} now")


def _ask(stored: StoredSegment, lssn: int, *, yes: bool) -> None:
    if not yes and not typer.confirm(f"give {stored.node_name} the number {lssn}?"):
        raise CliError("nothing was changed")


async def _all(log: Log) -> list[SegmentMetadata]:
    await log.refresh()
    return list(log.segments)


def _show(segments: list[SegmentMetadata], *, as_json: bool) -> None:
    rows = [segment_row(segment) for segment in segments]
    if not rows and not as_json:
        note("nothing had to be changed")
        return
    show_rows(rows, _COLUMNS, as_json=as_json)


_COLUMNS = [
    Column("segment", right=True),
    Column("state"),
    Column("ledger", right=True),
    Column("last_txid", right=True, title="last txid"),
    Column("records", right=True),
    Column("last_dlsn", title="last dlsn"),
    Column("first_kept", title="first kept"),
]
