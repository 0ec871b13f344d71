"""The way of the commands to a cluster: its metadata store, its bookies, its ledgers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, TypeVar

import typer

from broker.cli.errors import CliError, Exit
from core.errors import CoreError, LedgerNotFound, Unavailable
from core.ledger.bookie_registry import RegisteredBookies
from core.ledger.client import LedgerClient
from core.ledger.config import LedgerClientConfig
from core.metadata.layout import LedgerPaths
from core.metadata.store import MetadataStore
from core.metadata.uri import ledgers_root, open_store
from protocol.errors import ProtocolError

Metadata = Annotated[
    str,
    typer.Option(
        "--metadata",
        "-m",
        metavar="URI",
        envvar="TAILRACE_METADATA",
        help="Where the metadata is: zk://HOST:PORT,HOST:PORT/ledgers, or sqlite:DIR/metadata.db "
        "of a standalone broker to look at its list.",
    ),
]

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


def on_cluster(uri: str, work: Callable[[Cluster], Awaitable[T]], *, changes: bool = False) -> T:
    """Open a cluster, do the work, close it. Errors: CliError for whatever goes wrong there.

    `changes`: the work does more than look, which a standalone broker's metadata does not allow.
    """
    if changes and uri.startswith("sqlite:"):
        raise CliError(
            "the ledgers of a standalone broker are its own: here they are only looked at",
            place=uri,
            remedy="tailrace topic delete",
        )

    async def run() -> T:
        async with _open(uri) as cluster:
            return await work(cluster)

    try:
        return asyncio.run(run())
    except LedgerNotFound as error:
        raise CliError(f"there is no {error}", place=uri, remedy="tailrace ledger list") from error
    except Unavailable as error:
        raise CliError(
            f"the metadata store does not answer: {error}", place=uri,
            remedy="is it running there?", code=Exit.UNREACHABLE,
        ) from error  # fmt: skip
    except (CoreError, ProtocolError, OSError) as error:
        raise CliError(f"{type(error).__name__}: {error}", place=uri) from error


@asynccontextmanager
async def _open(uri: str) -> AsyncIterator[Cluster]:
    try:
        root = ledgers_root(uri)
    except ValueError as error:
        raise CliError(str(error), place="--metadata", code=Exit.USAGE) from error
    # An SQLite file belongs to the process that runs on it: here it is only looked at.
    store = await open_store(uri, read_only=True)
    try:
        if await store.exists(LedgerPaths(root).layout) is None:
            raise CliError(
                f"there is no cluster at {root}", place=uri,
                remedy=f"tailrace cluster init --metadata {uri}",
            )  # fmt: skip
        bookies = RegisteredBookies(store, root=root)
        try:
            config = LedgerClientConfig(root=root)
            yield Cluster(store, root, bookies, LedgerClient(store, bookies, config))
        finally:
            await bookies.close()
    finally:
        await store.close()
