"""What the `group` commands ask of a cluster. Source: Kafka's ConsumerGroupCommand and Admin."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Self

from tailrace.protocol.errors import DecodeError, ErrorCode
from tailrace.protocol.ids import Offset, TopicPartition
from tailrace.protocol.kafka.apis import (
    CONSUMER_GROUP_DESCRIBE,
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
)
from tailrace.protocol.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from tailrace.protocol.kafka.messages.consumer_protocol import decode_assignment
from tailrace.protocol.kafka.messages.delete_groups import DeleteGroupsRequest
from tailrace.protocol.kafka.messages.describe_groups import DescribeGroupsRequest
from tailrace.protocol.kafka.messages.list_groups import ListGroupsRequest
from tailrace.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tailrace.protocol.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tailrace.tools.clients.librdkafka import Target
from tailrace.tools.clients.own_requests import Brokers, Connection, check
from tailrace.tools.errors import CliError
from tailrace.tools.groups.partition_offsets import PartitionOffsets, by_topic

GROUP: Final = 0
"""Key type of FindCoordinator."""
NAMES_VERSION_MAX: Final = 9
"""OffsetCommit and OffsetFetch call topics by name up to here."""
_LIST: Final = "`tailrace group list` shows those that are there"
_STOP: Final = "stop its members first"

Row = dict[str, Any]


class GroupsAdmin:
    """Groups of one cluster. Errors: CliError from every method."""

    def __init__(self, to: Target) -> None:
        self._brokers = Brokers(to)
        self.offsets = PartitionOffsets(self._brokers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *what: object) -> None:
        self._brokers.__exit__(*what)

    def list_all(self, states: Sequence[str]) -> list[Row]:
        """Return the groups of all coordinators, by name; none filtered without `states`."""
        rows = []
        for node_id, connection in self._brokers.all():
            found = connection.ask(LIST_GROUPS, ListGroupsRequest(states_filter=states))
            check(found.error_code, f"list groups of broker {node_id}")
            rows += [
                {
                    "group": each.group_id,
                    "type": each.group_type or None,
                    "state": each.group_state,
                    "protocol": each.protocol_type or None,
                    "coordinator": node_id,
                }
                for each in found.groups
            ]
        return sorted(rows, key=lambda row: str(row["group"]))

    def describe(self, group: str) -> Row:
        """Return a group's state and members, and where it is in each partition."""
        described = self._state(group)
        if described is None:
            raise CliError(f"there is no group {group}", remedy=_LIST)
        described["offsets"] = self._progress(group, described["members"])
        for member in described["members"]:
            member["partitions"] = [str(at) for at in member["partitions"]]
        return described

    def check_idle(self, group: str, *, may_be_new: bool) -> None:
        """Refuse a group with members, and one that is not there unless it may be new."""
        described = self._state(group)
        if described is None:
            if not may_be_new:
                remedy = f"{_LIST}; --create makes it"
                raise CliError(f"there is no group {group}", remedy=remedy)
            return
        if described["members"]:
            count = len(described["members"])
            raise CliError(
                f"group {group} has {count} members ({described['state']})", remedy=_STOP
            )

    def committed(self, group: str) -> dict[TopicPartition, Offset]:
        """Return where a group is; nothing of a group that is not there."""
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], topics=None
        )
        found = self._coordinator(group).ask(OFFSET_FETCH, request, NAMES_VERSION_MAX).groups
        if not found:
            raise CliError("the broker does not say where groups are in OffsetFetch 8 or later")
        check(found[0].error_code, f"offsets of group {group}")
        return {
            TopicPartition(topic.name, each.partition_index): each.committed_offset
            for topic in found[0].topics
            for each in topic.partitions
        }

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, Offset]
    ) -> dict[TopicPartition, int]:
        """Let a group without members go on at other offsets.

        Return the partitions that were refused, with their error codes; the others have moved.
        """
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=at.partition,
                        committed_offset=offsets[at],
                        committed_metadata="",
                    )
                    for at in mine
                ],
            )
            for topic, mine in by_topic(offsets).items()
        ]
        request = OffsetCommitRequest(group_id=group, member_id="", topics=topics)
        found = self._coordinator(group).ask(OFFSET_COMMIT, request, NAMES_VERSION_MAX)
        return {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for topic in found.topics
            for each in topic.partitions
            if each.error_code
        }

    def delete(self, group: str) -> None:
        """Delete a group with its offsets."""
        request = DeleteGroupsRequest(groups_names=[group])
        code = self._coordinator(group).ask(DELETE_GROUPS, request).results[0].error_code
        check(code, f"delete group {group}", _REMEDIES.get(code, ""))

    def forget(self, group: str, partitions: Collection[TopicPartition]) -> None:
        """Delete what a group committed of partitions."""
        topics = [
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=at.partition) for at in mine
                ],
            )
            for topic, mine in by_topic(partitions).items()
        ]
        request = OffsetDeleteRequest(group_id=group, topics=topics)
        found = self._coordinator(group).ask(OFFSET_DELETE, request)
        code = found.error_code
        check(code, f"delete offsets of group {group}", _REMEDIES.get(code, ""))
        for topic in found.topics:
            for each in topic.partitions:
                at = TopicPartition(topic.name, each.partition_index)
                check(each.error_code, f"delete offset of {at} in group {group}", _STOP)

    # ------------------------------------------------------------------ one group

    def _coordinator(self, group: str) -> Connection:
        return self._brokers.to(self._brokers.coordinator(group, GROUP))

    def _state(self, group: str) -> Row | None:
        """Return a group without its offsets; None if it is not there."""
        node_id = self._brokers.coordinator(group, GROUP)
        described = self._consumer_group(group, node_id) or self._classic_group(group, node_id)
        return described and {"group": group, "coordinator": node_id, **described}

    def _consumer_group(self, group: str, node_id: int) -> Row | None:
        coordinator = self._brokers.to(node_id)
        if not coordinator.serves(CONSUMER_GROUP_DESCRIBE):
            return None  # an older broker, which has classic ones only
        request = ConsumerGroupDescribeRequest(group_ids=[group])
        found = coordinator.ask(CONSUMER_GROUP_DESCRIBE, request).groups[0]
        if found.error_code in _NO_CONSUMER_GROUP:
            return None
        check(found.error_code, f"describe group {group}")
        return {
            "type": "consumer",
            "state": found.group_state,
            "assignor": found.assignor_name,
            "epoch": found.group_epoch,
            "members": [
                _member(
                    each.member_id,
                    each.instance_id,
                    each.client_id,
                    each.client_host,
                    [
                        TopicPartition(topic.topic_name, partition)
                        for topic in each.assignment.topic_partitions
                        for partition in topic.partitions
                    ],
                )
                for each in found.members
            ],
        }

    def _classic_group(self, group: str, node_id: int) -> Row | None:
        request = DescribeGroupsRequest(groups=[group])
        found = self._brokers.to(node_id).ask(DESCRIBE_GROUPS, request).groups[0]
        if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND or found.group_state == "Dead":
            return None
        check(found.error_code, f"describe group {group}")
        return {
            "type": "classic",
            "state": found.group_state,
            "assignor": found.protocol_data,
            "epoch": None,
            "members": [
                _member(
                    each.member_id,
                    each.group_instance_id,
                    each.client_id,
                    each.client_host,
                    _assigned(each.member_assignment),
                )
                for each in found.members
            ],
        }

    def _progress(self, group: str, members: Sequence[Row]) -> list[Row]:
        """Return a row for each partition that the group committed or reads."""
        committed = self.committed(group)
        readers = {at: each for each in members for at in each["partitions"]}
        partitions = sorted(committed.keys() | readers.keys())
        ranges = self.offsets.known_ranges(partitions)
        return [
            {
                "topic": at.topic,
                "partition": at.partition,
                "committed": committed.get(at),
                "start": ranges[at].start if at in ranges else None,
                "end": ranges[at].end if at in ranges else None,
                "lag": max(ranges[at].end - committed[at], 0)
                if at in ranges and at in committed
                else None,
                "member": readers[at]["member"] if at in readers else None,
                "client": readers[at]["client"] if at in readers else None,
            }
            for at in partitions
        ]


_NO_CONSUMER_GROUP: Final = (
    ErrorCode.GROUP_ID_NOT_FOUND,  # or it is a classic one
    ErrorCode.UNSUPPORTED_VERSION,  # Kafka 3.8 and 3.9 with the old coordinator
)
_REMEDIES: Final = {
    int(ErrorCode.GROUP_ID_NOT_FOUND): _LIST,
    int(ErrorCode.NON_EMPTY_GROUP): _STOP,
}


def _member(
    member_id: str,
    instance_id: str | None,
    client_id: str,
    host: str,
    partitions: Iterable[TopicPartition],
) -> Row:
    return {
        "member": member_id,
        "instance": instance_id,
        "client": client_id,
        "host": host,
        "partitions": sorted(partitions),
    }


def _assigned(data: bytes) -> list[TopicPartition]:
    """Return the partitions of a classic member; none of another kind than consumers'."""
    try:
        assigned = decode_assignment(data).assigned_partitions if data else ()
    except DecodeError:
        return []  # Connect and others keep what they like there
    return [TopicPartition(each.topic, p) for each in assigned for p in each.partitions]
