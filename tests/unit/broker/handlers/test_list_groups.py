import pytest

from tailrace.core.errors import LogNotFound
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import LIST_GROUPS
from tailrace.protocol.kafka.messages.list_groups import ListGroupsRequest
from tests.unit.broker.coordinator.runtime_support import running_groups
from tests.unit.broker.handlers.group_support import ask, versions
from tests.unit.broker.loops import in_loop


@pytest.mark.parametrize("version", versions(LIST_GROUPS))
def test_list(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            await groups.stable()
            await groups.prepare("simple")
            await groups.commit(1, group="simple")
            response = await ask(groups, LIST_GROUPS, version, ListGroupsRequest())
            listed = sorted(
                (g.group_id, g.protocol_type, g.group_state, g.group_type) for g in response.groups
            )
            state = version >= 4
            kind = "classic" if version >= 5 else ""
            assert listed == [
                ("g", "consumer", "Stable" if state else "", kind),
                ("simple", "", "Empty" if state else "", kind),
            ]

    body()


@in_loop
async def test_filters() -> None:
    async with running_groups() as groups:
        await groups.stable()
        for states, types, count in (
            (["stable"], [], 1),
            (["Empty"], [], 0),
            ([], ["classic"], 1),
            (["Stable"], ["consumer"], 0),
        ):
            request = ListGroupsRequest(states_filter=states, types_filter=types)
            assert len((await ask(groups, LIST_GROUPS, 5, request)).groups) == count


@in_loop
async def test_before_the_first_group_there_are_none() -> None:
    async with running_groups(prepared=False) as groups:
        response = await ask(groups, LIST_GROUPS, 4, ListGroupsRequest())
        assert (response.error_code, list(response.groups)) == (ErrorCode.NONE, [])


@in_loop
async def test_while_a_shard_cannot_be_read_the_list_is_not_whole() -> None:
    async with running_groups() as groups:
        await groups.restart()
        groups.log.open_error = LogNotFound("g")
        response = await ask(groups, LIST_GROUPS, 4, ListGroupsRequest())
        assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
