"""A cluster as a whole: beginning it, finding it, checking that it is the right one, ending it.

A cluster is what lies below one root with an INSTANCEID. Its bookies keep that id in their cookies,
so a root that was begun anew refuses the bookies of its former life.
Source: BookKeeper's initnewcluster, metaformat and nukeexistingcluster.
"""

import contextlib
from dataclasses import dataclass
from typing import Final

from tailrace.core.errors import NodeExists, NoNode, NotEmpty
from tailrace.core.metadata.bookie_lists import BookieLists, read_bookie_lists
from tailrace.core.metadata.layout import LedgerPaths, check_layout
from tailrace.core.metadata.ledger_tree import new_cluster
from tailrace.core.metadata.store import Create, Delete, MetadataStore

DELETE_ROUNDS_MAX: Final = 3
"""How often a tree is listed again that others go on writing to."""


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """What the metadata says of a cluster."""

    root: str
    instance_id: str
    """Empty when the root has none: something else lies there, or half a cluster."""
    layout: str
    """Text of LAYOUT, empty without one: BookKeeper then means the hierarchical layout."""
    writable: tuple[str, ...]
    read_only: tuple[str, ...]
    cookies: tuple[str, ...]
    """Ids of all bookies that ever belonged to the cluster and were not signed off."""

    @property
    def registered(self) -> tuple[str, ...]:
        """Bookies that run now."""
        return self.writable + self.read_only


async def find_cluster(store: MetadataStore, root: str) -> ClusterInfo | None:
    """Return what lies below a root; None if there is no such node."""
    if await store.exists(root) is None:
        return None
    paths = LedgerPaths(root)
    try:
        bookies = await read_bookie_lists(store, paths)
    except NoNode:
        bookies = BookieLists((), ())  # half a cluster
    return ClusterInfo(
        root=root,
        instance_id=await _text(store, paths.instance_id),
        layout=await _text(store, paths.layout),
        writable=bookies.writable,
        read_only=bookies.read_only,
        cookies=tuple(await _names(store, paths.cookies)),
    )


async def check_cluster(store: MetadataStore, root: str) -> str:
    """Return the instance id of the cluster that a process is about to join.

    Errors: NoNode when there is none, CorruptData when its layout is another one.
    """
    info = await find_cluster(store, root)
    if info is None or not info.instance_id:
        raise NoNode(f"there is no cluster at {root}")
    if info.layout:
        check_layout(info.layout.encode())
    return info.instance_id


async def init_cluster(store: MetadataStore, root: str, instance_id: str) -> None:
    """Begin a cluster below a root that is not there yet: all of it, or nothing.

    Errors: NodeExists when anything is there already.
    """
    parent = root.rpartition("/")[0]
    if parent and await store.exists(parent) is None:
        with contextlib.suppress(NodeExists):
            await store.create(parent, parents=True)
    try:
        await store.multi([Create(root), *new_cluster(LedgerPaths(root), instance_id)])
    except NodeExists:
        found = await find_cluster(store, root)
        what = f"cluster {found.instance_id}" if found and found.instance_id else "other data"
        raise NodeExists(f"{root} holds {what}") from None


async def nuke_cluster(store: MetadataStore, root: str, instance_id: str | None) -> None:
    """Delete everything below a root, and the root: every ledger of the cluster is lost.

    `instance_id` must be the cluster's; None skips that check. The id goes last, so that a nuke
    that was cut short can be repeated. Errors: NoNode (nothing there), NodeExists (bookies are
    registered), NotEmpty (another cluster, or somebody goes on writing).
    """
    info = await find_cluster(store, root)
    if info is None:
        raise NoNode(f"there is nothing at {root}")
    if instance_id is not None and instance_id != info.instance_id:
        raise NotEmpty(f"{root} holds cluster {info.instance_id or 'without an id'}")
    if info.registered:
        raise NodeExists(f"bookies of the cluster at {root} run: {', '.join(info.registered)}")
    paths = LedgerPaths(root)
    for _ in range(DELETE_ROUNDS_MAX):
        for path in await _below(store, root):
            if path != paths.instance_id:
                await _delete(store, path)
        if set(await store.children(root)) <= {"INSTANCEID"}:
            break
    with_id = [Delete(paths.instance_id)] if info.instance_id else []
    await store.multi([*with_id, Delete(root)])


async def _below(store: MetadataStore, root: str) -> list[str]:
    """Return every path below a root, children before their parents."""
    found: list[str] = []
    pending = [root]
    while pending:
        parent = pending.pop()
        below = [f"{parent}/{name}" for name in await _names(store, parent)]
        found += below
        pending += below
    return found[::-1]


async def _delete(store: MetadataStore, path: str) -> None:
    try:
        await store.delete(path)
    except (NoNode, NotEmpty):
        return  # others were faster, or go on writing: the next round sees


async def _names(store: MetadataStore, path: str) -> list[str]:
    try:
        return await store.children(path)
    except NoNode:
        return []


async def _text(store: MetadataStore, path: str) -> str:
    node = await store.exists(path)
    return "" if node is None else node.data.decode(errors="replace")
