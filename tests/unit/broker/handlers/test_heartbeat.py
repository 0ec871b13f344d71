import pytest

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import HEARTBEAT, JOIN_GROUP
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest
from tests.unit.broker.coordinator.runtime_support import running_groups
from tests.unit.broker.handlers.group_support import ask, joining, versions
from tests.unit.broker.loops import in_loop


@pytest.mark.parametrize("version", versions(HEARTBEAT))
def test_heartbeat(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            joined = await ask(groups, JOIN_GROUP, 3, joining())

            async def code(group: str, member: str, generation: int) -> int:
                request = HeartbeatRequest(
                    group_id=group, member_id=member, generation_id=generation
                )
                return (await ask(groups, HEARTBEAT, version, request)).error_code

            assert await code("g", joined.member_id, 1) == ErrorCode.NONE
            assert await code("g", joined.member_id, 2) == ErrorCode.ILLEGAL_GENERATION
            assert await code("g", "nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
            assert await code("", joined.member_id, 1) == ErrorCode.INVALID_GROUP_ID

    body()
