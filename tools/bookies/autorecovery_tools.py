"""`tailrace autorecovery status|list|enable|disable|trigger-audit|lost-bookie-recovery-delay`.

All of it is nodes in the metadata that BookKeeper's processes and shell read and write too.
"""

from datetime import UTC, datetime
from random import Random
from typing import Annotated, Any, Final

import typer

from tailrace.core.autorecovery.election import current_auditor
from tailrace.core.autorecovery.shared_state import ALL_LEDGERS, DELAY_S_MAX
from tailrace.core.autorecovery.underreplicated import UnderreplicatedLedgers
from tailrace.core.errors import CorruptData, NoNode
from tailrace.core.metadata.layout import UnderreplicationPaths
from tailrace.core.metadata.node_reads import read_nodes
from tailrace.core.metadata.underreplication import decode_lock
from tailrace.core.runtime.clock import SystemClock
from tailrace.tools.cluster.cluster_access import (
    CLIENT_ID,
    Cluster,
    ClusterMetadata,
    on_cluster,
)
from tailrace.tools.errors import CliError
from tailrace.tools.options import Json
from tailrace.tools.output import Column, note, progress, show_json, show_rows

_COLUMNS: Final = [
    Column("ledger", right=True),
    Column("missing"),
    Column("since"),
    Column("worker"),
]


def status(metadata: ClusterMetadata, as_json: Json = False) -> None:
    """Show whether lost replicas are made anew, who audits, and how many ledgers lack some."""

    async def work(cluster: Cluster) -> dict[str, Any]:
        marks = _marks(cluster)
        with progress("count", "ledgers") as step:
            count = 0
            async for _ in marks.marked():
                count += 1
                step(count)
        return {
            "enabled": await marks.is_enabled(),
            "auditor": await current_auditor(cluster.store, cluster.root),
            "underreplicated": count,
            "being_copied": len(await _locked(cluster)),
            "lost_bookie_recovery_delay_s": await marks.lost_bookie_recovery_delay_s() or 0,
            "all_ledgers_checked": _time(await marks.last_run_ms(ALL_LEDGERS)),
        }

    row = on_cluster(metadata, work)
    if as_json:
        show_json(row)
        return
    for key, value in row.items():
        text = ("yes" if value else "no") if isinstance(value, bool) else value
        print(f"{key:30} {'-' if text is None else text}")


def list_marked(
    metadata: ClusterMetadata,
    missing: Annotated[
        str | None,
        typer.Option(
            "--missing-replica", metavar="BOOKIE", help="Only those that lack this one's replica."
        ),
    ] = None,
    excluding: Annotated[
        str | None,
        typer.Option(
            "--excluding-missing-replica",
            metavar="BOOKIE",
            help="Only those that do not lack this one's.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the ledgers that lack replicas: whose, since when, and who copies them now."""

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        workers = await _locked(cluster)
        rows = []
        with progress("read marks", "ledgers") as step:
            async for ledger_id, mark in _marks(cluster).marked():
                row = {
                    "ledger": ledger_id,
                    "missing": list(mark.missing),
                    "since": _time(mark.ctime_ms),
                    "worker": workers.get(ledger_id),
                }
                if missing in (None, *mark.missing) and excluding not in mark.missing:
                    rows.append(row)
                step(len(rows))
        return rows

    show_rows(on_cluster(metadata, work), _COLUMNS, as_json=as_json)


def enable(metadata: ClusterMetadata) -> None:
    """Let lost bookies be noted, and their replicas be made anew, again."""
    on_cluster(metadata, lambda cluster: _marks(cluster).enable(), changes=True)
    note("auto-recovery is enabled")


def disable(metadata: ClusterMetadata) -> None:
    """Have nothing noted and nothing copied in this cluster until `enable`.

    For maintenance. A ledger that is being copied is finished.
    """
    on_cluster(metadata, lambda cluster: _marks(cluster).disable(), changes=True)
    note("auto-recovery is disabled: tailrace autorecovery enable")


def trigger_audit(metadata: ClusterMetadata) -> None:
    """Have the auditor look for lost bookies now, whatever the delay is."""

    async def work(cluster: Cluster) -> str | None:
        return await ask_for_audit(cluster, metadata)

    auditor = on_cluster(metadata, work, changes=True)
    note(f"{auditor} audits")


def lost_bookie_recovery_delay(
    metadata: ClusterMetadata,
    seconds: Annotated[
        int | None, typer.Argument(metavar="[SECONDS]", min=0, max=DELAY_S_MAX)
    ] = None,
    as_json: Json = False,
) -> None:
    """Show or set how long one lost bookie may take to come back before its replicas are copied.

    Two or more lost bookies never wait. Setting it audits at once, as in BookKeeper.
    """

    async def work(cluster: Cluster) -> int:
        marks = _marks(cluster)
        if seconds is not None:
            await marks.set_lost_bookie_recovery_delay_s(seconds)
        return await marks.lost_bookie_recovery_delay_s() or 0

    delay_s = on_cluster(metadata, work, changes=seconds is not None)
    if as_json:
        show_json({"lost_bookie_recovery_delay_s": delay_s})
    else:
        print(delay_s)


def add_to(app: typer.Typer) -> None:
    """Make these commands of the `tailrace autorecovery` group."""
    app.command("status")(status)
    app.command("list")(list_marked)
    app.command("enable")(enable)
    app.command("disable")(disable)
    app.command("trigger-audit")(trigger_audit)
    app.command("lost-bookie-recovery-delay")(lost_bookie_recovery_delay)


async def ask_for_audit(cluster: Cluster, uri: str) -> str | None:
    """Have the auditor audit now; return who it is. Errors: CliError when nobody would do it."""
    problem = await problem_of(cluster, uri)
    if problem is not None:
        raise problem
    marks = _marks(cluster)
    delay_s = await marks.lost_bookie_recovery_delay_s() or 0
    await marks.set_lost_bookie_recovery_delay_s(delay_s)
    return await current_auditor(cluster.store, cluster.root)


async def problem_of(cluster: Cluster, uri: str) -> CliError | None:
    """Return why nothing is audited or copied now, if nothing is."""
    if not await _marks(cluster).is_enabled():
        return CliError(
            "auto-recovery is disabled", place=uri,
            remedy=f"tailrace autorecovery enable --metadata {uri}",
        )  # fmt: skip
    if await current_auditor(cluster.store, cluster.root) is None:
        return CliError(
            "there is no auditor", place=uri, remedy=f"tailrace autorecovery --metadata {uri}"
        )
    return None


async def _locked(cluster: Cluster) -> dict[int, str]:
    """Return which ledgers are locked, and by whom; "?" if that cannot be read."""
    paths = UnderreplicationPaths(cluster.root)
    try:
        names = await cluster.store.children(paths.locks)
    except NoNode:
        return {}
    nodes = await read_nodes(cluster.store, [f"{paths.locks}/{name}" for name in names])
    return {
        ledger_id: _owner(node.data)
        for name, node in zip(names, nodes, strict=True)
        if node is not None and (ledger_id := paths.marked_ledger(name)) is not None
    }


def _owner(lock: bytes) -> str:
    try:
        return decode_lock(lock)
    except CorruptData:
        return "?"


def _marks(cluster: Cluster) -> UnderreplicatedLedgers:
    return UnderreplicatedLedgers(cluster.store, cluster.root, CLIENT_ID, SystemClock(), Random())


def _time(ms: int | None) -> str | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat()
