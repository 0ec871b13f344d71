from dataclasses import replace

import pytest

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import DELETE_GROUPS
from tailrace.protocol.kafka.messages.delete_groups import DeleteGroupsRequest
from tests.unit.broker.coordinator.runtime_support import CONFIG, running_groups
from tests.unit.broker.handlers.group_support import ask, versions
from tests.unit.broker.loops import in_loop, turns

NONE = ErrorCode.NONE


@pytest.mark.parametrize("version", versions(DELETE_GROUPS))
def test_each_group_has_its_own_answer(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            await groups.stable()
            for group_id in ("simple", "nobody", ""):
                await groups.prepare(group_id)
            await groups.commit(1, group="simple")
            request = DeleteGroupsRequest(groups_names=["simple", "g", "nobody", "simple", ""])
            response = await ask(groups, DELETE_GROUPS, version, request)
            assert [(r.group_id, r.error_code) for r in response.results] == [
                ("simple", NONE),
                ("g", ErrorCode.NON_EMPTY_GROUP),
                ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
                ("", ErrorCode.GROUP_ID_NOT_FOUND),
            ]
            await groups.restart()
            await groups.prepare("simple")
            assert await groups.committed(group="simple") is None

    body()


@in_loop
async def test_without_the_internal_topic_nobody_coordinates() -> None:
    async with running_groups(prepared=False) as groups:
        response = await ask(groups, DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g"]))
        assert [r.error_code for r in response.results] == [ErrorCode.NOT_COORDINATOR]


@in_loop
async def test_a_deletion_that_takes_too_long_may_be_asked_again() -> None:
    async with running_groups(
        auto=False, config=replace(CONFIG, offsets_commit_timeout_ms=1)
    ) as groups:
        groups.commit(1)
        await turns()
        groups.writer.confirm()
        await turns()
        response = await ask(groups, DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g"]))
        assert [r.error_code for r in response.results] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        groups.writer.confirm()
        await turns()
        response = await ask(groups, DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g"]))
        assert [r.error_code for r in response.results] == [ErrorCode.GROUP_ID_NOT_FOUND]
