"""Rewriting the ACLs of nodes that are there: securing a cluster that was open, or opening it.

From the root down, a parent before its children are listed: what is made below a parent that is
secured already is made by a process that has credentials. So a walk that was cut short at any point
is simply begun again, and processes that set ACLs themselves go on beside it. Source: Kafka
ZkSecurityMigrator.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from tailrace.core.errors import NoAuth, NoNode
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.metadata.zookeeper_acls import (
    OPEN,
    Grant,
    ZookeeperAccess,
    is_open,
    resolved,
)
from tailrace.core.runtime.tasks import together

STEP_NODES: Final = 64
"""So many nodes are worked on at once."""
NAMED_MAX: Final = 10
"""So many of those that belong to others are named."""


class Securing(Enum):
    """What is done to the nodes."""

    SECURE = "secure"
    OPEN = "open"
    LOOK = "look"
    """Nothing: those are counted that the world may do more with than it should."""


@dataclass(frozen=True, slots=True)
class SecuredTree:
    """What became of the nodes below a root, the root among them."""

    nodes: int = 0
    changed: int = 0
    """With LOOK: that would be."""
    refused: int = 0
    """Belong to others: neither changed nor, where they cannot be read, looked below."""
    refused_paths: tuple[str, ...] = field(default=())
    """The first of them."""


class _Found(Enum):
    SAME = "same"
    CHANGED = "changed"
    REFUSED = "refused"
    GONE = "gone"


async def secure_tree(
    store: ZookeeperStore,
    root: str,
    access: ZookeeperAccess,
    securing: Securing,
    on_step: Callable[[int], None] = lambda _nodes: None,
) -> SecuredTree:
    """Give every node from a root down the ACL that `access` says, or the open one.

    `on_step`: hears how many nodes are done. Errors: NoNode: there is no root; NoAuth: the session
    has no identity, or the root belongs to another; Unavailable: begin again.
    Cancel: what was changed stays so. Cost: two requests a node, three for one that changes.
    """
    own, tree = await _begun(store, root, access, securing)
    waiting = [root]
    while waiting:
        step, waiting = waiting[-STEP_NODES:], waiting[:-STEP_NODES]
        done = await together([_one(store, path, access, securing, own) for path in step])
        for path, (found, children) in zip(step, done, strict=True):
            tree = _counted(tree, path, found)
            waiting += [f"{path}/{name}" for name in children]
        on_step(tree.nodes)
    return tree


async def _begun(
    store: ZookeeperStore, root: str, access: ZookeeperAccess, securing: Securing
) -> tuple[Sequence[Grant], SecuredTree]:
    """Secure the root; return what the servers make of this session, to compare nodes by it."""
    if securing is not Securing.SECURE:
        await store.get(root)
        return (), SecuredTree()
    before, wanted = await store.get_acl(root), access.owned(root)
    await store.set_acl(root, wanted)
    after = await store.get_acl(root)
    own = [each for each in after if each not in wanted]
    return own, SecuredTree(changed=int(frozenset(before) != frozenset(after)))


async def _one(
    store: ZookeeperStore,
    path: str,
    access: ZookeeperAccess,
    securing: Securing,
    own: Sequence[Grant],
) -> tuple[_Found, list[str]]:
    try:
        found = await _changed(store, path, access, securing, own)
        return found, await store.children(path)
    except NoNode:
        return _Found.GONE, []
    except NoAuth:
        return _Found.REFUSED, []


async def _changed(
    store: ZookeeperStore,
    path: str,
    access: ZookeeperAccess,
    securing: Securing,
    own: Sequence[Grant],
) -> _Found:
    acl = await store.get_acl(path)
    if securing is Securing.LOOK:
        is_changed = is_open(acl, readable=access.is_readable(path))
        return _Found.CHANGED if is_changed else _Found.SAME
    wanted = access.owned(path) if securing is Securing.SECURE else OPEN
    if frozenset(acl) == resolved(wanted, own):
        return _Found.SAME
    await store.set_acl(path, wanted)
    return _Found.CHANGED


def _counted(tree: SecuredTree, path: str, found: _Found) -> SecuredTree:
    if found is _Found.GONE:
        return tree
    if found is _Found.REFUSED:
        named = (*tree.refused_paths, path)[:NAMED_MAX]
        return replace(tree, nodes=tree.nodes + 1, refused=tree.refused + 1, refused_paths=named)
    return replace(tree, nodes=tree.nodes + 1, changed=tree.changed + (found is _Found.CHANGED))
