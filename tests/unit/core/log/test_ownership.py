import asyncio
from pathlib import Path

import pytest

from tailrace.core.errors import OwnershipLost, Unavailable
from tailrace.core.log.ownership import LockMember, Ownership, member_prefix, parse_member
from tailrace.core.metadata.store import Node, Watch, WatchEvent
from tests.unit.core.log.world import World, run_world, settle


def test_names_as_java_writes_them() -> None:
    """tests/golden/zk-layout.md: the member of a live log."""
    name = "member_1%3B0%3Bhost%3A8000_s72057818244644886_0000000000"
    assert member_prefix("1;0;host:8000", 72057818244644886) == name[:-10]
    assert parse_member(name) == LockMember(0, name, "1;0;host:8000", 72057818244644886)


def test_older_names_and_odd_clients() -> None:
    assert parse_member("member_0000000007") == LockMember(7, "member_0000000007", "", 0)
    assert parse_member("member_me_0000000008").sequence == 8
    odd = member_prefix("a_b c", 5) + "0000000009"
    assert odd == "member_a_b+c_s         5_0000000009"
    assert parse_member(odd) == LockMember(9, odd, "a_b c", 5)
    negative = member_prefix("a", -(2**62)) + "0000000009"
    assert parse_member(negative) == LockMember(9, negative, "a", -(2**62))
    with pytest.raises(ValueError, match="is not a number"):
        parse_member("member_x")


def test_first_come_first_served(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.store.create("/lock")
        a, b, c = (Ownership(world.store, "/lock", name) for name in "abc")
        await a.acquire(0)
        with pytest.raises(OwnershipLost, match="owned by a"):
            await Ownership(world.store, "/lock", "b").acquire(0)
        with pytest.raises(AssertionError, match="claimed"):
            await a.acquire(0)
        assert len(await world.store.children("/lock")) == 1
        async with asyncio.TaskGroup() as group:
            waiting_b = group.create_task(b.acquire(60_000))
            while len(await world.store.children("/lock")) < 2:
                await settle()
            waiting_c = group.create_task(c.acquire(60_000))
            while len(await world.store.children("/lock")) < 3:
                await settle()
            assert not waiting_b.done()
            await a.release()
            await waiting_b
            assert b.is_held
            assert not waiting_c.done()
            await b.release()
        assert c.is_held
        await c.release()
        await c.release()
        assert await world.store.children("/lock") == []

    run_world(tmp_path, story)


def test_waiting_ends_at_the_deadline_and_when_cancelled(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.store.create("/lock")
        a, b = (Ownership(world.store, "/lock", name) for name in "ab")
        await a.acquire(0)
        with pytest.raises(OwnershipLost, match="owned by a"):
            await b.acquire(5)
        assert len(await world.store.children("/lock")) == 1
        c = Ownership(world.store, "/lock", "c")
        waiting = asyncio.get_running_loop().create_task(c.acquire(-1))
        while len(await world.store.children("/lock")) < 2:
            await settle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert len(await world.store.children("/lock")) == 1

    run_world(tmp_path, story)


def test_a_member_of_the_same_session_is_no_stranger(tmp_path: Path) -> None:
    """A create that was sent twice leaves two members of one client (reference 6.2)."""

    async def story(world: World) -> None:
        await world.store.create("/lock")
        prefix = member_prefix("a", world.store.session_id)
        await world.store.create(f"/lock/{prefix}", b"a", ephemeral=True, sequential=True)
        for wait_ms in (0, 1000):
            owner = Ownership(world.store, "/lock", "a")
            await owner.acquire(wait_ms)
            await owner.release()

    run_world(tmp_path, story)


def test_a_name_with_underscores_is_known_as_ours(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.store.create("/lock")
        prefix = member_prefix("host_1_a", world.store.session_id)
        await world.store.create(f"/lock/{prefix}", b"host_1_a", ephemeral=True, sequential=True)
        with pytest.raises(OwnershipLost, match="owned by host_1_a"):
            await Ownership(world.store, "/lock", "host_1").acquire(0)
        await Ownership(world.store, "/lock", "host_1_a").acquire(0)

    run_world(tmp_path, story)


def test_what_is_no_member_is_nobodys_claim(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.store.create("/lock")
        await world.store.create("/lock/notes")
        owner = Ownership(world.store, "/lock", "a")
        await owner.acquire(0)
        assert owner.is_held

    run_world(tmp_path, story)


def test_a_member_that_goes_while_it_is_looked_at_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer and the event may come in one packet: the event is heard first."""

    async def story(world: World) -> None:
        await world.store.create("/lock")
        exists = world.store.exists

        async def exists_and_goes(path: str, watch: Watch | None = None) -> Node | None:
            found = await exists(path)
            if watch is not None:
                watch(path, WatchEvent.DELETED)
            return found

        monkeypatch.setattr(world.store, "exists", exists_and_goes)
        owner = Ownership(world.store, "/lock", "a")
        with pytest.raises(OwnershipLost, match="went with its session"):
            await owner.acquire(0)
        assert not owner.is_held
        await owner.release()

    run_world(tmp_path, story)


@pytest.mark.parametrize("wait_ms", [0, 200])
def test_a_former_process_is_not_waited_for_if_nobody_else_can_have_its_name(
    tmp_path: Path, wait_ms: int
) -> None:
    async def story(world: World) -> None:
        await world.store.create("/lock")
        prefix = member_prefix("a", world.store.session_id + 1)
        await world.store.create(f"/lock/{prefix}", b"a", ephemeral=True, sequential=True)
        for client_id, is_exclusive in (("a", False), ("b", True)):
            other = Ownership(world.store, "/lock", client_id, is_exclusive=is_exclusive)
            with pytest.raises(OwnershipLost, match="owned by a"):
                await other.acquire(wait_ms)
        owner = Ownership(world.store, "/lock", "a", is_exclusive=True)
        await owner.acquire(wait_ms)
        assert owner.is_held
        await owner.release()

    run_world(tmp_path, story)


def test_each_owner_has_a_higher_number_though_one_passed_another_in_the_line(
    tmp_path: Path,
) -> None:
    async def story(world: World) -> None:
        await world.store.create("/lock")
        numbers = []
        for _ in range(3):
            owner = Ownership(world.store, "/lock", "a")
            await owner.acquire(0)
            numbers.append(await owner.take_number())
            await owner.release()
        prefix = member_prefix("a", world.store.session_id + 1)
        former = await world.store.create(f"/lock/{prefix}", ephemeral=True, sequential=True)
        other = Ownership(world.store, "/lock", "b")
        waiting = asyncio.create_task(other.acquire(-1))
        async with asyncio.timeout(10):
            while len(await world.store.children("/lock")) < 2:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0)
        passing = Ownership(world.store, "/lock", "a", is_exclusive=True)
        await passing.acquire(-1)
        await world.store.delete(former)
        await waiting
        numbers += [await passing.take_number(), await other.take_number()]
        assert numbers == sorted(set(numbers)), "both take themselves for the owner now"
        await passing.release()
        await other.release()

    run_world(tmp_path, story)


def test_a_member_is_removed_when_the_store_answers_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its session may live on: it would keep everybody from the log until the process ends."""

    async def story(world: World) -> None:
        await world.store.create("/lock")
        monkeypatch.setattr("tailrace.core.log.ownership._REMOVAL_PAUSES_S", (0.0,) * 4)
        delete = world.store.delete
        failures = [Unavailable("away")] * 3

        async def flaky(path: str) -> None:
            if failures:
                raise failures.pop()
            await delete(path)

        monkeypatch.setattr(world.store, "delete", flaky)
        owner = Ownership(world.store, "/lock", "a")
        await owner.acquire(0)
        await owner.release()
        assert not owner.is_held
        assert len(await world.store.children("/lock")) == 1
        while await world.store.children("/lock"):
            await settle()

    run_world(tmp_path, story)
