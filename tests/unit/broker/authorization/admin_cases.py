"""Administration requests that need something, as `cases.py` has the others."""

from collections.abc import Callable, Sequence
from typing import Any

from tailrace.core.access.acls.model import Operation as Op
from tailrace.core.access.acls.model import ResourceType as Of
from tailrace.protocol.kafka import apis
from tailrace.protocol.kafka.messages import (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    describe_user_scram_credentials,
    elect_leaders,
    incremental_alter_configs,
    list_config_resources,
    update_features,
)
from tests.unit.broker.authorization.cases import (
    C31,
    G30,
    T29,
    Case,
    cluster,
    group,
    topic,
)
from tests.unit.broker.authorization.requests import GROUP, TOPIC
from tests.unit.broker.authorization.support import Grant

RESOURCES: Sequence[tuple[int, str, Callable[[Op], Grant], Any]] = (
    (2, TOPIC, topic, T29),
    (4, "1", cluster, C31),
    (8, "1", cluster, C31),
    (16, "metrics", cluster, C31),
    (32, GROUP, group, G30),
)
"""Kinds of resources with configs: code, name, what is needed, what is said without."""


def created(name: str = "new") -> create_topics.CreateTopicsRequest:
    asked = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return create_topics.CreateTopicsRequest(topics=[asked], validate_only=True)


def reassigned() -> alter_partition_reassignments.AlterPartitionReassignmentsRequest:
    of = alter_partition_reassignments
    asked = of.ReassignableTopic(
        name=TOPIC, partitions=[of.ReassignablePartition(partition_index=0, replicas=[1])]
    )
    return of.AlterPartitionReassignmentsRequest(topics=[asked])


def described(kind: int, name: str) -> describe_configs.DescribeConfigsRequest:
    of = describe_configs
    asked = of.DescribeConfigsResource(resource_type=kind, resource_name=name)
    return of.DescribeConfigsRequest(resources=[asked])


def altered(kind: int, name: str) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    of = incremental_alter_configs
    asked = of.AlterConfigsResource(resource_type=kind, resource_name=name)
    return of.IncrementalAlterConfigsRequest(resources=[asked], validate_only=True)


def replaced(kind: int, name: str) -> alter_configs.AlterConfigsRequest:
    of = alter_configs
    asked = of.AlterConfigsResource(resource_type=kind, resource_name=name)
    return of.AlterConfigsRequest(resources=[asked], validate_only=True)


ADMIN_CASES = [
    Case(
        apis.CREATE_TOPICS,
        6,
        created,
        {topic(Op.DESCRIBE_CONFIGS, "new"): T29, topic(Op.CREATE, "new"): T29},
        (cluster(Op.CREATE),),
    ),
    Case(
        apis.DELETE_TOPICS,
        5,
        lambda: delete_topics.DeleteTopicsRequest(topic_names=["gone"]),
        {topic(Op.DESCRIBE, "gone"): T29},
        (cluster(Op.DELETE),),
    ),
    Case(
        apis.CREATE_PARTITIONS,
        3,
        lambda: create_partitions.CreatePartitionsRequest(
            topics=[create_partitions.CreatePartitionsTopic(name=TOPIC, count=5)],
            validate_only=True,
        ),
        {topic(Op.ALTER): T29},
    ),
    *(
        Case(api, 1, lambda ask=ask, kind=kind, name=name: ask(kind, name), {need(operation): code})
        for api, operation, ask in (
            (apis.DESCRIBE_CONFIGS, Op.DESCRIBE_CONFIGS, described),
            (apis.INCREMENTAL_ALTER_CONFIGS, Op.ALTER_CONFIGS, altered),
            (apis.ALTER_CONFIGS, Op.ALTER_CONFIGS, replaced),
        )
        for kind, name, need, code in RESOURCES
    ),
    Case(
        apis.ELECT_LEADERS,
        2,
        lambda: elect_leaders.ElectLeadersRequest(
            topic_partitions=[elect_leaders.TopicPartitions(topic=TOPIC, partitions=[0])]
        ),
        {cluster(Op.ALTER): C31},
    ),
    Case(apis.ALTER_PARTITION_REASSIGNMENTS, 1, reassigned, {cluster(Op.ALTER): C31}),
    Case(
        apis.LIST_CONFIG_RESOURCES,
        1,
        list_config_resources.ListConfigResourcesRequest,
        {cluster(Op.DESCRIBE_CONFIGS): C31},
    ),
    Case(
        apis.UPDATE_FEATURES,
        2,
        update_features.UpdateFeaturesRequest,
        {cluster(Op.ALTER): C31},
    ),
    Case(
        apis.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        lambda: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None),
        {cluster(Op.DESCRIBE): C31},
    ),
    Case(  # the last: the topic is gone then
        apis.DELETE_TOPICS,
        5,
        lambda: delete_topics.DeleteTopicsRequest(topic_names=[TOPIC]),
        {topic(Op.DESCRIBE): T29, topic(Op.DELETE): T29},
        (cluster(Op.DELETE),),
    ),
]

SEES: Grant = (Op.DESCRIBE, Of.TOPIC, TOPIC)
