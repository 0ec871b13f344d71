"""Who a node of another session is: a process that lives, or one that nobody could bury."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from tailrace.core.errors import NodeExists, Unavailable
from tailrace.core.metadata.ephemeral_node import EphemeralNode
from tailrace.core.metadata.store import MetadataStore, Node, SessionEvent

WAIT_MS = 20


class Elsewhere:
    """A store whose one node belongs to another session, and stays."""

    session_id = 7

    def __init__(self) -> None:
        self.node: Node | None = Node(b"", 0, 0, 0, ephemeral_owner=5, cversion=0)
        self.on_wait: Callable[[], None] = lambda: None
        self.reads = 0
        self._hear: Callable[[SessionEvent], None] = lambda _: None

    def on_session(self, hear: Callable[[SessionEvent], None]) -> None:
        self._hear = hear

    def say(self, event: SessionEvent) -> None:
        self._hear(event)

    async def create(self, *_: Any, **__: Any) -> None:
        raise NodeExists("it is there")

    async def exists(self, _path: str, _watch: object = None) -> Node | None:
        self.reads += 1
        if self.reads == 1:
            self.on_wait()
        return self.node


async def make(store: Elsewhere) -> None:
    await EphemeralNode(cast("MetadataStore", store), "/a/1", b"").make(WAIT_MS)


def test_a_node_that_outlives_the_wait_is_somebodys() -> None:
    with pytest.raises(NodeExists, match="another process runs as 1"):
        asyncio.run(make(Elsewhere()))


@pytest.mark.parametrize("event", [SessionEvent.LOST, SessionEvent.NEW_SESSION])
def test_a_node_that_outlives_an_outage_of_the_store_says_nothing(event: SessionEvent) -> None:
    store = Elsewhere()
    store.on_wait = lambda: store.say(event)
    with pytest.raises(Unavailable):
        asyncio.run(make(store))


def test_a_node_that_went_at_the_last_moment_is_nobodys() -> None:
    store = Elsewhere()

    def go() -> None:
        asyncio.get_running_loop().call_soon(setattr, store, "node", None)

    store.on_wait = go
    with pytest.raises(Unavailable):
        asyncio.run(make(store))
