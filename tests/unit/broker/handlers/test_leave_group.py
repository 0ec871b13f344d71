import pytest

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import JOIN_GROUP, LEAVE_GROUP
from tailrace.protocol.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.unit.broker.coordinator.runtime_support import running_groups
from tests.unit.broker.handlers.group_support import ask, joining, versions
from tests.unit.broker.loops import in_loop

NONE = ErrorCode.NONE


@pytest.mark.parametrize("version", versions(LEAVE_GROUP))
def test_leave(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            joined = await ask(groups, JOIN_GROUP, 3, joining())
            me = joined.member_id
            request = LeaveGroupRequest(
                group_id="g",
                member_id=me,
                members=[MemberIdentity(member_id=me), MemberIdentity(member_id="nobody")],
            )
            response = await ask(groups, LEAVE_GROUP, version, request)
            assert response.error_code == NONE
            codes = [(m.member_id, m.error_code) for m in response.members]
            unknown = ErrorCode.UNKNOWN_MEMBER_ID
            assert codes == ([(me, NONE), ("nobody", unknown)] if version >= 3 else [])
            assert groups.coordinator.describe("g", 5).group_state == "Empty"
            again = await ask(groups, LEAVE_GROUP, version, request)
            assert again.error_code == (NONE if version >= 3 else unknown)

    body()


@pytest.mark.parametrize("version", versions(LEAVE_GROUP))
def test_an_empty_group_id(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            request = LeaveGroupRequest(group_id="", member_id="m")
            response = await ask(groups, LEAVE_GROUP, version, request)
            assert response.error_code == ErrorCode.INVALID_GROUP_ID
            assert list(response.members) == []

    body()
