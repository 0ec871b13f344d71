"""Requests that need something: what they need, and what they hear without it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tailrace.core.access.acls.model import CLUSTER_NAME
from tailrace.core.access.acls.model import Operation as Op
from tailrace.core.access.acls.model import ResourceType as Of
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.kafka import apis
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.messages import (
    add_offsets_to_txn,
    consumer_group_describe,
    create_acls,
    delete_acls,
    delete_groups,
    describe_acls,
    describe_client_quotas,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    end_txn,
    find_coordinator,
    heartbeat,
    init_producer_id,
    leave_group,
    list_partition_reassignments,
    sync_group,
)
from tests.unit.broker.authorization.requests import (
    GROUP,
    ID,
    TOPIC,
    added,
    altered_quotas,
    altered_users,
    beating,
    committed,
    committed_in_transaction,
    deleted_offsets,
    deleted_records,
    ends,
    fetched,
    joining,
    listed,
    markers,
    of_metadata,
    offsets_of,
    produced,
)
from tests.unit.broker.authorization.support import Grant

CLUSTER = CLUSTER_NAME
T29, G30, C31, X53 = (
    E.TOPIC_AUTHORIZATION_FAILED,
    E.GROUP_AUTHORIZATION_FAILED,
    E.CLUSTER_AUTHORIZATION_FAILED,
    E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


class Case(NamedTuple):
    """One request."""

    api: Api[Any, Any]
    version: int
    request: Callable[[], Any]
    needs: dict[Grant, E]
    """All of it, and the code without each."""
    instead: tuple[Grant, ...] = ()
    """Each of these does as well, in the place of the last need."""


def topic(operation: Op, name: str = TOPIC) -> Grant:
    return (operation, Of.TOPIC, name)


def group(operation: Op) -> Grant:
    return (operation, Of.GROUP, GROUP)


def cluster(operation: Op) -> Grant:
    return (operation, Of.CLUSTER, CLUSTER)


def txn(operation: Op) -> Grant:
    return (operation, Of.TRANSACTIONAL_ID, ID)


CASES = [
    Case(apis.PRODUCE, 9, produced, {topic(Op.WRITE): T29}),
    Case(
        apis.PRODUCE,
        9,
        lambda: produced(transactional=True),
        {topic(Op.WRITE): T29, txn(Op.WRITE): X53},
    ),
    Case(apis.FETCH, 11, fetched, {topic(Op.READ): T29}),
    Case(apis.FETCH, 11, lambda: fetched(2), {cluster(Op.CLUSTER_ACTION): T29}),
    Case(apis.LIST_OFFSETS, 7, listed, {topic(Op.DESCRIBE): T29}),
    Case(apis.METADATA, 12, of_metadata, {topic(Op.DESCRIBE): T29}),
    Case(
        apis.METADATA,
        9,
        lambda: of_metadata("new"),
        {topic(Op.DESCRIBE, "new"): T29, topic(Op.CREATE, "new"): T29},
        (cluster(Op.CREATE),),
    ),
    Case(apis.OFFSET_COMMIT, 8, committed, {group(Op.READ): G30, topic(Op.READ): T29}),
    *(
        Case(
            apis.OFFSET_FETCH,
            version,
            lambda version=version: offsets_of(version),
            {group(Op.DESCRIBE): G30, topic(Op.DESCRIBE): T29},
        )
        for version in (1, 7, 9)
    ),
    *(
        Case(
            apis.FIND_COORDINATOR,
            version,
            lambda kind=kind, key=key: find_coordinator.FindCoordinatorRequest(
                key=key, key_type=kind, coordinator_keys=[key]
            ),
            {need: code},
        )
        for version in (3, 6)
        for kind, key, need, code in (
            (0, GROUP, group(Op.DESCRIBE), G30),
            (1, ID, txn(Op.DESCRIBE), X53),
        )
    ),
    Case(apis.JOIN_GROUP, 5, joining, {group(Op.READ): G30}),
    Case(
        apis.HEARTBEAT,
        3,
        lambda: heartbeat.HeartbeatRequest(group_id=GROUP, member_id="m"),
        {group(Op.READ): G30},
    ),
    Case(
        apis.LEAVE_GROUP,
        2,
        lambda: leave_group.LeaveGroupRequest(group_id=GROUP, member_id="m"),
        {group(Op.READ): G30},
    ),
    Case(
        apis.SYNC_GROUP,
        4,
        lambda: sync_group.SyncGroupRequest(group_id=GROUP, member_id="m"),
        {group(Op.READ): G30},
    ),
    Case(
        apis.DESCRIBE_GROUPS,
        5,
        lambda: describe_groups.DescribeGroupsRequest(groups=[GROUP]),
        {group(Op.DESCRIBE): G30},
    ),
    Case(apis.DELETE_RECORDS, 2, deleted_records, {topic(Op.DELETE): T29}),
    Case(
        apis.INIT_PRODUCER_ID,
        4,
        lambda: init_producer_id.InitProducerIdRequest(transactional_id=ID),
        {txn(Op.WRITE): X53},
    ),
    Case(
        apis.INIT_PRODUCER_ID,
        4,
        lambda: init_producer_id.InitProducerIdRequest(transactional_id=None),
        {topic(Op.WRITE, "any"): C31},
        (cluster(Op.IDEMPOTENT_WRITE),),
    ),
    Case(
        apis.OFFSET_FOR_LEADER_EPOCH,
        4,
        ends,
        {topic(Op.DESCRIBE): T29},
        (cluster(Op.CLUSTER_ACTION),),
    ),
    Case(
        apis.ADD_PARTITIONS_TO_TXN,
        3,
        lambda: added(3),
        {txn(Op.WRITE): X53, topic(Op.WRITE): T29},
    ),
    Case(apis.ADD_PARTITIONS_TO_TXN, 5, lambda: added(5), {cluster(Op.CLUSTER_ACTION): C31}),
    Case(
        apis.ADD_OFFSETS_TO_TXN,
        3,
        lambda: add_offsets_to_txn.AddOffsetsToTxnRequest(transactional_id=ID, group_id=GROUP),
        {txn(Op.WRITE): X53, group(Op.READ): G30},
    ),
    Case(
        apis.END_TXN,
        4,
        lambda: end_txn.EndTxnRequest(transactional_id=ID, producer_id=1),
        {txn(Op.WRITE): X53},
    ),
    Case(
        apis.WRITE_TXN_MARKERS,
        1,
        markers,
        {cluster(Op.CLUSTER_ACTION): C31},
        (cluster(Op.ALTER),),
    ),
    Case(
        apis.TXN_OFFSET_COMMIT,
        3,
        committed_in_transaction,
        {txn(Op.WRITE): X53, group(Op.READ): G30, topic(Op.READ): T29},
    ),
    Case(
        apis.DESCRIBE_LOG_DIRS,
        4,
        lambda: describe_log_dirs.DescribeLogDirsRequest(topics=None),
        {cluster(Op.DESCRIBE): C31},
    ),
    Case(
        apis.DELETE_GROUPS,
        2,
        lambda: delete_groups.DeleteGroupsRequest(groups_names=[GROUP]),
        {group(Op.DELETE): G30},
    ),
    Case(apis.OFFSET_DELETE, 0, deleted_offsets, {group(Op.DELETE): G30, topic(Op.READ): T29}),
    Case(
        apis.DESCRIBE_CLIENT_QUOTAS,
        1,
        lambda: describe_client_quotas.DescribeClientQuotasRequest(components=[]),
        {cluster(Op.DESCRIBE_CONFIGS): C31},
    ),
    Case(
        apis.DESCRIBE_ACLS,
        3,
        lambda: describe_acls.DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1),
        {cluster(Op.DESCRIBE): C31},
    ),
    Case(
        apis.CREATE_ACLS,
        3,
        lambda: create_acls.CreateAclsRequest(
            creations=[create_acls.AclCreation(resource_name=TOPIC)]
        ),
        {cluster(Op.ALTER): C31},
    ),
    Case(
        apis.DELETE_ACLS,
        3,
        lambda: delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter()]),
        {cluster(Op.ALTER): C31},
    ),
    Case(apis.ALTER_USER_SCRAM_CREDENTIALS, 0, altered_users, {cluster(Op.ALTER): C31}),
    Case(apis.ALTER_CLIENT_QUOTAS, 1, altered_quotas, {cluster(Op.ALTER_CONFIGS): C31}),
    Case(
        apis.LIST_PARTITION_REASSIGNMENTS,
        0,
        lambda: list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None),
        {cluster(Op.DESCRIBE): C31},
    ),
    Case(
        apis.DESCRIBE_PRODUCERS,
        0,
        lambda: describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name=TOPIC, partition_indexes=[0])]
        ),
        {topic(Op.READ): T29},
    ),
    Case(
        apis.DESCRIBE_TRANSACTIONS,
        0,
        lambda: describe_transactions.DescribeTransactionsRequest(transactional_ids=[ID]),
        {txn(Op.DESCRIBE): X53},
    ),
    Case(
        apis.CONSUMER_GROUP_HEARTBEAT,
        1,
        beating,
        {group(Op.READ): G30, topic(Op.DESCRIBE): T29},
    ),
    Case(
        apis.CONSUMER_GROUP_DESCRIBE,
        1,
        lambda: consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[GROUP]),
        {group(Op.DESCRIBE): G30},
    ),
    Case(
        apis.DESCRIBE_TOPIC_PARTITIONS,
        0,
        lambda: describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name=TOPIC)]
        ),
        {topic(Op.DESCRIBE): T29},
    ),
]
