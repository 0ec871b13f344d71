"""What each API needs: one row for each operation on a type of resource that it may ask for. Pure.

Handlers ask through `RequestContext` before they look anything up. So a client that may not know of
a resource gets one answer, whether the resource exists or not. A test compares what handlers ask
for with this table, and an API without a row does not start.
Source: KafkaApis, ControllerApis, AclApis of Kafka 4.3.1; reference Kafka 10.3.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from tailrace.core.access.acls.model import Operation as Op
from tailrace.core.access.acls.model import ResourceType as Of
from tailrace.protocol.errors import ErrorCode

DENIED: Final[Mapping[Of, ErrorCode]] = MappingProxyType(
    {
        Of.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        Of.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
        Of.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        Of.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Of.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        Of.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
"""What a client hears that may not do something, by the type of what it asked for."""
WHY: Final[Mapping[ErrorCode, str]] = MappingProxyType(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
        ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
    }
)
"""The same in Kafka's words, where an answer has room for them."""


class Without(StrEnum):
    """What becomes of a request whose client may not do that."""

    REFUSED = "the request is refused"
    EACH = "what is named is refused, the rest is done"
    LEFT_OUT = "the answer leaves it out"
    NEXT = "the next row decides"


class Need(NamedTuple):
    """One row: an operation on a type of resource, and what is done without it."""

    operation: Op
    resource_type: Of
    without: Without


def _needs(*rows: tuple[Op, Of, Without]) -> tuple[Need, ...]:
    return tuple(Need(*row) for row in rows)


_REFUSED, _EACH, _LEFT_OUT, _NEXT = Without.REFUSED, Without.EACH, Without.LEFT_OUT, Without.NEXT
_MEMBER: Final = _needs((Op.READ, Of.GROUP, _REFUSED))
_IN_TRANSACTION = (Op.WRITE, Of.TRANSACTIONAL_ID, _REFUSED)
_ALTER_CLUSTER: Final = _needs((Op.ALTER, Of.CLUSTER, _REFUSED))
_DESCRIBE_CLUSTER: Final = _needs((Op.DESCRIBE, Of.CLUSTER, _REFUSED))
_ALTER_CONFIGS: Final = _needs(
    (Op.ALTER_CONFIGS, Of.TOPIC, _EACH),
    (Op.ALTER_CONFIGS, Of.CLUSTER, _EACH),
    (Op.ALTER_CONFIGS, Of.GROUP, _EACH),
)

REQUIRED: Final[Mapping[str, tuple[Need, ...]]] = MappingProxyType(
    {
        "Produce": _needs(
            _IN_TRANSACTION, (Op.WRITE, Of.TOPIC, _EACH), (Op.CLUSTER_ACTION, Of.CLUSTER, _EACH)
        ),
        "Fetch": _needs((Op.READ, Of.TOPIC, _EACH), (Op.CLUSTER_ACTION, Of.CLUSTER, _EACH)),
        "ListOffsets": _needs((Op.DESCRIBE, Of.TOPIC, _EACH)),
        "Metadata": _needs(
            (Op.DESCRIBE, Of.TOPIC, _EACH),
            (Op.CREATE, Of.CLUSTER, _NEXT),
            (Op.CREATE, Of.TOPIC, _EACH),
            (Op.DESCRIBE, Of.CLUSTER, _LEFT_OUT),
        ),
        "OffsetCommit": _needs((Op.READ, Of.GROUP, _REFUSED), (Op.READ, Of.TOPIC, _EACH)),
        "OffsetFetch": _needs((Op.DESCRIBE, Of.GROUP, _EACH), (Op.DESCRIBE, Of.TOPIC, _EACH)),
        "FindCoordinator": _needs(
            (Op.DESCRIBE, Of.GROUP, _EACH), (Op.DESCRIBE, Of.TRANSACTIONAL_ID, _EACH)
        ),
        "JoinGroup": _MEMBER,
        "Heartbeat": _MEMBER,
        "LeaveGroup": _MEMBER,
        "SyncGroup": _MEMBER,
        "DescribeGroups": _needs((Op.DESCRIBE, Of.GROUP, _EACH)),
        "ListGroups": _needs((Op.DESCRIBE, Of.CLUSTER, _NEXT), (Op.DESCRIBE, Of.GROUP, _LEFT_OUT)),
        "SaslHandshake": (),
        "ApiVersions": (),
        "CreateTopics": _needs(
            (Op.CREATE, Of.CLUSTER, _NEXT),
            (Op.CREATE, Of.TOPIC, _EACH),
            (Op.DESCRIBE_CONFIGS, Of.TOPIC, _LEFT_OUT),
        ),
        "DeleteTopics": _needs(
            (Op.DELETE, Of.CLUSTER, _NEXT),
            (Op.DESCRIBE, Of.TOPIC, _LEFT_OUT),
            (Op.DELETE, Of.TOPIC, _EACH),
        ),
        "DeleteRecords": _needs((Op.DELETE, Of.TOPIC, _EACH)),
        "InitProducerId": _needs(
            _IN_TRANSACTION,
            (Op.IDEMPOTENT_WRITE, Of.CLUSTER, _NEXT),
            (Op.WRITE, Of.TOPIC, _REFUSED),
        ),
        "OffsetForLeaderEpoch": _needs(
            (Op.CLUSTER_ACTION, Of.CLUSTER, _NEXT), (Op.DESCRIBE, Of.TOPIC, _EACH)
        ),
        "AddPartitionsToTxn": _needs(
            (Op.CLUSTER_ACTION, Of.CLUSTER, _REFUSED),
            _IN_TRANSACTION,
            (Op.WRITE, Of.TOPIC, _EACH),
        ),
        "AddOffsetsToTxn": _needs(_IN_TRANSACTION, (Op.READ, Of.GROUP, _REFUSED)),
        "EndTxn": _needs(_IN_TRANSACTION),
        "WriteTxnMarkers": _needs(
            (Op.ALTER, Of.CLUSTER, _NEXT), (Op.CLUSTER_ACTION, Of.CLUSTER, _REFUSED)
        ),
        "TxnOffsetCommit": _needs(
            _IN_TRANSACTION, (Op.READ, Of.GROUP, _REFUSED), (Op.READ, Of.TOPIC, _EACH)
        ),
        "DescribeAcls": _DESCRIBE_CLUSTER,
        "CreateAcls": _ALTER_CLUSTER,
        "DeleteAcls": _ALTER_CLUSTER,
        "DescribeConfigs": _needs(
            (Op.DESCRIBE_CONFIGS, Of.TOPIC, _EACH),
            (Op.DESCRIBE_CONFIGS, Of.CLUSTER, _EACH),
            (Op.DESCRIBE_CONFIGS, Of.GROUP, _EACH),
        ),
        "AlterConfigs": _ALTER_CONFIGS,
        "DescribeLogDirs": _DESCRIBE_CLUSTER,
        "SaslAuthenticate": (),
        "CreatePartitions": _needs((Op.ALTER, Of.TOPIC, _EACH)),
        "CreateDelegationToken": _needs((Op.CREATE_TOKENS, Of.USER, _REFUSED)),
        "RenewDelegationToken": (),
        "ExpireDelegationToken": (),
        "DescribeDelegationToken": _needs(
            (Op.DESCRIBE, Of.DELEGATION_TOKEN, _NEXT), (Op.DESCRIBE_TOKENS, Of.USER, _LEFT_OUT)
        ),
        "DeleteGroups": _needs((Op.DELETE, Of.GROUP, _EACH)),
        "ElectLeaders": _ALTER_CLUSTER,
        "IncrementalAlterConfigs": _ALTER_CONFIGS,
        "AlterPartitionReassignments": _ALTER_CLUSTER,
        "ListPartitionReassignments": _DESCRIBE_CLUSTER,
        "OffsetDelete": _needs((Op.DELETE, Of.GROUP, _REFUSED), (Op.READ, Of.TOPIC, _EACH)),
        "DescribeClientQuotas": _needs((Op.DESCRIBE_CONFIGS, Of.CLUSTER, _REFUSED)),
        "AlterClientQuotas": _needs((Op.ALTER_CONFIGS, Of.CLUSTER, _REFUSED)),
        "DescribeUserScramCredentials": _DESCRIBE_CLUSTER,
        "AlterUserScramCredentials": _ALTER_CLUSTER,
        "UpdateFeatures": _ALTER_CLUSTER,
        "DescribeCluster": _needs((Op.DESCRIBE, Of.CLUSTER, _LEFT_OUT)),
        "DescribeProducers": _needs((Op.READ, Of.TOPIC, _EACH)),
        "DescribeTransactions": _needs(
            (Op.DESCRIBE, Of.TRANSACTIONAL_ID, _EACH), (Op.DESCRIBE, Of.TOPIC, _LEFT_OUT)
        ),
        "ListTransactions": _needs((Op.DESCRIBE, Of.TRANSACTIONAL_ID, _LEFT_OUT)),
        "ConsumerGroupHeartbeat": _needs(
            (Op.READ, Of.GROUP, _REFUSED), (Op.DESCRIBE, Of.TOPIC, _REFUSED)
        ),
        "ConsumerGroupDescribe": _needs(
            (Op.DESCRIBE, Of.GROUP, _EACH), (Op.DESCRIBE, Of.TOPIC, _EACH)
        ),
        "ListConfigResources": _needs((Op.DESCRIBE_CONFIGS, Of.CLUSTER, _REFUSED)),
        "DescribeTopicPartitions": _needs((Op.DESCRIBE, Of.TOPIC, _EACH)),
    }
)
"""By the name of an API. None asks for nothing that is not here; authorized-operations fields ask
for everything of their resource."""
