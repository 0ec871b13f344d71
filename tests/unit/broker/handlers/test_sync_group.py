import pytest

from tailrace.broker.handlers import Deferred
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import JOIN_GROUP, SYNC_GROUP
from tailrace.protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.broker.coordinator.runtime_support import running_groups
from tests.unit.broker.handlers.group_support import answer_of, ask, ask_soon, joining, versions
from tests.unit.broker.loops import in_loop


@pytest.mark.parametrize("version", versions(SYNC_GROUP))
def test_the_leader_gets_its_own_assignment_when_it_is_stored(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            joined = await ask(groups, JOIN_GROUP, 3, joining())
            mine = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
            request = SyncGroupRequest(
                group_id="g",
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[mine],
            )
            answer = ask_soon(groups, SYNC_GROUP, version, request)
            assert isinstance(answer, Deferred)
            response = await answer_of(answer, SYNC_GROUP, version)
            assert (response.error_code, response.assignment) == (ErrorCode.NONE, b"mine")
            shown = ("consumer", "range") if version >= 5 else (None, None)
            assert (response.protocol_type, response.protocol_name) == shown

    body()


@pytest.mark.parametrize("version", versions(SYNC_GROUP))
@pytest.mark.parametrize(
    ("group", "expected"),
    [("", ErrorCode.INVALID_GROUP_ID), ("g", ErrorCode.UNKNOWN_MEMBER_ID)],
)
def test_refusals(version: int, group: str, expected: ErrorCode) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            request = SyncGroupRequest(
                group_id=group,
                generation_id=1,
                member_id="m",
                protocol_type="consumer",
                protocol_name="range",
            )
            response = await ask(groups, SYNC_GROUP, version, request)
            assert (response.error_code, response.assignment) == (expected, b"")

    body()


@pytest.mark.parametrize("named", [(None, None), ("consumer", None), (None, "range")])
@pytest.mark.parametrize("group", ["", "g"])
def test_the_protocol_is_named_since_v5(group: str, named: tuple[str | None, str | None]) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            request = SyncGroupRequest(
                group_id=group,
                generation_id=1,
                member_id="m",
                protocol_type=named[0],
                protocol_name=named[1],
            )
            response = await ask(groups, SYNC_GROUP, 5, request)
            assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    body()
