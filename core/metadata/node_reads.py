"""Reading several nodes in one round trip, and reading what must not be out of date."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from tailrace.core.errors import NoNode, Unavailable
from tailrace.core.metadata.store import MetadataStore, Node
from tailrace.core.runtime.tasks import together

READS_AT_ONCE: Final = 128
"""Nodes that are read at the same time: enough to hide the way to the metadata and back."""


_CURRENT_ATTEMPTS: Final = 3

T = TypeVar("T")


async def read_current(store: MetadataStore, read: Callable[[], Awaitable[T]]) -> T:
    """Return what `read` gives, which misses nothing that was there before this call.

    For decisions by absence: a server that lags behind does not know what is new. After a `sync`
    one session sees it all; a new one may be with another server, so all is read again.
    Errors: Unavailable, when sessions keep changing; those of `read`.
    """
    for _ in range(_CURRENT_ATTEMPTS):
        session_id = store.session_id
        await store.sync()
        try:
            found = await read()
        except NoNode:
            if store.session_id == session_id:
                raise
        else:
            if store.session_id == session_id:
                return found
    raise Unavailable("the session with the metadata store changed while it was read")


async def read_nodes(store: MetadataStore, paths: Sequence[str]) -> list[Node | None]:
    """Return the nodes, None for each that is not there; not a view of one moment.

    Errors: the first that a read had. Cost: a round trip for each 128.
    """
    found: list[Node | None] = []
    for at in range(0, len(paths), READS_AT_ONCE):
        found += await store.get_all(paths[at : at + READS_AT_ONCE])
    return found


async def read_below(store: MetadataStore, path: str) -> list[str]:
    """Return the paths of all nodes below one, children before their parents.

    Errors: NoNode when the node, or one below it, is not there (any more).
    Cost: a round trip per level and 128 nodes.
    """
    levels = [[path]]
    while levels[-1]:
        found: list[str] = []
        for start in range(0, len(levels[-1]), READS_AT_ONCE):
            some = levels[-1][start : start + READS_AT_ONCE]
            lists = await together([store.children(at) for at in some])
            for at, names in zip(some, lists, strict=True):
                found += [f"{at}/{name}" for name in names]
        levels.append(found)
    return [at for level in levels[:0:-1] for at in level]
