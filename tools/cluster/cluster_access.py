"""The way of the commands to what a cluster keeps: metadata, ledgers, namespaces of logs.

Each way opens what the work needs, runs it, closes it, and turns what goes wrong into words.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from tailrace.core.errors import (
    AuthFailed,
    ColdStorageUnavailable,
    CoreError,
    LedgerNotFound,
    LogExists,
    LogNotFound,
    MetadataConflict,
    NoAuth,
    OwnershipAcquireFailed,
    UnauthorizedAccess,
    Unavailable,
)
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.uri import (
    NamespaceUri,
    ledgers_root,
    open_store,
    parse_namespace_uri,
    parse_uri,
)
from tailrace.core.metadata.zookeeper_acls import ZookeeperAccess
from tailrace.core.runtime.config import ConfigError
from tailrace.protocol.errors import ProtocolError
from tailrace.tools.cluster.bookie_settings import CONFIG_VARIABLE, bookie_settings
from tailrace.tools.cluster.zookeeper_settings import CREDENTIALS, zookeeper_settings
from tailrace.tools.errors import CliError, Exit

if TYPE_CHECKING:
    from tailrace.core.log.cold.config import ColdConfig
    from tailrace.core.log.config import LogConfig
    from tailrace.core.log.open_namespace import OpenNamespace


def _metadata(words: str) -> Any:
    """Return the option that says where the metadata is."""
    return typer.Option("--metadata", "-m", metavar="URI", envvar="TAILRACE_METADATA", help=words)


ClusterMetadata = Annotated[
    str, _metadata("Where the cluster's metadata is: zk://HOST:PORT,HOST:PORT/ledgers.")
]
Metadata = Annotated[
    str,
    _metadata(
        "Where the metadata is: zk://HOST:PORT,HOST:PORT/ledgers, or sqlite:DIR/metadata.db "
        "of a standalone broker to look at its list."
    ),
]
LedgersOfNamespace = Annotated[
    str | None,
    typer.Option(
        "--metadata",
        "-m",
        metavar="URI",
        envvar="TAILRACE_METADATA",
        help="zk://HOST:PORT/ledgers of the bookies, if the servers in the namespace's binding "
        "have other names from here.",
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        metavar="URI",
        envvar="TAILRACE_NAMESPACE",
        help="distributedlog://HOST:PORT;HOST:PORT/messaging/NAME, or sqlite:DIR/metadata.db of a "
        "standalone broker to look at its logs.",
    ),
]

CLIENT_ID = "tailrace-cli"
"""What the locks of logs say while a command holds them."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster, as long as a command needs it."""

    store: MetadataStore
    root: str
    bookies: RegisteredBookies
    ledgers: LedgerClient

    @property
    def paths(self) -> LedgerPaths:
        """Where everything is in the metadata."""
        return LedgerPaths(self.root)


def on_store(uri: str, work: Callable[[MetadataStore, str], Awaitable[T]]) -> T:
    """Do work on the metadata of a cluster, whatever is there. Errors: CliError."""
    try:
        at = parse_uri(uri)
    except ValueError as error:
        raise CliError(str(error), place="--metadata", code=Exit.USAGE) from error
    if at.path is not None:
        cause = f"{uri!r}: a cluster has its metadata in ZooKeeper, zk://HOST:PORT/PATH"
        raise CliError(cause, place="--metadata", code=Exit.USAGE)

    async def run() -> T:
        store = await open_store(uri, access=ZookeeperAccess(zookeeper_settings()))
        try:
            return await work(store, at.ledgers_root)
        finally:
            await store.close()

    return _run(run, uri, f"tailrace cluster show --metadata {uri}")


def on_cluster(uri: str, work: Callable[[Cluster], Awaitable[T]], *, changes: bool = False) -> T:
    """Do work on the ledgers of a cluster. Errors: CliError.

    `changes`: the work does more than look, which a standalone broker's metadata does not allow.
    """
    if changes and uri.startswith("sqlite:"):
        raise CliError(
            "the ledgers of a standalone broker are its own: here they are only looked at",
            place=uri,
            remedy="tailrace topic delete",
        )

    async def run() -> T:
        async with _open_cluster(uri) as cluster:
            return await work(cluster)

    return _run(run, uri)


def on_namespace_store(
    uri: str, work: Callable[[MetadataStore, NamespaceUri], Awaitable[T]], *, changes: bool = False
) -> T:
    """Do work where a namespace lies or will lie, bound or not. Errors: CliError."""
    at = _namespace(uri, changes=changes)

    async def run() -> T:
        where = f"sqlite:{at.path}" if at.path else f"zk://{at.hosts}{at.root}"
        access = ZookeeperAccess(zookeeper_settings(), at.root)
        store = await open_store(where, read_only=True, access=access)
        try:
            return await work(store, at)
        finally:
            await store.close()

    return _run(run, uri)


def on_namespace(
    uri: str,
    metadata: str | None,
    work: "Callable[[OpenNamespace], Awaitable[T]]",
    *,
    changes: bool = False,
    log: "LogConfig | None" = None,
    cold: "ColdConfig | None" = None,
) -> T:
    """Do work on the logs of a namespace. Errors: CliError.

    `metadata`: where its ledgers are, if not where the binding says. `changes`: as `on_cluster`.
    `log`, `cold`: settings of logs and of cold storage.
    """
    # A process that is a bookie has commands of this module, and no logs.
    from tailrace.core.log.cold.config import ColdConfig
    from tailrace.core.log.config import LogConfig
    from tailrace.core.log.open_namespace import NamespaceOptions, open_namespace

    _namespace(uri, changes=changes)
    try:
        ledgers = parse_uri(metadata) if metadata else None
    except ValueError as error:
        raise CliError(str(error), place="--metadata", code=Exit.USAGE) from error
    options = NamespaceOptions(
        log=log or LogConfig(client_id=CLIENT_ID, lock_timeout_s=0),
        cold=cold or ColdConfig(),
        zookeeper=zookeeper_settings(),
        bookies=bookie_settings(),
        ledger_servers=ledgers.hosts if ledgers else "",
    )

    async def run() -> T:
        async with open_namespace(uri, options) as opened:
            bound = opened.binding.bk_ledgers_path
            if ledgers is not None and ledgers.ledgers_root != bound:
                cause = f"the namespace is bound to the ledgers at {bound}"
                raise CliError(cause, place=f"--metadata {metadata}", code=Exit.USAGE)
            return await work(opened)

    return _run(run, uri)


def _namespace(uri: str, *, changes: bool) -> NamespaceUri:
    try:
        at = parse_namespace_uri(uri)
    except ValueError as error:
        raise CliError(str(error), place="--namespace", code=Exit.USAGE) from error
    if changes and at.path is not None:
        raise CliError(
            "the logs of a standalone broker are its own: here they are only looked at",
            place=uri,
            remedy="tailrace topic",
        )
    return at


def _run(work: Callable[[], Awaitable[T]], place: str, remedy: str = "") -> T:
    """Run the work to its end. Errors: CliError for whatever goes wrong."""

    async def run() -> T:
        return await work()

    try:
        return asyncio.run(run())
    except ColdStorageUnavailable as error:
        raise CliError(
            f"cold storage does not answer: {error}", place="--cold", code=Exit.UNREACHABLE
        ) from error
    except AuthFailed as error:
        raise CliError(
            str(error), place=place, remedy=CREDENTIALS, code=Exit.UNREACHABLE
        ) from error
    except Unavailable as error:
        raise CliError(
            f"the metadata store does not answer: {error}", place=place,
            remedy="" if place.startswith("sqlite:") else "is ZooKeeper running there?",
            code=Exit.UNREACHABLE,
        ) from error  # fmt: skip
    except (CoreError, ConfigError, ProtocolError, OSError) as error:
        raise CliError(*_words(error), place=place, remedy=_remedy(error) or remedy) from error


def _words(error: Exception) -> tuple[str]:
    if isinstance(error, LedgerNotFound):
        return (f"there is no {error}",)
    if isinstance(error, LogNotFound):
        return (f"there is no log {error}",)
    if isinstance(error, LogExists):
        return (f"there is a log {error} already",)
    if isinstance(error, MetadataConflict | NoAuth | OwnershipAcquireFailed | ConfigError):
        return (str(error),)
    return (f"{type(error).__name__}: {error}",)


_REMEDIES: Final[Sequence[tuple[type[Exception], str]]] = (
    (LedgerNotFound, "tailrace ledger list"),
    (LogNotFound, "tailrace log list"),
    (NoAuth, CREDENTIALS),
    (OwnershipAcquireFailed, "stop its owner first"),
    (
        UnauthorizedAccess,
        f"{CONFIG_VARIABLE} names a file with tls... and sasl... settings for bookies",
    ),
)


def _remedy(error: Exception) -> str:
    return next((text for kind, text in _REMEDIES if isinstance(error, kind)), "")


@asynccontextmanager
async def _open_cluster(uri: str) -> AsyncIterator[Cluster]:
    try:
        root = ledgers_root(uri)
    except ValueError as error:
        raise CliError(str(error), place="--metadata", code=Exit.USAGE) from error
    # An SQLite file belongs to the process that runs on it: here it is only looked at.
    access = ZookeeperAccess(zookeeper_settings())
    store = await open_store(uri, read_only=True, access=access)
    try:
        if await store.exists(LedgerPaths(root).layout) is None:
            raise CliError(
                f"there is no cluster at {root}", place=uri,
                remedy=f"tailrace cluster init --metadata {uri}",
            )  # fmt: skip
        bookies = RegisteredBookies(store, bookie_settings(), root=root)
        try:
            config = LedgerClientConfig(root=root)
            yield Cluster(store, root, bookies, LedgerClient(store, bookies, config))
        finally:
            await bookies.close()
    finally:
        await store.close()
