import pytest

from tailrace.broker.handlers import Deferred
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import JOIN_GROUP
from tests.unit.broker.coordinator.runtime_support import running_groups
from tests.unit.broker.handlers.group_support import answer_of, ask, ask_soon, joining, versions
from tests.unit.broker.loops import in_loop

NONE = ErrorCode.NONE


@pytest.mark.parametrize("version", versions(JOIN_GROUP))
def test_a_member_joins(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            member_id = ""
            if version >= 4:
                first = await ask(groups, JOIN_GROUP, version, joining())
                assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
                assert first.member_id.startswith("app-")
                member_id = first.member_id
            answer = ask_soon(groups, JOIN_GROUP, version, joining(member_id))
            assert isinstance(answer, Deferred)  # it waits, and holds no task
            response = await answer_of(answer, JOIN_GROUP, version)
            assert (response.error_code, response.generation_id) == (NONE, 1)
            assert response.leader == response.member_id != ""
            assert response.protocol_name == "range"
            assert response.protocol_type == ("consumer" if version >= 7 else None)
            assert [m.metadata for m in response.members] == [b"meta"]
            described = groups.coordinator.describe("g", 5).members[0]
            assert (described.client_id, described.client_host) == ("app", "/127.0.0.1")

    body()


@pytest.mark.parametrize("version", versions(JOIN_GROUP))
def test_a_refusal_names_the_member_and_no_generation(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            response = await ask(groups, JOIN_GROUP, version, joining("m", group_id=""))
            assert response.error_code == ErrorCode.INVALID_GROUP_ID
            assert (response.member_id, response.generation_id) == ("m", -1)
            assert response.protocol_name == ("" if version < 7 else None)
            response = await ask(groups, JOIN_GROUP, version, joining("m"))
            assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    body()


@in_loop
async def test_v0_has_one_timeout_for_both() -> None:
    async with running_groups() as groups:
        answer = ask_soon(groups, JOIN_GROUP, 0, joining(rebalance_timeout_ms=1))
        await answer_of(answer, JOIN_GROUP, 0)
        shard = groups.coordinator._partitions.machine("g")
        assert not isinstance(shard, ErrorCode)
        assert shard.groups["g"].roster.rebalance_timeout_ms == 10_000
