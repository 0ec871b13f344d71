"""Users where they lie: in a standalone broker's data directory, or in a cluster's namespace.

This needs no broker, so it makes the first user. A directory must not be in use: its broker has
the metadata to itself.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.core.access.users.alterations import Alteration, alter_users
from tailrace.core.access.users.codec import USER_CODEC, Credentials
from tailrace.core.access.users.credentials import ScramMechanism
from tailrace.core.access.users.new_credentials import new_credential
from tailrace.core.errors import CoreError
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.stored_entities import StoredEntities
from tailrace.core.metadata.uri import NamespaceUri
from tailrace.core.runtime.clock import SystemClock
from tailrace.core.runtime.files import LockHeld, lock_file
from tailrace.processes.standalone import LOCK_FILE
from tailrace.tools.cluster.cluster_access import on_namespace_store
from tailrace.tools.errors import CliError

T = TypeVar("T")
Work = Callable[[StoredEntities[Credentials]], Awaitable[T]]


class StoredUsers:
    """The users of one place. Errors: CliError from every method."""

    def __init__(self, place: "Path | str") -> None:
        """`place`: a data directory, or the URI of a namespace."""
        self._place = place

    def all(self) -> dict[str, dict[ScramMechanism, int]]:
        """Return all users: by name, iterations by mechanism."""

        async def work(users: StoredEntities[Credentials]) -> dict[str, dict[ScramMechanism, int]]:
            await asyncio.sleep(0)
            return {
                name: {kind: each.iterations for kind, each in (users.get(name) or {}).items()}
                for name in sorted(users)
            }

        return self._run(work)

    def put(self, name: str, password: str, wanted: Mapping[ScramMechanism, int]) -> None:
        """Give a user these mechanisms, with so many iterations each, in place of the same."""
        made = {each: new_credential(each, password, count) for each, count in wanted.items()}

        async def work(users: StoredEntities[Credentials]) -> None:
            await users.change({name: lambda now: {**(now or {}), **made}})

        self._run(work)

    def delete(self, name: str, mechanism: ScramMechanism) -> None:
        """Take a mechanism away from a user; without any left it is no user."""

        async def work(users: StoredEntities[Credentials]) -> None:
            await alter_users(users, {name: Alteration(mechanism, None)})

        self._run(work)

    def _run(self, work: Work[T]) -> T:
        if isinstance(self._place, Path):
            return _in_directory(self._place, work)

        async def in_namespace(store: MetadataStore, at: NamespaceUri) -> T:
            return await _on_users(store, ClusterPaths.of_namespace(at.root), work)

        return on_namespace_store(self._place, in_namespace, changes=True)


def _in_directory(data: Path, work: Work[T]) -> T:
    try:
        data.mkdir(parents=True, exist_ok=True)
        lock = lock_file(data / LOCK_FILE, "tailrace")
    except LockHeld as error:
        remedy = "ask the broker that runs there: --bootstrap HOST:PORT"
        raise CliError(str(error), place=f"--data {data}", remedy=remedy) from error
    except OSError as error:
        raise CliError(f"cannot open it: {error.strerror}", place=f"--data {data}") from error
    try:
        return asyncio.run(_in_store(data / "metadata.db", work))
    except CoreError as error:
        raise CliError(f"{type(error).__name__}: {error}", place=f"--data {data}") from error
    finally:
        os.close(lock)


async def _in_store(path: Path, work: Work[T]) -> T:
    store = SqliteStore(path, SystemClock())
    try:
        return await _on_users(store, ClusterPaths(), work)
    finally:
        await store.close()


async def _on_users(store: MetadataStore, paths: ClusterPaths, work: Work[T]) -> T:
    users = StoredEntities(store, paths.users, USER_CODEC)
    await users.start()
    try:
        return await work(users)
    finally:
        await users.close()
