"""`tailrace cluster`: begin, look at and end a cluster, by its metadata in ZooKeeper."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from broker.cli.errors import CliError, Exit
from broker.cli.options import Json
from broker.cli.output import note, show_json
from core.errors import CoreError, Unavailable
from core.metadata.cluster import ClusterInfo, find_cluster, init_cluster, nuke_cluster
from core.metadata.store import MetadataStore
from core.metadata.uri import open_store, parse_uri

app = typer.Typer(no_args_is_help=True)

T = TypeVar("T")

Metadata = Annotated[
    str,
    typer.Option(
        "--metadata",
        "-m",
        metavar="URI",
        envvar="TAILRACE_METADATA",
        help="zk://HOST:PORT,HOST:PORT/ledgers: servers, and the path of the cluster.",
    ),
]
Force = Annotated[bool, typer.Option("--force", "-f", help="Do not ask.")]


@app.callback()
def cluster() -> None:
    """Begin, look at and end a cluster, by its metadata in ZooKeeper."""


@app.command()
def init(metadata: Metadata) -> None:
    """Begin a cluster where nothing is yet: one transaction, refused over existing data.

    As BookKeeper's `initnewcluster`: bookies of either kind can join it afterwards.
    """
    instance_id = str(uuid.uuid4())
    _on_store(metadata, lambda store, root: init_cluster(store, root, instance_id))
    print(f"cluster {instance_id} begins at {metadata}")


@app.command()
def show(metadata: Metadata, as_json: Json = False) -> None:
    """Show the instance id, the layout, and the bookies of a cluster."""
    info = _existing(metadata)
    if as_json:
        show_json(
            {
                "root": info.root,
                "instance_id": info.instance_id,
                "layout": info.layout,
                "writable": list(info.writable),
                "read_only": list(info.read_only),
                "cookies": list(info.cookies),
            }
        )
        return
    print(f"instance id   {info.instance_id or '(none)'}")
    print(f"layout        {info.layout.replace(chr(10), ' ') or '(none)'}")
    for title, names in (
        ("writable", info.writable),
        ("read-only", info.read_only),
        ("cookies", info.cookies),
    ):
        print(f"{title:<14}{', '.join(names) or '(none)'}")


@app.command("format")
def reformat(metadata: Metadata, force: Force = False) -> None:
    """Forget all ledgers and bookies of a cluster and begin a new one in its place.

    As BookKeeper's `metaformat`, but refused while bookies are registered. The bookies of the
    former cluster cannot join the new one: their directories carry the former instance id.
    """
    info = _existing(metadata)
    _confirm(info, force=force)
    instance_id = str(uuid.uuid4())

    async def work(store: MetadataStore, root: str) -> None:
        await nuke_cluster(store, root, info.instance_id)
        await init_cluster(store, root, instance_id)

    _on_store(metadata, work)
    print(f"cluster {instance_id} begins at {metadata}")


@app.command()
def nuke(
    metadata: Metadata,
    instance_id: Annotated[
        str | None,
        typer.Option("--instance-id", "-i", metavar="ID", help="The cluster's; else it is asked."),
    ] = None,
    force: Force = False,
) -> None:
    """Delete all metadata of a cluster. Its ledgers are lost; refused while bookies run.

    As BookKeeper's `nukeexistingcluster`.
    """
    info = _existing(metadata)
    if instance_id is None:
        _confirm(info, force=force)
    _on_store(metadata, lambda store, root: nuke_cluster(store, root, instance_id))
    note(f"nothing is left at {info.root}")


def _confirm(info: ClusterInfo, *, force: bool) -> None:
    if force:
        return
    found = info.instance_id or "without an id"
    text = f"All ledgers of cluster {found} at {info.root} will be lost. Type its instance id"
    if typer.prompt(text, default="", show_default=False) != info.instance_id:
        raise CliError(
            "the instance id does not match: nothing was done",
            place=info.root,
            remedy="tailrace cluster show, or --force",
        )


def _existing(uri: str) -> ClusterInfo:
    info = _on_store(uri, find_cluster)
    if info is None:
        raise CliError(
            "there is no cluster", place=uri, remedy=f"tailrace cluster init --metadata {uri}"
        )
    return info


def _on_store(uri: str, work: Callable[[MetadataStore, str], Awaitable[T]]) -> T:
    """Open the metadata, do the work, close it. Errors: CliError for whatever goes wrong there."""
    try:
        at = parse_uri(uri)
    except ValueError as error:
        raise CliError(str(error), place="--metadata", code=Exit.USAGE) from error
    if at.path is not None:
        cause = f"{uri!r}: a cluster has its metadata in ZooKeeper, zk://HOST:PORT/PATH"
        raise CliError(cause, place="--metadata", code=Exit.USAGE)

    async def run() -> T:
        store = await open_store(uri)
        try:
            return await work(store, at.ledgers_root)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except Unavailable as error:
        raise CliError(
            str(error),
            place=uri,
            remedy="is ZooKeeper running there?",
            code=Exit.UNREACHABLE,
        ) from error
    except CoreError as error:
        raise CliError(
            str(error), place=uri, remedy=f"tailrace cluster show --metadata {uri}"
        ) from error
