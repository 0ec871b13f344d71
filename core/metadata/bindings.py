"""Binding a namespace of log streams to the ledgers that its logs are made of.

The binding is the data of the namespace's node. A namespace without one has that of its nearest
ancestor, so one binding may serve a whole subtree.
Source: reference DistributedLog 3.1; DLMetadata, BKDLConfig.resolveDLConfig.
"""

from typing import NamedTuple

from tailrace.core.errors import NodeExists, NoNode, NotYetImplemented
from tailrace.core.metadata.namespace_binding import BKDLConfig, decode_binding, encode_binding
from tailrace.core.metadata.store import MetadataStore, Node


class Bound(NamedTuple):
    """A binding, and the node that has it."""

    path: str
    config: BKDLConfig


async def find_binding(store: MetadataStore, root: str) -> Bound | None:
    """Return what a namespace is bound to, by itself or by an ancestor; None: it is not bound.

    Errors: CorruptData when the first node with data has no binding. Cost: a read per level.
    """
    found = await _first_with_data(store, root)
    return None if found is None else Bound(found[0], decode_binding(found[1].data))


async def is_bound(store: MetadataStore, root: str) -> bool:
    """Tell whether a namespace or an ancestor has data, whatever that says."""
    return await _first_with_data(store, root) is not None


async def resolve_binding(store: MetadataStore, root: str) -> BKDLConfig:
    """Return the binding by which a namespace can be opened.

    Errors: NoNode when it is not bound; NotYetImplemented when it is federated; CorruptData.
    """
    bound = await find_binding(store, root)
    if bound is None:
        raise NoNode(f"the namespace at {root} is not bound")
    if bound.config.federated_namespace:
        raise NotYetImplemented(f"federated namespaces are not supported: {bound.path}")
    return bound.config


async def bind_namespace(
    store: MetadataStore, root: str, config: BKDLConfig, *, force: bool = False
) -> bool:
    """Bind a namespace, making its node and those above; False: this is its binding already.

    Logs that are there stay, and belong to other ledgers than they were made of if the binding
    names others. Errors: NodeExists when it has another binding or other data, unless `force`;
    BadVersion when somebody else binds it meanwhile.
    """
    data = encode_binding(config)
    node = await store.exists(root)
    if node is None:
        try:
            await store.create(root, data, parents=True)
        except NodeExists:
            node = await store.get(root)  # somebody else was faster, perhaps with the same
        else:
            return True
    if node.data == data:
        return False
    if node.data and not force:
        raise NodeExists(f"{root} holds another binding: {node.data.decode(errors='replace')!r}")
    await store.set(root, data, node.version)
    return True


async def unbind_namespace(store: MetadataStore, root: str) -> None:
    """Empty the node of a namespace; its logs stay and are there again when it is bound again.

    Errors: NoNode when it has no binding of its own; CorruptData when it has other data.
    """
    node = await store.exists(root)
    if node is None or not node.data:
        raise NoNode(f"the namespace at {root} has no binding of its own")
    decode_binding(node.data)
    await store.set(root, b"", node.version)


async def _first_with_data(store: MetadataStore, root: str) -> tuple[str, Node] | None:
    """Walk up from a namespace to the first node that holds anything."""
    path = root
    while path:
        node = await store.exists(path)
        if node is not None and node.data:
            return path, node
        path = path.rpartition("/")[0]
    return None
