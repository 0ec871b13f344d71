"""What ListGroups and DescribeGroups say of a group.

Source: ClassicGroup.asListedGroup, GroupMetadataManager.describeGroups.
"""

from collections.abc import Collection

from tailrace.broker.coordinator.group import ClassicGroup, GroupState
from tailrace.broker.coordinator.kinds import Group
from tailrace.broker.coordinator.roster import Member
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tailrace.protocol.kafka.messages.list_groups import ListedGroup

GROUP_NOT_FOUND_SINCE = 6
"""DescribeGroups version that says so; earlier ones are shown a dead group."""


def matches(group: Group, states: Collection[str], kinds: Collection[str]) -> bool:
    """Return whether a group passes the filters of ListGroups; an empty filter lets all pass.

    Shape: filters in small letters.
    """
    in_state = not states or group.state_name.lower() in states
    return in_state and (not kinds or group.kind in kinds)


def listed(group: Group) -> ListedGroup:
    """Return the group's line in ListGroups."""
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state_name,
        group_type=group.kind.value,
    )


def described(group: ClassicGroup) -> DescribedGroup:
    """Return the group for DescribeGroups; what members support is only said of a stable group."""
    protocol = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[_described_member(member, protocol) for member in group.roster],
    )


def not_found(group_id: str, version: int, message: str) -> DescribedGroup:
    """Return the answer for a group that is not there, or not a classic one."""
    if version >= GROUP_NOT_FOUND_SINCE:
        return DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=message,
        )
    return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)


def _described_member(member: Member, protocol: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(protocol) if protocol is not None else b"",
        member_assignment=member.assignment,
    )
