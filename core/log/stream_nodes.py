"""The nodes of a log as a whole: making, mending, moving and removing them, each by one multi.

Source: reference DistributedLog 3.2, 3.4; ZKLogStreamMetadataStore.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from tailrace.core.errors import (
    CorruptData,
    LogExists,
    LogNotFound,
    MetadataConflict,
    NodeExists,
    NoNode,
    NotEmpty,
    OwnershipAcquireFailed,
)
from tailrace.core.metadata.layout import LOG_LAYOUT_VERSION, LogPaths
from tailrace.core.metadata.node_reads import read_below, read_current, read_nodes
from tailrace.core.metadata.store import Create, Delete, MetadataStore, Node, Op, SetData

logger = logging.getLogger(__name__)

_MEND_ATTEMPTS_MAX: Final = 3
"""How often nodes are read again that others make at the same time."""
_LOCK_ATTEMPTS_MAX: Final = 8
"""How often a removal is tried again for whom nobody holds a lock any more that was in its way."""


async def stream_exists(store: MetadataStore, paths: LogPaths) -> bool:
    """Tell whether a log is there; one that another process has just made is seen."""
    if await store.exists(paths.segments) is not None:
        return True
    return await read_current(store, lambda: store.exists(paths.segments)) is not None


async def make_stream(store: MetadataStore, paths: LogPaths) -> None:
    """Make the nodes of a log, or those that are missing of one that was begun.

    Its parents are made first. Errors: LogExists; OverCapacity.
    """
    found = await _read(store, paths)
    if found[paths.segments] is not None:
        raise LogExists(paths.log)
    await make_parents(store, paths)
    try:
        await store.multi(_missing(paths, found))
    except NodeExists:
        raise LogExists(paths.log) from None


async def mend_stream(store: MetadataStore, paths: LogPaths) -> None:
    """Look whether a log can be opened, and make what is missing of one that was begun.

    Errors: LogNotFound; CorruptData when it has another layout version, or is the rest of a log.
    """
    found = await _read(store, paths)
    if found[paths.partition] is None:
        found = await read_current(store, lambda: _read(store, paths))
    for _ in range(_MEND_ATTEMPTS_MAX):
        if found[paths.partition] is None:
            found = await _read(store, paths)
        if found[paths.partition] is None:
            raise LogNotFound(paths.log)
        _check(paths, found)
        ops = _missing(paths, found)
        if all(op.path == paths.allocation for op in ops):
            return  # only who writes with an allocator of the log's own needs that one
        try:
            await store.multi(ops)
        except NodeExists:
            found = await _read(store, paths)
        else:
            logger.info("log_mended path=%s nodes=%d", paths.partition, len(ops))
            return
    raise MetadataConflict(f"{paths.partition} kept changing while it was made whole")


async def delete_stream(store: MetadataStore, paths: LogPaths) -> None:
    """Remove the nodes of a log; logs below its name stay.

    Errors: OwnershipAcquireFailed when somebody opened it; MetadataConflict: it changed, try again.
    """
    for attempt in range(1, _LOCK_ATTEMPTS_MAX + 1):
        ops: list[Op] = [Delete(path) for path in await _tree(store, paths)]
        if len(await store.children(paths.log)) == 1:
            ops.append(Delete(paths.log))
        try:
            await _unless_locked(store, paths, ops)
        except NotEmpty:  # who was in a lock has left it
            if attempt == _LOCK_ATTEMPTS_MAX:
                raise
        else:
            return


async def move_stream(store: MetadataStore, old: LogPaths, new: LogPaths) -> None:
    """Give a log another name: all of its nodes go over at once, with their data.

    Logs below the old name stay there. Errors: LogNotFound, LogExists; OwnershipAcquireFailed when
    a process writes the log, rewrites its segments, or reads it under a read lock, its own or a
    subscriber's; MetadataConflict when it changed meanwhile: try again; OverCapacity above some
    2,000 segments; Unavailable: either name may have the log now.
    """
    if not await stream_exists(store, old):
        raise LogNotFound(old.log)
    await make_parents(store, new)
    target, target_partition = await read_nodes(store, (new.log, new.partition))
    if target_partition is not None or (target is not None and target.data):
        raise LogExists(new.log)
    tree = [*await read_below(store, old.partition), old.partition, old.log]
    nodes = dict(zip(tree, await read_nodes(store, tree), strict=True))
    for node in nodes.values():
        if node is not None and node.ephemeral_owner:
            raise _locked(old, node)  # made anew it would outlive its session
    keeps_old = new.log.startswith(old.log + "/") or len(await store.children(old.log)) > 1
    ops = _move_ops(old, new, nodes, target, keeps_old=keeps_old)
    await _unless_locked(store, old, ops)


def _move_ops(
    old: LogPaths,
    new: LogPaths,
    nodes: Mapping[str, Node | None],
    target: Node | None,
    *,
    keeps_old: bool,
) -> list[Op]:
    """Return what moves a log; `nodes`: its own, children first; `target`: at the new name."""
    known = {path: node for path, node in nodes.items() if node is not None}
    if len(known) < len(nodes):
        raise MetadataConflict(f"{old.log} changed while it was read")
    root = known.pop(old.log)
    ops: list[Op] = [
        Create(new.log, root.data)
        if target is None
        else SetData(new.log, root.data, target.version)
    ]
    for path, node in reversed(known.items()):
        ops.append(Create(new.log + path.removeprefix(old.log), node.data))
    ops += [Delete(path, node.version) for path, node in known.items()]
    end = SetData(old.log, b"", root.version) if keeps_old else Delete(old.log, root.version)
    return [*ops, end]


async def make_parents(store: MetadataStore, paths: LogPaths) -> None:
    """Make the nodes above a log, empty."""
    parent = paths.log.rpartition("/")[0]
    if await store.exists(parent) is None:
        try:
            await store.create(parent, parents=True)
        except NodeExists:
            logger.debug("parent_made_by_another path=%s", parent)


async def _read(store: MetadataStore, paths: LogPaths) -> dict[str, Node | None]:
    wanted = [path for path, _ in paths.initial_nodes()]
    return dict(zip(wanted, await read_nodes(store, wanted), strict=True))


def _missing(paths: LogPaths, found: Mapping[str, Node | None]) -> list[Create]:
    return [Create(path, data) for path, data in paths.initial_nodes() if found[path] is None]


def _check(paths: LogPaths, found: Mapping[str, Node | None]) -> None:
    """Refuse what only looks like a log that was begun. Errors: CorruptData."""
    version, max_txid = found[paths.version], found[paths.max_txid]
    if version is not None and version.data != LOG_LAYOUT_VERSION:
        raise CorruptData(f"{paths.version} is {version.data.hex()!r}: an unknown log layout")
    if found[paths.segments] is None and max_txid is not None and max_txid.data != b"0":
        raise CorruptData(f"{paths.segments} is gone, of a log that was written to")


async def _tree(store: MetadataStore, paths: LogPaths) -> list[str]:
    """Return the nodes of a log, children first, but those who hold its locks."""
    locks = (paths.lock + "/", paths.read_lock + "/")
    below = await read_below(store, paths.partition)
    return [*(path for path in below if not path.startswith(locks)), paths.partition]


async def _unless_locked(store: MetadataStore, paths: LogPaths, ops: Sequence[Op]) -> None:
    """Run a multi that removes the nodes of the locks, which fails while anybody is in them."""
    try:
        await store.multi(ops)
    except NotEmpty as error:
        member = await _holder(store, paths)
        if member is None:
            raise
        raise _locked(paths, member) from error


async def _holder(store: MetadataStore, paths: LogPaths) -> Node | None:
    """Return what is in a lock of a log, None if nothing is by now: any node of a session."""
    try:
        nodes = await read_nodes(store, await read_below(store, paths.partition))
    except NoNode:
        return None  # one that left just now
    return next((node for node in nodes if node is not None and node.ephemeral_owner), None)


def _locked(paths: LogPaths, member: Node) -> OwnershipAcquireFailed:
    owner = member.data.decode(errors="replace")
    return OwnershipAcquireFailed(f"{paths.log} is locked by {owner}", current_owner=owner)
