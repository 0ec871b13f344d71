"""Reading several nodes in one round trip."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from core.metadata.store import MetadataStore, Node

READS_AT_ONCE: Final = 128
"""Nodes that are read at the same time: enough to hide the way to the metadata and back."""

T = TypeVar("T")


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


async def together(reads: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Do reads at once, sent in their order; return what they return.

    Errors: the first one's, once all have ended. Cancel: ends the reads, and is never lost.
    """
    failed: list[Exception] = []

    async def guard(read: Coroutine[Any, Any, T]) -> T:
        # A group whose task fails forgets that its caller was cancelled in the same moment; one
        # who tries again would go on, and who cancelled it would wait for ever.
        try:
            return await read
        except Exception as error:
            failed.append(error)
            for task in tasks:
                task.cancel()
            raise asyncio.CancelledError from error

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(guard(read)) for read in reads]
    finally:
        for read in reads:
            read.close()  # one that was cancelled before it began
    if failed:
        raise failed[0]
    return [task.result() for task in tasks]
