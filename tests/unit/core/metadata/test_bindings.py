import asyncio
from typing import Any

import pytest

from tailrace.core.errors import CorruptData, NodeExists, NoNode, NotYetImplemented
from tailrace.core.metadata.bindings import (
    bind_namespace,
    find_binding,
    is_bound,
    resolve_binding,
    unbind_namespace,
)
from tailrace.core.metadata.namespace_binding import BKDLConfig, decode_binding, encode_binding
from tailrace.core.metadata.store import MetadataStore

ROOT = "/messaging/deep/ns"
ONE = BKDLConfig(bk_zk_servers="zk:2181", bk_ledgers_path="/ledgers")
OTHER = BKDLConfig(bk_zk_servers="zk:2181", bk_ledgers_path="/others")


def resolved(config: BKDLConfig) -> BKDLConfig:
    """What is read back: with the fallbacks filled in."""
    return decode_binding(encode_binding(config))


def test_a_namespace_is_bound_once(run: Any) -> None:
    async def story(store: MetadataStore) -> None:
        assert await find_binding(store, ROOT) is None
        with pytest.raises(NoNode, match="not bound"):
            await resolve_binding(store, ROOT)
        assert await bind_namespace(store, ROOT, ONE)
        assert not await bind_namespace(store, ROOT, ONE)
        assert (await store.get(ROOT)).data == encode_binding(ONE)
        assert (await store.get("/messaging/deep")).data == b""
        with pytest.raises(NodeExists, match="another binding"):
            await bind_namespace(store, ROOT, OTHER)
        assert await resolve_binding(store, ROOT) == resolved(ONE)
        assert await bind_namespace(store, ROOT, OTHER, force=True)
        assert await resolve_binding(store, ROOT) == resolved(OTHER)

    run(story)


def test_a_namespace_that_is_bound_twice_at_once_is_bound(run: Any) -> None:
    async def story(store: MetadataStore) -> None:
        bound = await asyncio.gather(*(bind_namespace(store, ROOT, ONE) for _ in range(2)))
        assert sorted(bound) == [False, True]

    run(story)


def test_the_nearest_ancestor_with_data_binds(run: Any) -> None:
    async def story(store: MetadataStore) -> None:
        await bind_namespace(store, "/messaging", ONE)
        assert (await find_binding(store, ROOT)) == ("/messaging", resolved(ONE))
        await store.create(ROOT, parents=True)
        assert await resolve_binding(store, ROOT) == resolved(ONE)
        await bind_namespace(store, "/messaging/deep", OTHER)
        assert (await find_binding(store, ROOT)) == ("/messaging/deep", resolved(OTHER))
        assert await find_binding(store, "/messagingx") is None

    run(story)


def test_unbinding_empties_the_node(run: Any) -> None:
    async def story(store: MetadataStore) -> None:
        await bind_namespace(store, "/messaging", ONE)
        await bind_namespace(store, ROOT, OTHER)
        await unbind_namespace(store, ROOT)
        assert (await store.get(ROOT)).data == b""
        assert await resolve_binding(store, ROOT) == resolved(ONE)
        for path in (ROOT, "/nothing"):
            with pytest.raises(NoNode, match="binding of its own"):
                await unbind_namespace(store, path)

    run(story)


def test_what_is_no_binding_is_not_taken_for_one(run: Any) -> None:
    async def story(store: MetadataStore) -> None:
        await store.create(ROOT, b"an application's", parents=True)
        assert await is_bound(store, ROOT)
        with pytest.raises(CorruptData):
            await find_binding(store, f"{ROOT}/below")
        with pytest.raises(CorruptData):
            await unbind_namespace(store, ROOT)
        with pytest.raises(NodeExists):
            await bind_namespace(store, ROOT, ONE)
        assert (await store.get(ROOT)).data == b"an application's"

    run(story)


def test_federated_namespaces_are_refused(run: Any) -> None:
    async def story(store: MetadataStore) -> None:
        federated = BKDLConfig(
            bk_zk_servers="zk:2181", bk_ledgers_path="/l", federated_namespace=True
        )
        await bind_namespace(store, ROOT, federated)
        with pytest.raises(NotYetImplemented, match="federated namespaces are not supported"):
            await resolve_binding(store, ROOT)
        found = await find_binding(store, ROOT)
        assert found is not None
        assert found.config.federated_namespace

    run(story)
