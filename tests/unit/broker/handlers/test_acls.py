"""CreateAcls, DescribeAcls and DeleteAcls, over a real metadata store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tailrace.broker.handlers import create_acls as create_module
from tailrace.broker.handlers import delete_acls as delete_module
from tailrace.core.access.acls import store as store_module
from tailrace.core.access.acls.authorizer import AclAuthorizer
from tailrace.core.access.acls.store import AclStore
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import SystemClock
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from tailrace.protocol.kafka.messages.create_acls import AclCreation, CreateAclsRequest
from tailrace.protocol.kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tailrace.protocol.kafka.messages.describe_acls import DescribeAclsRequest
from tests.unit.broker.fakes import World, make_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop

TOPIC, GROUP, CLUSTER, USER = 2, 3, 4, 7
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
READ, WRITE, ALTER, DESCRIBE = 3, 4, 7, 8
DENY, ALLOW = 2, 3
INVALID = ErrorCode.INVALID_REQUEST
ME = "User:ANONYMOUS"

READS = AclCreation(
    resource_type=TOPIC,
    resource_name="orders",
    resource_pattern_type=LITERAL,
    principal="User:alice",
    host="*",
    operation=READ,
    permission_type=ALLOW,
)
ALL_OF_THEM = DeleteAclsFilter(
    resource_type_filter=ANY,
    resource_name_filter=None,
    pattern_type_filter=ANY,
    principal_filter=None,
    host_filter=None,
    operation=ANY,
    permission_type=ANY,
)
Row = tuple[int, str, int, str, str, int, int]


@asynccontextmanager
async def world_with_acls(
    path: Path, *, super_users: tuple[str, ...] = (ME,)
) -> AsyncIterator[World]:
    store = SqliteStore(path / "metadata.db", SystemClock())
    world = make_world(store=store)
    world.broker.authorizer = AclAuthorizer(super_users=super_users)
    world.broker.acls = AclStore(store, "/acls", world.broker.authorizer)
    await world.broker.acls.start()
    try:
        yield world
    finally:
        await world.broker.acls.close()
        await store.close()


def row(acl: AclCreation) -> Row:
    return (
        acl.resource_type,
        acl.resource_name,
        acl.resource_pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


async def create(world: World, *acls: AclCreation, version: int = 3) -> list[int]:
    answer = await ask(world, CREATE_ACLS, version, CreateAclsRequest(creations=acls))
    assert all((each.error_message is None) is (each.error_code == 0) for each in answer.results)
    return [each.error_code for each in answer.results]


async def described(world: World, version: int = 3, **wanted: Any) -> list[Row]:
    everything = {name: getattr(ALL_OF_THEM, name) for name in ALL_OF_THEM.__slots__}
    request = DescribeAclsRequest(**everything | wanted)
    answer = await ask(world, DESCRIBE_ACLS, version, request)
    assert (answer.error_code, answer.error_message) == (0, None)
    return sorted(
        (
            at.resource_type,
            at.resource_name,
            at.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for at in answer.resources
        for acl in at.acls
    )


async def delete(
    world: World, *filters: DeleteAclsFilter, version: int = 3
) -> list[int | list[Row]]:
    """Return for each filter what it deleted, or its error."""
    answer = await ask(world, DELETE_ACLS, version, DeleteAclsRequest(filters=filters))
    found: list[int | list[Row]] = []
    for each in answer.filter_results:
        assert each.error_code == 0 or not each.matching_acls
        rows = [
            (
                acl.resource_type,
                acl.resource_name,
                acl.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for acl in each.matching_acls
        ]
        found.append(each.error_code or sorted(rows))
    return found


@pytest.mark.parametrize("version", [1, 2, 3])
@in_loop
async def test_what_is_created_is_described_and_deleted(tmp_path: Path, version: int) -> None:
    async with world_with_acls(tmp_path) as world:
        acls = [
            READS,
            replace(READS, operation=WRITE),
            replace(READS, resource_pattern_type=PREFIXED, permission_type=DENY),
            replace(READS, resource_type=GROUP, principal="User:*", host="10.0.0.1"),
            replace(READS, resource_type=CLUSTER, resource_name="kafka-cluster"),
            replace(READS, resource_type=USER, resource_name="User:bob"),
        ]
        assert await create(world, *acls, version=version) == [0] * 6
        assert await create(world, *acls[:2], version=version) == [0, 0]
        assert await described(world, version) == sorted(map(row, acls))
        wanted = {"resource_type_filter": TOPIC, "resource_name_filter": "orders"}
        for pattern_type, found in ((LITERAL, acls[:2]), (PREFIXED, acls[2:3]), (ANY, acls[:3])):
            rows = await described(world, version, **wanted, pattern_type_filter=pattern_type)
            assert rows == sorted(map(row, found))
        wanted["resource_name_filter"] = "orders-eu"
        rows = await described(world, version, **wanted, pattern_type_filter=MATCH)
        assert rows == [row(acls[2])]
        of_alice = replace(ALL_OF_THEM, principal_filter="User:alice", operation=READ)
        ours = [row(acls[at]) for at in (0, 2, 4, 5)]
        assert await delete(world, of_alice, version=version) == [sorted(ours)]
        assert await described(world, version) == sorted(map(row, (acls[1], acls[3])))
        writes = replace(ALL_OF_THEM, operation=WRITE)
        everything = sorted(map(row, (acls[1], acls[3])))
        assert await delete(world, writes, ALL_OF_THEM) == [[row(acls[1])], everything]
        assert await described(world) == []


@in_loop
async def test_wrong_creations_hinder_no_others(tmp_path: Path) -> None:
    async with world_with_acls(tmp_path) as world:
        wrong = [
            replace(READS, resource_type=0),
            replace(READS, resource_type=ANY),
            replace(READS, resource_type=99),
            replace(READS, resource_pattern_type=ANY),
            replace(READS, resource_pattern_type=MATCH),
            replace(READS, resource_pattern_type=-1),
            replace(READS, operation=0),
            replace(READS, operation=ANY),
            replace(READS, operation=16),
            replace(READS, permission_type=ANY),
            replace(READS, permission_type=4),
            replace(READS, resource_name=""),
            replace(READS, principal="alice"),
            replace(READS, principal=""),
            replace(READS, resource_type=CLUSTER),
            replace(READS, resource_type=CLUSTER, resource_name="*"),
            replace(READS, resource_name="Ä" * (create_module.TEXT_BYTES_MAX // 2 + 1)),
            replace(READS, principal="User:" + "a" * create_module.TEXT_BYTES_MAX),
            replace(READS, host="1" * (create_module.TEXT_BYTES_MAX + 1)),
        ]
        codes = await create(world, *wrong, READS, wrong[0])
        assert codes == [INVALID] * len(wrong) + [0, INVALID]
        longest = replace(
            READS, resource_name="\0/." + "Ä" * (create_module.TEXT_BYTES_MAX // 2 - 2)
        )
        assert await create(world, longest) == [0]
        assert await described(world) == sorted([row(READS), row(longest)])


@in_loop
async def test_filters_that_are_not_known_are_refused(tmp_path: Path) -> None:
    async with world_with_acls(tmp_path) as world:
        assert await create(world, READS) == [0]
        for code in (0, 99, -1):
            for name in ("resource_type_filter", "pattern_type_filter", "operation"):
                wrong = replace(ALL_OF_THEM, **{name: code})
                assert await delete(world, wrong) == [INVALID]
                same = {each: getattr(wrong, each) for each in wrong.__slots__}
                answer = await ask(world, DESCRIBE_ACLS, 3, DescribeAclsRequest(**same))
                assert (answer.error_code, list(answer.resources)) == (INVALID, [])
        wrong = replace(ALL_OF_THEM, permission_type=0)
        assert await delete(world, wrong, ALL_OF_THEM) == [INVALID, [row(READS)]]


async def _refusals(world: World) -> set[int]:
    """Return with what codes all three are refused."""
    everything = {name: getattr(ALL_OF_THEM, name) for name in ALL_OF_THEM.__slots__}
    answer = await ask(world, DESCRIBE_ACLS, 3, DescribeAclsRequest(**everything))
    assert list(answer.resources) == []
    created = await create(world, READS, READS)
    deleted = await delete(world, ALL_OF_THEM, ALL_OF_THEM)
    assert len(created) == len(deleted) == 2
    return {answer.error_code, *created, *(each for each in deleted if isinstance(each, int))}


@in_loop
async def test_without_an_authorizer_there_are_no_acls(tmp_path: Path) -> None:
    world = make_world()
    assert await _refusals(world) == {ErrorCode.SECURITY_DISABLED}


@in_loop
async def test_they_need_an_operation_on_the_cluster(tmp_path: Path) -> None:
    async with world_with_acls(tmp_path, super_users=("User:root",)) as world:
        assert await _refusals(world) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
        acls = world.broker.acls
        assert acls is not None
        mine = replace(READS, resource_type=CLUSTER, resource_name="kafka-cluster", principal=ME)
        describes = create_module._acl(replace(mine, operation=DESCRIBE))
        assert isinstance(describes, create_module.Acl)
        await acls.create([describes])
        assert len(await described(world)) == 1
        assert await create(world, READS) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        assert await delete(world, ALL_OF_THEM) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
        alters = create_module._acl(replace(mine, operation=ALTER))
        assert isinstance(alters, create_module.Acl)
        await acls.create([alters])
        assert await create(world, READS) == [0]
        (gone,) = await delete(world, ALL_OF_THEM)
        assert isinstance(gone, list)
        assert len(gone) == 3
        assert await _refusals(world) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}


@in_loop
async def test_what_is_over_a_limit_is_said_of_every_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world_with_acls(tmp_path) as world:
        many = [replace(READS, resource_name=f"t{number}") for number in range(3)]
        monkeypatch.setattr(store_module, "PATTERNS_CHANGED_MAX", 2)
        wrong = replace(READS, operation=ANY)
        policy = ErrorCode.POLICY_VIOLATION
        assert await create(world, *many, wrong) == [policy, policy, policy, INVALID]
        assert await described(world) == []
        monkeypatch.setattr(delete_module, "FILTERS_MAX", 2)
        assert await delete(world, *[ALL_OF_THEM] * 3) == [policy] * 3
        monkeypatch.setattr(create_module, "CHANGED_MAX", 2)
        assert await create(world, READS, wrong, READS) == [policy] * 3
        assert await described(world) == []


@in_loop
async def test_what_the_store_does_not_take_is_said_of_every_entry(tmp_path: Path) -> None:
    async with world_with_acls(tmp_path) as world:
        principals = [f"User:{number:03}" + "x" * 900 for number in range(700)]
        many = [
            replace(READS, resource_name=f"t{number % 2}", principal=principal)
            for number, principal in enumerate(principals)
        ]
        many += [replace(each, resource_name="u" + each.resource_name) for each in many]
        assert set(await create(world, *many)) == {ErrorCode.POLICY_VIOLATION}
        assert await described(world) == []
        assert await create(world, READS) == [0]
