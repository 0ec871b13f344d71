"""ACLs in the metadata store: what is answered is stored and in force, here and elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tailrace.core.access.acls import store as module
from tailrace.core.access.acls.authorizer import AclAuthorizer
from tailrace.core.access.acls.codec import entity_of
from tailrace.core.access.acls.filters import AclFilter, EntryFilter, PatternFilter
from tailrace.core.access.acls.model import (
    Acl,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from tailrace.core.access.acls.store import AclStore
from tailrace.core.access.requester import Requester
from tailrace.core.errors import CorruptData, OverCapacity
from tailrace.core.metadata.entity_nodes import entity_node
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.tasks import together

WITHIN_S = 10
PARENT = "/t/acls"
ALICE = Requester("User:alice", "10.0.0.1")
TOPIC = ResourceType.TOPIC
EVERY_ENTRY = EntryFilter(None, None, Operation.ANY, Permission.ANY)
EVERYTHING = AclFilter(PatternFilter(ResourceType.ANY, None, PatternType.ANY), EVERY_ENTRY)


class Two(NamedTuple):
    """Two brokers' ACLs over one store."""

    store: SqliteStore
    mine: AclStore
    theirs: AclStore


@asynccontextmanager
async def two(at: Path) -> AsyncIterator[Two]:
    store = SqliteStore(at / "metadata.db", ManualClock())
    both = [AclStore(store, PARENT, AclAuthorizer()) for _ in range(2)]
    for each in both:
        await each.start()
    try:
        yield Two(store, *both)
    finally:
        for each in both:
            await each.close()
        await store.close()


def pattern(name: str, kind: PatternType = PatternType.LITERAL) -> Pattern:
    return Pattern(TOPIC, name, kind)


def entry(
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    principal: str = ALICE.principal,
) -> Entry:
    return Entry(principal, "*", operation, permission)


def may_read(acls: AclStore, name: str) -> bool:
    return acls.authorizer.allows(ALICE, Operation.READ, TOPIC, name)


async def until_equal(at: Two) -> None:
    async with asyncio.timeout(WITHIN_S):
        while at.mine.patterns != at.theirs.patterns:
            await at.store.exists("/")


def test_what_one_creates_is_in_force_for_both(tmp_path: Path) -> None:
    async def run() -> None:
        async with two(tmp_path) as at:
            versions = [each.authorizer.version for each in (at.mine, at.theirs)]
            await at.mine.create([Acl(pattern("t"), entry())])
            assert may_read(at.mine, "t")
            await until_equal(at)
            assert may_read(at.theirs, "t")
            deny = entry(permission=Permission.DENY)
            await at.theirs.create([Acl(pattern("t", PatternType.PREFIXED), deny)])
            assert not may_read(at.theirs, "t")
            await until_equal(at)
            assert not may_read(at.mine, "t")
            assert at.mine.metrics.entries == at.theirs.metrics.entries == 2
            for acls, before in zip((at.mine, at.theirs), versions, strict=True):
                assert acls.authorizer.version == before + 2
            again = AclStore(at.store, PARENT, AclAuthorizer())
            await again.start()
            await again.close()
            assert again.patterns == at.mine.patterns
            assert not may_read(again, "t")

    asyncio.run(run())


def test_what_is_there_already_is_made_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with two(tmp_path) as at:
            acl = Acl(pattern("t"), entry())
            await at.mine.create([acl, acl])
            await at.mine.create([acl])
            await at.mine.create([])
            assert (at.mine.metrics.entries, dict(at.mine.patterns)) == (
                1,
                {pattern("t"): (entry(),)},
            )

    asyncio.run(run())


def test_each_filter_is_answered_with_what_it_matches(tmp_path: Path) -> None:
    async def run() -> None:
        async with two(tmp_path) as at:
            one, other = Acl(pattern("t"), entry()), Acl(pattern("t"), entry(Operation.WRITE))
            prefixed = Acl(pattern("t", PatternType.PREFIXED), entry())
            await at.theirs.create([one, other, prefixed])
            reads = EVERY_ENTRY._replace(operation=Operation.READ)
            filters = [
                AclFilter(PatternFilter(TOPIC, "t", PatternType.LITERAL), reads),
                AclFilter(PatternFilter(TOPIC, "topic", PatternType.MATCH), EVERY_ENTRY),
                AclFilter(PatternFilter(TOPIC, None, PatternType.ANY), reads),
                AclFilter(PatternFilter(ResourceType.GROUP, None, PatternType.ANY), reads),
            ]
            # asked of the one that may not have heard of them yet
            assert await at.mine.delete(filters) == [[one], [prefixed], [one, prefixed], []]
            assert dict(at.mine.patterns) == {other.pattern: (other.entry,)}
            assert await at.mine.delete([EVERYTHING]) == [[other]]
            assert await at.store.children(PARENT) == []
            assert await at.mine.delete([EVERYTHING, EVERYTHING]) == [[], []]
            await until_equal(at)
            assert at.theirs.metrics.entries == 0

    asyncio.run(run())


def test_two_brokers_that_change_one_pattern_lose_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with two(tmp_path) as at:
            entries = [entry(principal=f"User:{number}") for number in range(20)]
            both = (at.mine, at.theirs)
            await together(
                [
                    both[number % 2].create([Acl(pattern("t"), each)])
                    for number, each in enumerate(entries)
                ]
            )
            gone, left = entries[::3], [each for each in entries if each not in entries[::3]]
            only = PatternFilter(TOPIC, "t", PatternType.LITERAL)
            filters = [
                AclFilter(only, EVERY_ENTRY._replace(principal=each.principal)) for each in gone
            ]
            deleted = await together(
                [both[number % 2].delete([each]) for number, each in enumerate(filters)]
            )
            assert deleted == [[[Acl(pattern("t"), each)]] for each in gone]
            await until_equal(at)
            assert set(at.mine.patterns[pattern("t")]) == set(left)

    asyncio.run(run())


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"version":2,"acls":[]}', b'{"version":1,"acls":[]}']
)
def test_what_does_not_decode_denies_until_it_is_deleted(tmp_path: Path, data: bytes) -> None:
    """It may have been a DENY: nothing is allowed that it matches, also by what else is there."""

    async def run() -> None:
        async with two(tmp_path) as at:
            await at.mine.create([Acl(pattern("*"), entry())])
            broken = f"{PARENT}/{entity_node(entity_of(pattern('t', PatternType.PREFIXED)))}"
            await at.store.create(broken, data)
            async with asyncio.timeout(WITHIN_S):
                while len(at.mine.patterns) + len(at.theirs.patterns) < 4:
                    await at.store.exists("/")
            for acls in (at.mine, at.theirs):
                assert (may_read(acls, "t1"), may_read(acls, "o")) == (False, True)
                assert (acls.metrics.patterns, acls.metrics.unreadable) == (2, 1)
            with pytest.raises(CorruptData, match="delete them"):
                await at.mine.create([Acl(pattern("t", PatternType.PREFIXED), entry())])
            node = await at.store.get(broken)
            assert node.data == data
            wanted = PatternFilter(TOPIC, "t", PatternType.PREFIXED)
            (gone,) = await at.mine.delete([AclFilter(wanted, EVERY_ENTRY)])
            assert [each.entry.permission for each in gone] == [Permission.DENY]
            assert may_read(at.mine, "t1")
            assert at.mine.metrics.unreadable == 0
            assert await at.store.exists(broken) is None

    asyncio.run(run())


def test_a_node_of_no_pattern_is_left_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with two(tmp_path) as at:
            for name in (
                "junk",
                "PIPE:LITERAL:a",
                "TOPIC:ANY:a",
                "ANY:LITERAL:a",
                "TOPIC:LITERAL:",
            ):
                await at.store.create(f"{PARENT}/{entity_node(name)}", b"{}")
            again = AclStore(at.store, PARENT, AclAuthorizer())
            await again.start()
            await again.close()
            assert again.metrics.entries == 0
            assert await again.delete([EVERYTHING]) == [[]]
            assert len(await at.store.children(PARENT)) == 5

    asyncio.run(run())


def test_limits_are_refused_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with two(tmp_path) as at:

            async def refuses(*acls: Acl) -> str:
                before = dict(at.mine.patterns)
                with pytest.raises(OverCapacity) as caught:
                    await at.mine.create(acls)
                assert dict(at.mine.patterns) == before
                return str(caught.value)

            users = [entry(principal=f"User:{number}") for number in range(6)]
            monkeypatch.setattr(module, "ENTRIES_MAX", 3)
            assert "at most 3 ACLs" in await refuses(*(Acl(pattern("t"), each) for each in users))
            monkeypatch.setattr(module, "CHANGED_MAX", 5)
            assert "at most 5 ACLs" in await refuses(*(Acl(pattern("t"), each) for each in users))
            monkeypatch.setattr(module, "PATTERNS_CHANGED_MAX", 2)
            many = [Acl(pattern(name), users[0]) for name in "abc"]
            assert "2 patterns" in await refuses(*many)
            await at.mine.create(many[:2])
            await at.mine.create(many[2:])
            with pytest.raises(OverCapacity):
                await at.mine.delete([EVERYTHING])
            assert at.mine.metrics.entries == 3
            monkeypatch.setattr(module, "PATTERNS_MAX", 3)
            assert "at most 3 resource patterns" in await refuses(Acl(pattern("d"), users[0]))
            await at.mine.create([Acl(pattern("a"), users[1])])
            monkeypatch.setattr(module, "ACLS_MAX", 4)
            assert "at most 4 ACLs" in await refuses(Acl(pattern("a"), users[2]))

    asyncio.run(run())
