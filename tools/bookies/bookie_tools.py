"""`tailrace bookie list|info|cookie|format|rebuild-index`: looking after a cluster's bookies."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tailrace.core.errors import NoNode
from tailrace.core.ledger.bookie_client import ask
from tailrace.core.metadata.bookie_service_info import decode_service_info
from tailrace.core.metadata.cluster import find_cluster
from tailrace.core.runtime.config import Assignment
from tailrace.core.runtime.tasks import together
from tailrace.processes.bookie_config import BookieProcessConfig
from tailrace.protocol.bookkeeper.messages import BookieInfo, BookieInfoRequest, BookieInfoResponse
from tailrace.protocol.ids import BookieId
from tailrace.tools.bookies.rebuild_index import rebuild_index
from tailrace.tools.cluster.cluster_access import Cluster, Metadata, on_cluster
from tailrace.tools.errors import CliError
from tailrace.tools.options import Json
from tailrace.tools.output import Column, note, show_rows
from tailrace.tools.settings import load_settings_of

Id = Annotated[str, typer.Argument(metavar="BOOKIE")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_LIST_COLUMNS = [Column("bookie"), Column("mode"), Column("address"), Column("http")]
_INFO_COLUMNS = [
    Column("bookie"),
    Column("status"),
    Column("free_bytes", right=True, title="free"),
    Column("total_bytes", right=True, title="total"),
]


def list_bookies(metadata: Metadata, as_json: Json = False) -> None:
    """List the bookies: writable, read-only, and those that have a cookie but do not run."""
    show_rows(on_cluster(metadata, _registrations), _LIST_COLUMNS, as_json=as_json)


def info(
    metadata: Metadata,
    bookie: Annotated[str | None, typer.Argument(metavar="[BOOKIE]")] = None,
    as_json: Json = False,
) -> None:
    """Ask the bookies that run, or one of them, what room they have."""

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        rows = await _registrations(cluster)
        names = [row["bookie"] for row in rows if row["mode"] != "not running"]
        wanted = names if bookie is None else [bookie]
        return await together([_room(cluster, BookieId(name)) for name in wanted])

    rows = on_cluster(metadata, work)
    show_rows(rows, _INFO_COLUMNS, as_json=as_json)
    if any(row["status"] != "EOK" for row in rows):
        raise typer.Exit(1)


def cookie(
    bookie: Id,
    metadata: Metadata,
    delete: Annotated[
        bool,
        typer.Option("--delete", help="Let the id begin anew with empty directories. Asks first."),
    ] = False,
    yes: Yes = False,
) -> None:
    """Show the cookie that the metadata keeps of a bookie, or delete it.

    A cookie ties an id to its directories. Without it the bookie is refused over directories that
    hold data, and accepted over empty ones: delete it only when its data is lost or given up.
    """

    async def work(cluster: Cluster) -> None:
        if delete:
            await _delete_cookie(cluster, bookie, yes=yes)
        else:
            node = await cluster.store.get(cluster.paths.cookie(BookieId(bookie)))
            print(node.data.decode("utf-8", "replace"), end="")

    try:
        on_cluster(metadata, work, changes=delete)
    except CliError as error:
        if isinstance(error.__cause__, NoNode):
            raise CliError(
                f"there is no cookie of bookie {bookie}", place=metadata,
                remedy="tailrace bookie list",
            ) from error  # fmt: skip
        raise


def reformat(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="As given to tailrace bookie.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE.toml", help="As given to it.")
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="As given to it.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Erase all entries of the bookie in these directories. Asks first; refused while it runs.

    Its cookie in the metadata stays: `tailrace bookie cookie ID --delete` removes it.
    """
    options = [] if data is None else [Assignment("data", str(data), f"--data {data}")]
    loaded = load_settings_of(
        BookieProcessConfig, "tailrace bookie", config, assignments or (), options
    )
    bookie = loaded.config.bookie_config()
    directories = [*bookie.journal_directories, *bookie.ledger_directories]
    if not any((directory / "current").is_dir() for directory in directories):
        raise CliError(
            "there are no files of a bookie", place=", ".join(map(str, directories)),
            remedy="name its directory with --data",
        )  # fmt: skip
    names = ", ".join(map(str, directories))
    if not yes and not typer.confirm(f"erase every entry in {names}?"):
        raise CliError("nothing was erased")
    from tailrace.bookie.erase import erase_directories
    from tailrace.core.runtime.files import LockHeld, SystemFiles

    try:
        erase_directories(bookie, SystemFiles())
    except LockHeld as error:
        raise CliError(str(error), place=names, remedy="stop that process first") from error
    except OSError as error:
        raise CliError(f"erasing failed half way: {error}", place=names, remedy="again") from error
    note(f"{names}: empty")


def add_to(app: typer.Typer) -> None:
    """Make these commands of the `tailrace bookie` group."""
    app.command("list")(list_bookies)
    app.command("info")(info)
    app.command("cookie")(cookie)
    app.command("format")(reformat)
    app.command("rebuild-index")(rebuild_index)


async def _registrations(cluster: Cluster) -> list[dict[str, Any]]:
    found = await find_cluster(cluster.store, cluster.root)
    if found is None:
        return []
    rows: dict[str, dict[str, Any]] = {
        name: {"bookie": name, "mode": "not running", "address": None, "http": None}
        for name in found.cookies
    }
    modes = (("read-only", found.read_only), ("writable", found.writable))
    for mode, names in modes:
        for name in names:
            rows[name] = {"bookie": name, "mode": mode, **await _doors(cluster, BookieId(name))}
    return [rows[name] for name in sorted(rows)]


async def _doors(cluster: Cluster, bookie: BookieId) -> dict[str, Any]:
    paths = cluster.paths
    for path in (paths.bookie(bookie), paths.read_only_bookie(bookie)):
        node = await cluster.store.exists(path)
        if node is not None:
            info = decode_service_info(node.data, bookie)
            rpc = info.rpc()
            http = next((end for end in info.endpoints if end.protocol == "http"), None)
            return {
                "address": f"{rpc.host}:{rpc.port}" if rpc else None,
                "http": f"{http.host}:{http.port}" if http else None,
            }
    return {"address": None, "http": None}  # it signed off meanwhile


async def _room(cluster: Cluster, bookie: BookieId) -> dict[str, Any]:
    wanted = BookieInfo.TOTAL_DISK_CAPACITY | BookieInfo.FREE_DISK_SPACE
    answer = await ask(cluster.bookies.client(bookie), BookieInfoRequest(wanted))
    row: dict[str, Any] = {
        "bookie": bookie,
        "status": answer.status.name,
        "free_bytes": None,
        "total_bytes": None,
    }
    if isinstance(answer, BookieInfoResponse):
        row |= {"free_bytes": answer.free_disk_space, "total_bytes": answer.total_disk_capacity}
    return row


async def _delete_cookie(cluster: Cluster, bookie: str, *, yes: bool) -> None:
    path = cluster.paths.cookie(BookieId(bookie))
    node = await cluster.store.get(path)
    found = await find_cluster(cluster.store, cluster.root)
    if found is not None and bookie in found.registered:
        raise CliError(f"bookie {bookie} is running", remedy="stop it first")
    if not yes and not typer.confirm(f"delete the cookie of bookie {bookie}?"):
        raise CliError("nothing was deleted")
    await cluster.store.delete(path, node.version)
    note(f"the cookie of {bookie} is deleted")
