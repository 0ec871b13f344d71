"""`tailrace cold`: what of log streams is in cold storage."""

from typing import Annotated, Any, TypeVar

import typer

from tailrace.core.errors import LogNotFound
from tailrace.core.log.cold.config import ColdConfig
from tailrace.core.log.cold_report import Finding, TieredSegment, tiered_segments, verify_log
from tailrace.core.log.config import LogConfig
from tailrace.core.log.open_namespace import OpenNamespace
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.runtime.config import Secret
from tailrace.tools.cluster.cluster_access import LedgersOfNamespace, Namespace, on_namespace
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.options import Json
from tailrace.tools.output import Column, note, progress, show_json, show_rows

app = typer.Typer(no_args_is_help=True, add_completion=False)

T = TypeVar("T")

Cold = Annotated[
    str,
    typer.Option(
        "--cold",
        "-c",
        metavar="URL",
        envvar="TAILRACE_COLD_STORAGE_URL",
        help="Cold storage, as in cold.storage.url: a directory, s3://BUCKET/PATH, ...",
    ),
]
ColdOptions = Annotated[
    str,
    typer.Option(
        "--cold-options",
        metavar="JSON",
        envvar="TAILRACE_COLD_STORAGE_OPTIONS",
        help="As in cold.storage.options.",
    ),
]
Logs = Annotated[list[str] | None, typer.Argument(metavar="[LOG]...", show_default="all")]


@app.callback()
def cold() -> None:
    """Look at, verify and bring back log segments in cold storage."""


@app.command()
def status(
    namespace: Namespace,
    logs: Logs = None,
    metadata: LedgersOfNamespace = None,
    as_json: Json = False,
) -> None:
    """Show how much of each log is on bookies, in cold storage, or both. Reads metadata only."""

    async def work(opened: OpenNamespace) -> list[dict[str, Any]]:
        names = await _names(opened, logs)
        rows = []
        with progress("read metadata", "logs") as step:
            for number, name in enumerate(names, 1):
                paths = LogPaths(opened.uri.root, name)
                rows.append(_row(name, await tiered_segments(opened.store, paths)))
                step(number, len(names))
        return rows

    rows = on_namespace(namespace, metadata, work)
    show_rows(rows, _COLUMNS, as_json=as_json)


@app.command()
def verify(
    namespace: Namespace,
    url: Cold,
    logs: Logs = None,
    metadata: LedgersOfNamespace = None,
    options: ColdOptions = "{}",
    as_json: Json = False,
) -> None:
    """Read every object whole and check it; ends with 1 when one is missing, wrong or unnamed."""

    async def work(opened: OpenNamespace) -> list[dict[str, Any]]:
        cold_store = opened.cold
        assert cold_store is not None, "the command line names it"
        rows = []
        with progress("verify", "objects") as step:
            for name in await _names(opened, logs):
                paths = LogPaths(opened.uri.root, name)
                async for found in verify_log(opened.store, paths, cold_store):
                    rows.append(_finding(name, found))
                    step(len(rows))
        return rows

    rows = on_namespace(namespace, metadata, work, cold=_cold_config(url, options))
    wrong = [row for row in rows if row["problem"]]
    if as_json:
        show_json(rows)
    else:
        show_rows(wrong, [Column("log"), Column("lssn", right=True), Column("problem")])
    note(f"{len(rows)} objects, {len(wrong)} with a problem")
    if wrong:
        raise typer.Exit(Exit.FAILED)


@app.command()
def restore(
    log: Annotated[str, typer.Argument(metavar="LOG")],
    lssn: Annotated[int, typer.Argument(metavar="LSSN", min=1, help="The oldest to bring back.")],
    namespace: Namespace,
    url: Cold,
    metadata: LedgersOfNamespace = None,
    options: ColdOptions = "{}",
    ensemble: Annotated[int, typer.Option("--ensemble", metavar="E", min=1)] = 1,
    write_quorum: Annotated[int, typer.Option("--write-quorum", metavar="QW", min=1)] = 1,
    ack_quorum: Annotated[int, typer.Option("--ack-quorum", metavar="QA", min=1)] = 1,
    as_json: Json = False,
) -> None:
    """Write segments back to ledgers: all that are in cold storage only, from LSSN on.

    Newest first, so that what is on bookies has no hole at any time. They stay in cold storage.
    """
    try:
        config = LogConfig(ensemble_size=ensemble, write_quorum=write_quorum, ack_quorum=ack_quorum)
    except ValueError as error:
        raise CliError(str(error), code=Exit.USAGE) from error

    async def work(opened: OpenNamespace) -> list[int]:
        with progress("restore", "segments"):
            return await (await opened.logs.open_log(log)).upkeep.restore(lssn)

    cold_config = _cold_config(url, options)
    restored = on_namespace(namespace, metadata, work, changes=True, log=config, cold=cold_config)
    if as_json:
        show_json({"log": log, "restored": restored})
    else:
        print(f"restored {len(restored)} segments: {', '.join(map(str, restored)) or 'none'}")


async def _names(opened: OpenNamespace, logs: list[str] | None) -> list[str]:
    """Return the logs to look at. Errors: LogNotFound, InvalidStreamName."""
    for name in logs or []:
        if not await opened.logs.log_exists(name):
            raise LogNotFound(name)
    return logs or await _below(opened, "")


async def _below(opened: OpenNamespace, prefix: str) -> list[str]:
    """Return all logs below a name, at whatever depth."""
    names = []
    for name in await opened.logs.list_logs(prefix):
        if await opened.logs.log_exists(name):
            names.append(name)
        names += await _below(opened, name)
    return names


def _cold_config(url: str, options: str) -> ColdConfig:
    try:
        return ColdConfig(url=url, options=Secret(options))
    except ValueError as error:
        raise CliError(str(error), place="--cold-options", code=Exit.USAGE) from error


_COLUMNS = [
    Column("log"),
    Column("segments", right=True),
    Column("on_bookies", right=True, title="on bookies"),
    Column("cold", right=True),
    Column("cold_only", right=True, title="cold only"),
    Column("cold_bytes", right=True, title="cold bytes"),
    Column("oldest_lssn", right=True, title="oldest"),
    Column("not_copied", right=True, title="not copied"),
]


def _row(name: str, segments: list[TieredSegment]) -> dict[str, Any]:
    completed = [each for each in segments if not each.metadata.in_progress]
    return {
        "log": name,
        "segments": len(segments),
        "on_bookies": sum(each.on_bookies for each in segments),
        "cold": sum(each.cold is not None for each in segments),
        "cold_only": sum(not each.on_bookies for each in segments),
        "cold_bytes": sum(each.cold.size_bytes for each in segments if each.cold is not None),
        "oldest_lssn": segments[0].metadata.lssn if segments else None,
        "not_copied": sum(each.cold is None for each in completed),
        "details": [
            {
                "lssn": each.metadata.lssn,
                "on_bookies": each.on_bookies,
                "ledger": each.metadata.ledger_id if each.on_bookies else None,
                "object": None if each.cold is None else each.cold.name,
                "truncation": each.metadata.truncation.name,
                "first_txid": each.metadata.first_txid,
                "records": each.metadata.record_count,
            }
            for each in segments
        ],
    }


def _finding(log: str, found: Finding) -> dict[str, Any]:
    return {
        "log": log,
        "lssn": found.lssn,
        "object": found.name,
        "problem": found.problem,
        "payload_bytes": found.payload_bytes,
    }
