"""`tailrace proxy`: run proxies; see which there are and what they own; let streams go."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from tailrace.core.runtime.collector import loading_modules
from tailrace.tools.cluster.cluster_access import Namespace
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.options import CommandConfig, Json, Timeout
from tailrace.tools.output import Column, note, show_rows
from tailrace.tools.proxies.balance import balance
from tailrace.tools.serving.proxy import app

__all__ = ["app"]

TIMEOUT_S: Final = 10.0
OWNER_COLUMNS: Final = [
    Column("stream"),
    Column("proxy"),
    Column("records_per_second", right=True, title="records/s"),
    Column("bytes_per_second", right=True, title="bytes/s"),
]
_LIST_COLUMNS: Final = [
    Column("proxy"),
    Column("kind"),
    Column("shard", right=True),
    Column("region"),
    Column("status"),
    Column("streams", right=True),
    Column("since"),
]

Streams = Annotated[list[str], typer.Argument(metavar="STREAM...")]
Proxy = Annotated[str, typer.Argument(metavar="PROXY", help="HOST:PORT, as `list` shows it.")]


@app.command("list")
def list_proxies(
    namespace: Namespace,
    as_json: Json = False,
    timeout_s: Timeout = TIMEOUT_S,
    command_config: CommandConfig = None,
) -> None:
    """List the proxies that are registered: where, since when, whether they take streams."""
    with loading_modules():
        from tailrace.proxy.balancing.proxies import ProxyView, Registered
        from tailrace.proxy.routing.regions import DEFAULT_REGION
        from tailrace.proxy.routing.stopped_regions import read_stopped
        from tailrace.tools.proxies.access import Proxies, on_proxies

    def row(each: Registered, kind: str, status: str, streams: int | None) -> dict[str, Any]:
        since = datetime.fromtimestamp(each.since_ms / 1000, UTC)
        return {
            "proxy": each.name,
            "kind": kind,
            "shard": each.member.shard,
            "region": "" if each.region == DEFAULT_REGION else each.region,
            "status": status if each.status == "ALIVE" else each.status,
            "streams": streams,
            "since": since.isoformat(timespec="seconds").replace("+00:00", "Z"),
        }

    def write_row(view: ProxyView, stopped: frozenset[str]) -> dict[str, Any]:
        status = view.status.name if view.status is not None else view.trouble
        if view.status is not None and view.registered.region in stopped:
            status += " REGION_STOPPED"
        count = None if view.trouble else len(view.streams)
        return row(view.registered, "write", status, count)

    async def work(proxies: Proxies) -> list[dict[str, Any]]:
        stopped = await read_stopped(proxies.store, proxies.at.root)
        views = await proxies.operator.views(await proxies.writers(), "")
        rows = [write_row(view, stopped) for view in views]
        readers = await proxies.readers()
        healths = [await proxies.operator.health(each) for each in readers]
        for each, health in zip(readers, healths, strict=True):
            rows.append(row(each, "read", health, None))
        return rows

    show_rows(
        on_proxies(namespace, timeout_s, work, command_config), _LIST_COLUMNS, as_json=as_json
    )


@app.command()
def owners(
    namespace: Namespace,
    stream: Annotated[
        str,
        typer.Option("--stream", metavar="REGEX", help="Only streams whose whole name matches."),
    ] = "",
    as_json: Json = False,
    timeout_s: Timeout = TIMEOUT_S,
    command_config: CommandConfig = None,
) -> None:
    """Show which proxy owns which stream, and how much was written to each in the last minute.

    Ends with 1 when a proxy does not answer: what it owns is missing then.
    """
    with loading_modules():
        from tailrace.tools.proxies.access import Proxies, answering, on_proxies

    async def work(proxies: Proxies) -> tuple[list[dict[str, Any]], bool]:
        views = await proxies.operator.views(await proxies.writers(), stream)
        rows = [
            {
                "stream": name,
                "proxy": view.registered.name,
                "records_per_second": round(load.records, 1),
                "bytes_per_second": round(load.size_bytes),
            }
            for view in answering(views)
            for name, load in view.streams.items()
        ]
        rows.sort(key=lambda each: str(each["stream"]))
        return rows, any(view.trouble for view in views)

    rows, is_partial = on_proxies(namespace, timeout_s, work, command_config)
    show_rows(rows, OWNER_COLUMNS, as_json=as_json)
    if is_partial:
        raise typer.Exit(Exit.FAILED)


@app.command()
def release(
    streams: Streams,
    namespace: Namespace,
    timeout_s: Timeout = TIMEOUT_S,
    command_config: CommandConfig = None,
) -> None:
    """Have the owners of streams complete them and let them go; the next request claims them.

    A stream without an owner is released already. Ends with 1 when one could not be released.
    """
    with loading_modules():
        from tailrace.proxy.owner.codes import StatusCode
        from tailrace.tools.proxies.access import Proxies, on_proxies

    async def work(proxies: Proxies) -> int:
        members, failed = await proxies.writers(), 0
        for stream in streams:
            owner = await proxies.operator.owner(members, stream)
            if owner is None:
                note(f"{stream}: no proxy that answers owns it")
                continue
            reply = await proxies.operator.release(owner, stream)
            if reply.outcome is StatusCode.SUCCESS:
                note(f"{stream}: released by {owner.name}")
            else:
                failed += 1
                note(f"{stream}: {owner.name} does not release it: {reply.words}")
        return failed

    failed = on_proxies(namespace, timeout_s, work, command_config)
    if failed:
        raise CliError(f"{failed} of {len(streams)} streams were not released")


@app.command()
def accept(
    proxy: Proxy,
    value: Annotated[str, typer.Argument(metavar="on|off")],
    namespace: Namespace,
    timeout_s: Timeout = TIMEOUT_S,
    command_config: CommandConfig = None,
) -> None:
    """Have a proxy take new streams, or only serve those that it owns.

    A proxy that starts again takes streams.
    """
    with loading_modules():
        from tailrace.tools.proxies.access import Proxies, on_proxies
    if value not in ("on", "off"):
        raise CliError(f"{value!r} is neither on nor off", place="accept", code=Exit.USAGE)

    async def work(proxies: Proxies) -> str:
        at = proxies.named(await proxies.writers(), proxy)
        view = await proxies.operator.set_accepts(at, accepts=value == "on")
        if view.status is None:
            raise CliError(
                f"the proxy does not answer: {view.trouble}", place=proxy, code=Exit.UNREACHABLE
            )
        return view.status.name

    print(f"{proxy} {on_proxies(namespace, timeout_s, work, command_config)}")


app.command()(balance)
