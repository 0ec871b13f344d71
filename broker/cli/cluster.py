"""`tailrace cluster`: begin, look at and end a cluster, by its metadata in ZooKeeper."""

import uuid
from typing import Annotated

import typer

from broker.cli.cluster_access import ClusterMetadata, on_store
from broker.cli.errors import CliError
from broker.cli.options import Json
from broker.cli.output import note, show_json
from core.metadata.cluster import ClusterInfo, find_cluster, init_cluster, nuke_cluster
from core.metadata.store import MetadataStore

app = typer.Typer(no_args_is_help=True, add_completion=False)

Force = Annotated[bool, typer.Option("--force", "-f", help="Do not ask.")]


@app.callback()
def cluster() -> None:
    """Begin, look at and end a cluster, by its metadata in ZooKeeper."""


@app.command()
def init(metadata: ClusterMetadata) -> None:
    """Begin a cluster where nothing is yet: one transaction, refused over existing data.

    As BookKeeper's `initnewcluster`: bookies of either kind can join it afterwards.
    """
    instance_id = str(uuid.uuid4())
    on_store(metadata, lambda store, root: init_cluster(store, root, instance_id))
    print(f"cluster {instance_id} begins at {metadata}")


@app.command()
def show(metadata: ClusterMetadata, as_json: Json = False) -> None:
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
def reformat(metadata: ClusterMetadata, force: Force = False) -> None:
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

    on_store(metadata, work)
    print(f"cluster {instance_id} begins at {metadata}")


@app.command()
def nuke(
    metadata: ClusterMetadata,
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
    on_store(metadata, lambda store, root: nuke_cluster(store, root, instance_id))
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
    info = on_store(uri, find_cluster)
    if info is None:
        raise CliError(
            "there is no cluster", place=uri, remedy=f"tailrace cluster init --metadata {uri}"
        )
    return info
