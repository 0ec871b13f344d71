"""`tailrace cluster`: begin, look at and end a cluster, by its metadata in ZooKeeper."""

import uuid
from typing import Annotated, Final

import typer

from tailrace.core.metadata.cluster import ClusterInfo, find_cluster, init_cluster, nuke_cluster
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.uri import parse_uri
from tailrace.core.metadata.zookeeper import SESSION_TIMEOUT_MS, ZookeeperStore
from tailrace.core.metadata.zookeeper_acls import ZookeeperAccess
from tailrace.core.runtime.tasks import both
from tailrace.tools.cluster.cluster_access import ClusterMetadata, on_store
from tailrace.tools.cluster.secure import secure
from tailrace.tools.cluster.zookeeper_settings import zookeeper_settings
from tailrace.tools.errors import CliError
from tailrace.tools.options import Json
from tailrace.tools.output import note, show_json

app = typer.Typer(no_args_is_help=True, add_completion=False)
app.command("secure")(secure)

BROKER_SESSION_MS: Final = 1_000
"""zkSessionTimeout of `tailrace broker`, unless it is set."""
BOOKIE_SESSION_MS: Final = SESSION_TIMEOUT_MS
"""zkTimeout of bookies and auto-recovery, unless it is set."""
ZOO_CFG: Final = (
    "tickTime=250 minSessionTimeout=500 maxSessionTimeout=60000 initLimit=40 syncLimit=20"
)
"""Sessions of 0.5 to 60 s that end to within a quarter of a second; followers have 10 and 5 s."""

Force = Annotated[bool, typer.Option("--force", "-f", help="Do not ask.")]


@app.callback()
def cluster() -> None:
    """Begin, look at and end a cluster, by its metadata in ZooKeeper."""


@app.command()
def init(metadata: ClusterMetadata) -> None:
    """Begin a cluster where nothing is yet: one transaction, refused over existing data.

    As BookKeeper's `initnewcluster`: bookies of either kind can join it afterwards. Says what to
    change in ZooKeeper if it grants no sessions as short, or as long, as brokers and bookies ask.
    """
    instance_id = str(uuid.uuid4())
    on_store(metadata, lambda store, root: init_cluster(store, root, instance_id))
    print(f"cluster {instance_id} begins at {metadata}")
    for line in session_advice(*_session_timeouts(metadata)):
        note(line)


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


def session_advice(broker_ms: int, bookie_ms: int) -> list[str]:
    """Return what to change in zoo.cfg, from what is granted to brokers and bookies."""
    advice = []
    if broker_ms > BROKER_SESSION_MS:
        advice.append(
            f"ZooKeeper misses a broker that died after {broker_ms} ms, not {BROKER_SESSION_MS}:"
            " its minSessionTimeout is too long for zkSessionTimeout"
        )
    if bookie_ms < BOOKIE_SESSION_MS:
        advice.append(
            f"ZooKeeper misses a bookie that is silent after {bookie_ms} ms, not"
            f" {BOOKIE_SESSION_MS}: its maxSessionTimeout is too short for zkTimeout"
        )
    return [*advice, f"  try, in zoo.cfg of every server: {ZOO_CFG}"] if advice else []


def _session_timeouts(uri: str) -> tuple[int, int]:
    """Return what ZooKeeper grants a broker and a bookie that ask for their defaults."""

    async def granted(asked_ms: int) -> int:
        store = await ZookeeperStore.connect(
            parse_uri(uri).hosts,
            session_timeout_ms=asked_ms,
            answer_within_ms=BOOKIE_SESSION_MS,
            access=ZookeeperAccess(zookeeper_settings()),
        )
        try:
            return store.session_timeout_ms
        finally:
            await store.close()

    async def work(_store: MetadataStore, _root: str) -> tuple[int, int]:
        return await both(granted(BROKER_SESSION_MS), granted(BOOKIE_SESSION_MS))

    return on_store(uri, work)


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
