"""`tailrace namespace`: which ledgers the logs of a namespace are made of."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from tailrace.core.log.names import is_reserved
from tailrace.core.metadata.bindings import bind_namespace, find_binding, unbind_namespace
from tailrace.core.metadata.namespace_binding import BKDLConfig
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.uri import NamespaceUri, parse_uri
from tailrace.tools.cluster.cluster_access import (
    ClusterMetadata,
    Namespace,
    on_cluster,
    on_namespace_store,
)
from tailrace.tools.errors import CliError
from tailrace.tools.options import Json
from tailrace.tools.output import note, show_json

app = typer.Typer(no_args_is_help=True, add_completion=False)

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.callback()
def namespace() -> None:
    """Bind a namespace of log streams to the ledgers of a cluster, look at it, unbind it."""


@app.command()
def bind(
    namespace: Namespace,
    metadata: ClusterMetadata,
    encode_region_id: Annotated[
        bool, typer.Option("--encode-region-id", help="Log segments say in which region they are.")
    ] = False,
    first_segment: Annotated[
        int | None,
        typer.Option(
            "--first-segment", metavar="LSSN", min=1, help="Number of a log's first segment."
        ),
    ] = None,
    reader_servers: Annotated[
        str,
        typer.Option(
            "--reader-servers", metavar="HOST:PORT,...", help="ZooKeeper for readers, if another."
        ),
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace another binding; logs are not moved.")
    ] = False,
) -> None:
    """Bind a namespace to the ledgers that --metadata names, making its path.

    As `dlog admin bind`: Apache DistributedLog finds the ledgers by it. Refused over another
    binding; the same one again is fine.
    """
    on_cluster(metadata, _is_there, changes=True)
    ledgers = parse_uri(metadata)

    async def work(store: MetadataStore, at: NamespaceUri) -> bool:
        config = BKDLConfig(
            bk_zk_servers=ledgers.hosts,
            bk_ledgers_path=ledgers.ledgers_root,
            encode_region_id=encode_region_id,
            bk_zk_servers_for_reader=reader_servers,
            dl_zk_servers_for_writer=at.hosts,
            first_log_segment_seq_no=first_segment,
        )
        return await bind_namespace(store, at.root, config, force=force)

    is_new = on_namespace_store(namespace, work, changes=True)
    print(f"{namespace} {'is now' if is_new else 'was already'} bound to {metadata}")


@app.command()
def info(namespace: Namespace, as_json: Json = False) -> None:
    """Show what a namespace is bound to, by itself or by an ancestor, and how many logs it has."""
    found = on_namespace_store(namespace, _info)
    if as_json:
        show_json(found)
        return
    for key, value in found.items():
        shown = "(none)" if value in (None, "") else value
        print(f"{key.replace('_', ' '):<26}{shown}")


@app.command()
def unbind(namespace: Namespace, yes: Yes = False) -> None:
    """Take the binding from a namespace. Its logs stay, and come back with the same binding.

    As `dlog admin unbind`.
    """
    if not yes and not typer.confirm(f"unbind {namespace}?"):
        raise CliError("nothing was changed")

    async def work(store: MetadataStore, at: NamespaceUri) -> None:
        await unbind_namespace(store, at.root)

    on_namespace_store(namespace, work, changes=True)
    note(f"{namespace} is not bound any more")


async def _is_there(_cluster: object) -> None:
    """Ask nothing more: opening the cluster has looked for it."""


async def _info(store: MetadataStore, at: NamespaceUri) -> dict[str, Any]:
    bound = await find_binding(store, at.root)
    if bound is None:
        raise CliError(
            "the namespace is not bound",
            place=at.text,
            remedy="tailrace namespace bind --namespace URI --metadata zk://HOST:PORT/ledgers",
        )
    logs: list[str] = []
    if await store.exists(at.root) is not None:
        logs = [name for name in await store.children(at.root) if not is_reserved(name)]
    return {
        "namespace": at.text,
        "bound_at": bound.path,
        **asdict(bound.config),
        "logs": len(logs),
    }
