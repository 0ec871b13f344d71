"""`tailrace cluster secure`: whose the nodes in ZooKeeper are that are there already."""

from typing import Annotated, Any, Final

import typer

from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.uri import ledgers_root, parse_namespace_uri
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.metadata.zookeeper_acls import ZookeeperAccess
from tailrace.core.metadata.zookeeper_securing import SecuredTree, Securing, secure_tree
from tailrace.tools.cluster.cluster_access import (
    ClusterMetadata,
    on_namespace_store,
    on_store,
)
from tailrace.tools.cluster.zookeeper_settings import CREDENTIALS, zookeeper_settings
from tailrace.tools.errors import CliError, Exit
from tailrace.tools.options import Json
from tailrace.tools.output import note, progress, show_json

NamespaceToo = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="URI",
        envvar="TAILRACE_NAMESPACE",
        help="distributedlog://HOST:PORT/messaging/NAME: its nodes too.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Count the nodes that are open to the world, and end.")
]
Open = Annotated[
    bool, typer.Option("--open", help="The reverse: let everybody do everything with the nodes.")
]

_DONE: Final = {
    Securing.SECURE: "secured",
    Securing.OPEN: "opened",
    Securing.LOOK: "open to the world",
}


def secure(
    metadata: ClusterMetadata,
    namespace: NamespaceToo = None,
    dry_run: DryRun = False,
    open_again: Open = False,
    as_json: Json = False,
) -> None:
    """Give the nodes of a cluster to the identity of this command: only it writes them then.

    Start brokers, bookies and all others with credentials and `zookeeper.set.acl=true` first: what
    comes without the same identity gets nothing any more. They go on meanwhile. The command may be
    cut short at any point and be run again. As Kafka's zookeeper-security-migration.
    """
    if dry_run and open_again:
        raise CliError("--dry-run and --open exclude each other", code=Exit.USAGE)
    securing = Securing.OPEN if open_again else Securing.LOOK if dry_run else Securing.SECURE
    if not dry_run and not zookeeper_settings().has_identity:
        raise CliError("nodes can belong to no one", place=metadata, remedy=CREDENTIALS)
    if not (dry_run or open_again or zookeeper_settings().set_acl):
        note("zookeeper.set.acl is not set here: processes without it make nodes that are open")
    found = {metadata: _secure_ledgers(metadata, securing)}
    if namespace is not None:
        found[namespace] = _secure_namespace(namespace, securing)
    _show(found, securing, as_json=as_json)
    if any(tree.refused for tree in found.values()):
        raise CliError(
            "nodes belong to others, and are what they were",
            place=", ".join(path for tree in found.values() for path in tree.refused_paths),
            remedy="run it with their credentials, or with those of ZooKeeper's super user and "
            "zookeeper.acl.users naming the processes",
        )


def _secure_ledgers(metadata: str, securing: Securing) -> SecuredTree:
    access = ZookeeperAccess(zookeeper_settings())
    root = ledgers_root(metadata)
    return on_store(metadata, lambda store, _root: _secure(store, root, access, securing))


def _secure_namespace(namespace: str, securing: Securing) -> SecuredTree:
    access = ZookeeperAccess(zookeeper_settings(), parse_namespace_uri(namespace).root)
    return on_namespace_store(
        namespace, lambda store, at: _secure(store, at.root, access, securing), changes=True
    )


async def _secure(
    store: MetadataStore, root: str, access: ZookeeperAccess, securing: Securing
) -> SecuredTree:
    assert isinstance(store, ZookeeperStore), "on_store and on_namespace_store refuse SQLite"
    with progress(root, "nodes") as step:
        return await secure_tree(store, root, access, securing, step)


def _show(found: dict[str, SecuredTree], securing: Securing, *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "at": at,
            "nodes": tree.nodes,
            _DONE[securing].replace(" ", "_"): tree.changed,
            "of_others": tree.refused,
        }
        for at, tree in found.items()
    ]
    if as_json:
        show_json(rows)
        return
    for at, tree in found.items():
        others = f", {tree.refused} of others" if tree.refused else ""
        print(f"{at}: {tree.nodes} nodes, {tree.changed} {_DONE[securing]}{others}")
