import pytest

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import DESCRIBE_GROUPS, JOIN_GROUP
from tailrace.protocol.kafka.messages.describe_groups import DescribeGroupsRequest
from tests.unit.broker.coordinator.runtime_support import running_groups
from tests.unit.broker.handlers.group_support import ask, joining, versions
from tests.unit.broker.loops import in_loop

NONE = ErrorCode.NONE
UNSAID = -2_147_483_648


@pytest.mark.parametrize("version", versions(DESCRIBE_GROUPS))
def test_a_stable_group_shows_members_and_assignments(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            joined = await ask(groups, JOIN_GROUP, 5, joining(group_instance_id="i"))
            await groups.sync(joined)
            request = DescribeGroupsRequest(groups=["g"])
            (group,) = (await ask(groups, DESCRIBE_GROUPS, version, request)).groups
            assert (group.error_code, group.group_state) == (NONE, "Stable")
            assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
            (member,) = group.members
            assert member.member_id == joined.member_id
            assert member.group_instance_id == ("i" if version >= 4 else None)
            assert (member.client_id, member.client_host) == ("app", "/127.0.0.1")
            assert (member.member_metadata, member.member_assignment) == (b"meta", b"mine")
            assert group.authorized_operations == UNSAID

    body()


@in_loop
async def test_a_rebalancing_group_says_nothing_of_protocols() -> None:
    async with running_groups() as groups:
        joined = await groups.stable()
        await groups.join(version=5)
        groups.join(joined.member_id)
        request = DescribeGroupsRequest(groups=["g"])
        (group,) = (await ask(groups, DESCRIBE_GROUPS, 5, request)).groups
        assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
        assert [m.member_metadata for m in group.members] == [b""]


@pytest.mark.parametrize("version", versions(DESCRIBE_GROUPS))
def test_a_group_that_is_not_there(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            request = DescribeGroupsRequest(groups=["g"])
            (group,) = (await ask(groups, DESCRIBE_GROUPS, version, request)).groups
            expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else NONE
            assert (group.error_code, group.group_state) == (expected, "Dead")
            assert group.error_message == ("Group g not found." if version >= 6 else None)

    body()


@pytest.mark.parametrize(("version", "operations"), [(5, 0b1101_0100_1000), (6, UNSAID)])
def test_authorized_operations_if_asked_for(version: int, operations: int) -> None:
    """What is not there is an error since v6, and an error has none."""

    @in_loop
    async def body() -> None:
        async with running_groups() as groups:
            request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
            (group,) = (await ask(groups, DESCRIBE_GROUPS, version, request)).groups
            assert group.authorized_operations == operations

    body()
