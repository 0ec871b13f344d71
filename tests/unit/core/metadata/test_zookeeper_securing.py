"""ACLs of nodes that are there: what a walk changes and leaves, and that it may be cut short."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tailrace.core.errors import NoAuth, NoNode
from tailrace.core.metadata.store import Create
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.metadata.zookeeper_acls import (
    ALL,
    OPEN,
    PLAIN,
    WORLD_ALL,
    WORLD_READ,
    Grant,
    ZookeeperAccess,
)
from tailrace.core.metadata.zookeeper_securing import SecuredTree, Securing, secure_tree
from tests.secure_zookeeper import SaslZooKeeper, access

pytestmark = pytest.mark.java

OWN = Grant(ALL, "sasl", "tailrace")
NODES = ("/ns", "/ns/log", "/ns/log/p", "/ns/.tailrace", "/ns/.tailrace/users", "/ns/.write_proxy")
PRIVATE = ("/ns/.tailrace", "/ns/.tailrace/users")
HOW = access(readable="/ns")

Open = Callable[[ZookeeperAccess], Coroutine[Any, Any, ZookeeperStore]]
Story = Callable[[Open], Coroutine[Any, Any, None]]


def run(server: SaslZooKeeper, story: Story) -> None:
    root = server.make_root()

    async def main() -> None:
        async with AsyncExitStack() as stack:

            async def connect(how: ZookeeperAccess) -> ZookeeperStore:
                store = await ZookeeperStore.connect(server.hosts, chroot=root, access=how)
                stack.push_async_callback(store.close)
                return store

            await story(connect)

    asyncio.run(asyncio.wait_for(main(), 60))


async def open_tree(connect: Open) -> ZookeeperStore:
    plain = await connect(PLAIN)
    await plain.multi([Create(path) for path in NODES])
    await plain.create("/ns/log/lock", ephemeral=True)
    return plain


async def acls(store: ZookeeperStore) -> dict[str, set[Grant]]:
    return {path: set(await store.get_acl(path)) for path in (*NODES, "/ns/log/lock")}


SECURED = {
    path: {OWN} if path in PRIVATE else {OWN, WORLD_READ} for path in (*NODES, "/ns/log/lock")
}


def test_all_nodes_are_secured_and_a_second_time_nothing_is_left(
    sasl_zookeeper: SaslZooKeeper,
) -> None:
    async def story(connect: Open) -> None:
        await open_tree(connect)
        store = await connect(HOW)
        steps: list[int] = []
        assert await secure_tree(store, "/ns", HOW, Securing.SECURE, steps.append) == SecuredTree(
            nodes=7, changed=7
        )
        assert steps[-1] == 7
        assert await acls(store) == SECURED
        assert await secure_tree(store, "/ns", HOW, Securing.SECURE) == SecuredTree(nodes=7)
        assert await secure_tree(store, "/ns", HOW, Securing.LOOK) == SecuredTree(nodes=7)

    run(sasl_zookeeper, story)


def test_a_parent_is_secured_before_its_children_are_listed(
    sasl_zookeeper: SaslZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a stranger's child could come in between and stay."""

    async def story(connect: Open) -> None:
        await open_tree(connect)
        store = await connect(HOW)
        calls: list[tuple[str, str]] = []

        def noted(name: str) -> Callable[..., Any]:
            real = getattr(store, name)

            def call(path: str, *arguments: Any) -> Any:
                calls.append((name, path))
                return real(path, *arguments)

            return call

        for name in ("set_acl", "children"):
            monkeypatch.setattr(store, name, noted(name))
        await secure_tree(store, "/ns", HOW, Securing.SECURE)
        for path in NODES:
            assert calls.index(("set_acl", path)) < calls.index(("children", path))

    run(sasl_zookeeper, story)


def test_looking_changes_nothing_and_opening_is_the_reverse(sasl_zookeeper: SaslZooKeeper) -> None:
    async def story(connect: Open) -> None:
        plain = await open_tree(connect)
        assert await secure_tree(plain, "/ns", PLAIN, Securing.LOOK) == SecuredTree(
            nodes=7, changed=7
        )
        open_acls = {path: {WORLD_ALL} for path in SECURED}
        assert await acls(plain) == open_acls
        store = await connect(HOW)
        await secure_tree(store, "/ns", HOW, Securing.SECURE)
        opened = await secure_tree(store, "/ns", HOW, Securing.OPEN)
        assert opened == SecuredTree(nodes=7, changed=7)
        assert await acls(plain) == open_acls

    run(sasl_zookeeper, story)


def test_processes_that_are_named_go_on_meanwhile(sasl_zookeeper: SaslZooKeeper) -> None:
    """The super user secures for them: at no moment are they shut out."""

    async def story(connect: Open) -> None:
        await open_tree(connect)
        how = access("super", readable="/ns", acl_users="sasl:tailrace")
        store, broker = await connect(how), await connect(HOW)
        done = asyncio.Event()

        async def write() -> int:
            times = 0
            while not done.is_set():
                await broker.set("/ns", b"binding")
                await broker.create("/ns/log/lock-", ephemeral=True, sequential=True)
                times += 1
            return times

        async def secure() -> SecuredTree:
            tree = await secure_tree(store, "/ns", how, Securing.SECURE)
            done.set()
            return tree

        async with asyncio.TaskGroup() as group:
            writing, securing = group.create_task(write()), group.create_task(secure())
        assert writing.result() > 0
        assert securing.result().refused == 0
        for name in await broker.children("/ns/log"):
            acl = set(await broker.get_acl(f"/ns/log/{name}"))
            assert OWN in acl, name
            assert WORLD_ALL not in acl, name

    run(sasl_zookeeper, story)


def test_nodes_of_others_are_named_and_left(sasl_zookeeper: SaslZooKeeper) -> None:
    async def story(connect: Open) -> None:
        await open_tree(connect)
        other = await connect(access("other"))
        await other.create("/ns/log/theirs")
        await other.create("/ns/log/theirs/below")
        store = await connect(HOW)
        assert await secure_tree(store, "/ns", HOW, Securing.SECURE) == SecuredTree(
            nodes=8, changed=7, refused=1, refused_paths=("/ns/log/theirs",)
        )
        assert await other.get_acl("/ns/log/theirs") == (Grant(ALL, "sasl", "other"),)

    run(sasl_zookeeper, story)


def test_without_an_identity_or_a_root_nothing_is_done(sasl_zookeeper: SaslZooKeeper) -> None:
    async def story(connect: Open) -> None:
        plain = await open_tree(connect)
        with pytest.raises(NoAuth):
            await secure_tree(plain, "/ns", PLAIN, Securing.SECURE)
        assert set(await plain.get_acl("/ns")) == set(OPEN)
        for securing in Securing:
            with pytest.raises(NoNode):
                await secure_tree(await connect(HOW), "/none", HOW, securing)

    run(sasl_zookeeper, story)


@pytest.mark.parametrize("after", range(1, 4))
def test_a_walk_that_is_cut_short_is_begun_again(sasl_zookeeper: SaslZooKeeper, after: int) -> None:
    class Cut(Exception):
        pass

    async def story(connect: Open) -> None:
        await open_tree(connect)
        store = await connect(HOW)
        steps = 0

        def step(_nodes: int) -> None:
            nonlocal steps
            steps += 1
            if steps == after:
                raise Cut

        with pytest.raises(Cut):
            await secure_tree(store, "/ns", HOW, Securing.SECURE, step)
        done = await secure_tree(store, "/ns", HOW, Securing.SECURE)
        assert done.nodes == 7
        assert await acls(store) == SECURED

    run(sasl_zookeeper, story)
