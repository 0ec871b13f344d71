"""The tree that holds all ledgers: making it once, and walking it.

Flow: `initialize_layout` at the start of every process (one does it, the others find it), then
`ledger_ranges` for garbage collection and tools.
"""

import contextlib
import re
import uuid
from collections.abc import AsyncIterator
from typing import Final

from tailrace.core.errors import CorruptData, NodeExists, NoNode
from tailrace.core.metadata.layout import LAYOUT_TEXT, LEDGERS_ROOT, LedgerPaths, check_layout
from tailrace.core.metadata.node_reads import read_current
from tailrace.core.metadata.store import Create, MetadataStore
from tailrace.protocol.ids import LedgerId

_SHORT_TREE: Final = (re.compile(r"\d{2}", re.ASCII), 1)
_LONG_TREE: Final = (re.compile(r"\d{3}", re.ASCII), 3)


async def initialize_layout(
    store: MetadataStore, root: str = LEDGERS_ROOT, *, instance_id: str | None = None
) -> str:
    """Make what BookKeeper's `initnewcluster` makes, once, and return the cluster's instance id.

    Errors: CorruptData when the tree is there with another layout.
    """
    paths = LedgerPaths(root)
    if await store.exists(paths.layout) is None:
        await _make_layout(store, paths, instance_id or str(uuid.uuid4()))
    check_layout((await store.get(paths.layout)).data)
    return (await store.get(paths.instance_id)).data.decode()


def new_cluster(paths: LedgerPaths, instance_id: str) -> list[Create]:
    """Return what a cluster without bookies and ledgers has below its root."""
    return [
        Create(paths.available),
        Create(paths.read_only),
        Create(paths.cookies),
        Create(paths.idgen),
        Create(paths.instance_id, instance_id.encode()),
        Create(paths.layout, LAYOUT_TEXT),
    ]


async def ledger_ranges(
    store: MetadataStore, root: str = LEDGERS_ROOT
) -> AsyncIterator[list[LedgerId]]:
    """Yield the ids of all ledgers, in ascending order, one list per directory of the tree.

    Ledgers that come or go meanwhile may or may not be seen; all others are seen exactly once.
    """
    names = await store.children(root)
    for pattern, depth in (_SHORT_TREE, _LONG_TREE):
        for name in names:
            if pattern.fullmatch(name):
                async for ids in _walk(store, LedgerPaths(root), f"{root}/{name}", depth):
                    yield ids


async def all_ledgers(store: MetadataStore, root: str, instance_id: str) -> set[LedgerId]:
    """Return every ledger that was made before this call, for those who remove the others.

    Errors: CorruptData when the cluster is not `instance_id`, NoNode when it is gone; Unavailable
    when the session changes all the time. Any CoreError means that nothing is known.
    """
    path = LedgerPaths(root).instance_id

    async def read() -> set[LedgerId]:
        found = (await store.get(path)).data.decode(errors="replace")
        if found != instance_id:
            raise CorruptData(f"{path} is {found!r} and not {instance_id!r}: another cluster")
        return {ledger_id async for ids in ledger_ranges(store, root) for ledger_id in ids}

    return await read_current(store, read)


async def _walk(
    store: MetadataStore, paths: LedgerPaths, directory: str, depth: int
) -> AsyncIterator[list[LedgerId]]:
    try:
        names = await store.children(directory)
    except NoNode:
        return  # its last ledger was deleted since its parent was read
    if depth == 0:
        found = [paths.ledger_id(f"{directory}/{name}") for name in names]
        ids = [ledger_id for ledger_id in found if ledger_id is not None]
        if ids:
            yield ids
        return
    for name in names:
        async for ids in _walk(store, paths, f"{directory}/{name}", depth - 1):
            yield ids


async def _make_layout(store: MetadataStore, paths: LedgerPaths, instance_id: str) -> None:
    root = paths.root
    if root.count("/") > 1 and await store.exists(root) is None:
        with contextlib.suppress(NodeExists):
            await store.create(root, parents=True)
    ops = [] if await store.exists(root) else [Create(root)]
    try:
        await store.multi([*ops, *new_cluster(paths, instance_id)])
    except NodeExists:
        return  # somebody else was faster; who calls us looks at what they made
