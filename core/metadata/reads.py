"""Reading several nodes at once."""

import asyncio
from collections.abc import Iterable

from core.metadata.store import MetadataStore, Node


async def read_nodes(store: MetadataStore, paths: Iterable[str]) -> list[Node | None]:
    """Read nodes side by side, in the order of `paths`; None for what is not there.

    Errors: Unavailable, the first one.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(store.exists(path)) for path in paths]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
