"""Reading several nodes in one round trip."""

import asyncio
from collections.abc import Sequence

from core.metadata.store import MetadataStore, Node


async def read_nodes(store: MetadataStore, paths: Sequence[str]) -> list[Node | None]:
    """Return the nodes, None for each that is not there; not a view of one moment.

    Errors: the first that a read had.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(store.exists(path)) for path in paths]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def read_below(store: MetadataStore, path: str) -> list[str]:
    """Return the paths of all nodes below one, children before their parents.

    Errors: NoNode when the node, or one below it, is not there (any more).
    Cost: a round trip per level.
    """
    levels = [[path]]
    while levels[-1]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [(at, group.create_task(store.children(at))) for at in levels[-1]]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        levels.append([f"{at}/{name}" for at, task in tasks for name in task.result()])
    return [at for level in levels[:0:-1] for at in level]
