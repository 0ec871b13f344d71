"""The table of APIs: key -> versions, flexible versions, request and response class.

What ApiVersions advertises is this table; what is decoded and encoded is this table too.
Source: Kafka 4.3.1 common/message/*.json; the choice of versions: reference/kafka.md 1.1, 1.2.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from tailrace.protocol.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from tailrace.protocol.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from tailrace.protocol.kafka.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from tailrace.protocol.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from tailrace.protocol.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.kafka.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tailrace.protocol.kafka.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from tailrace.protocol.kafka.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tailrace.protocol.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from tailrace.protocol.kafka.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tailrace.protocol.kafka.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from tailrace.protocol.kafka.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tailrace.protocol.kafka.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from tailrace.protocol.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tailrace.protocol.kafka.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tailrace.protocol.kafka.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from tailrace.protocol.kafka.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from tailrace.protocol.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from tailrace.protocol.kafka.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from tailrace.protocol.kafka.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tailrace.protocol.kafka.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from tailrace.protocol.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from tailrace.protocol.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from tailrace.protocol.kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from tailrace.protocol.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from tailrace.protocol.kafka.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from tailrace.protocol.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse
from tailrace.protocol.kafka.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from tailrace.protocol.kafka.messages.fetch import FetchRequest, FetchResponse
from tailrace.protocol.kafka.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tailrace.protocol.kafka.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tailrace.protocol.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tailrace.protocol.kafka.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tailrace.protocol.kafka.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from tailrace.protocol.kafka.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tailrace.protocol.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tailrace.protocol.kafka.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from tailrace.protocol.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from tailrace.protocol.kafka.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tailrace.protocol.kafka.messages.metadata import MetadataRequest, MetadataResponse
from tailrace.protocol.kafka.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tailrace.protocol.kafka.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from tailrace.protocol.kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from tailrace.protocol.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from tailrace.protocol.kafka.messages.produce import ProduceRequest, ProduceResponse
from tailrace.protocol.kafka.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tailrace.protocol.kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tailrace.protocol.kafka.messages.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tailrace.protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tailrace.protocol.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from tailrace.protocol.kafka.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tailrace.protocol.kafka.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NEVER: Final = 1 << 15
"""First flexible version of an API that has none."""

PRODUCE: Final = Api(
    0, "Produce", range(3, 14), 9, ProduceRequest, ProduceResponse, advertised_since=0
)
FETCH: Final = Api(1, "Fetch", range(4, 19), 12, FetchRequest, FetchResponse)
LIST_OFFSETS: Final = Api(
    2, "ListOffsets", range(1, 12), 6, ListOffsetsRequest, ListOffsetsResponse
)
METADATA: Final = Api(3, "Metadata", range(14), 9, MetadataRequest, MetadataResponse)
OFFSET_COMMIT: Final = Api(
    8, "OffsetCommit", range(2, 11), 8, OffsetCommitRequest, OffsetCommitResponse
)
OFFSET_FETCH: Final = Api(
    9, "OffsetFetch", range(1, 11), 6, OffsetFetchRequest, OffsetFetchResponse
)
FIND_COORDINATOR: Final = Api(
    10, "FindCoordinator", range(7), 3, FindCoordinatorRequest, FindCoordinatorResponse
)
JOIN_GROUP: Final = Api(11, "JoinGroup", range(10), 6, JoinGroupRequest, JoinGroupResponse)
HEARTBEAT: Final = Api(12, "Heartbeat", range(5), 4, HeartbeatRequest, HeartbeatResponse)
LEAVE_GROUP: Final = Api(13, "LeaveGroup", range(6), 4, LeaveGroupRequest, LeaveGroupResponse)
SYNC_GROUP: Final = Api(14, "SyncGroup", range(6), 4, SyncGroupRequest, SyncGroupResponse)
DESCRIBE_GROUPS: Final = Api(
    15, "DescribeGroups", range(7), 5, DescribeGroupsRequest, DescribeGroupsResponse
)
LIST_GROUPS: Final = Api(16, "ListGroups", range(6), 3, ListGroupsRequest, ListGroupsResponse)
SASL_HANDSHAKE: Final = Api(
    17, "SaslHandshake", range(2), NEVER, SaslHandshakeRequest, SaslHandshakeResponse
)
API_VERSIONS: Final = Api(18, "ApiVersions", range(5), 3, ApiVersionsRequest, ApiVersionsResponse)
CREATE_TOPICS: Final = Api(
    19, "CreateTopics", range(2, 8), 5, CreateTopicsRequest, CreateTopicsResponse
)
DELETE_TOPICS: Final = Api(
    20, "DeleteTopics", range(1, 7), 4, DeleteTopicsRequest, DeleteTopicsResponse
)
DELETE_RECORDS: Final = Api(
    21, "DeleteRecords", range(3), 2, DeleteRecordsRequest, DeleteRecordsResponse
)
INIT_PRODUCER_ID: Final = Api(
    22, "InitProducerId", range(6), 2, InitProducerIdRequest, InitProducerIdResponse
)
OFFSET_FOR_LEADER_EPOCH: Final = Api(
    23,
    "OffsetForLeaderEpoch",
    range(2, 5),
    4,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
DESCRIBE_CONFIGS: Final = Api(
    32, "DescribeConfigs", range(1, 5), 4, DescribeConfigsRequest, DescribeConfigsResponse
)
CREATE_PARTITIONS: Final = Api(
    37, "CreatePartitions", range(4), 2, CreatePartitionsRequest, CreatePartitionsResponse
)
INCREMENTAL_ALTER_CONFIGS: Final = Api(
    44,
    "IncrementalAlterConfigs",
    range(2),
    1,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
DESCRIBE_CLUSTER: Final = Api(
    60, "DescribeCluster", range(3), 0, DescribeClusterRequest, DescribeClusterResponse
)
DESCRIBE_TOPIC_PARTITIONS: Final = Api(
    75,
    "DescribeTopicPartitions",
    range(1),
    0,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
ADD_PARTITIONS_TO_TXN: Final = Api(
    24, "AddPartitionsToTxn", range(6), 3, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
)
ADD_OFFSETS_TO_TXN: Final = Api(
    25, "AddOffsetsToTxn", range(5), 3, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
)
END_TXN: Final = Api(26, "EndTxn", range(6), 3, EndTxnRequest, EndTxnResponse)
WRITE_TXN_MARKERS: Final = Api(
    27, "WriteTxnMarkers", range(1, 3), 1, WriteTxnMarkersRequest, WriteTxnMarkersResponse
)
TXN_OFFSET_COMMIT: Final = Api(
    28, "TxnOffsetCommit", range(6), 3, TxnOffsetCommitRequest, TxnOffsetCommitResponse
)
DESCRIBE_ACLS: Final = Api(
    29, "DescribeAcls", range(1, 4), 2, DescribeAclsRequest, DescribeAclsResponse
)
CREATE_ACLS: Final = Api(30, "CreateAcls", range(1, 4), 2, CreateAclsRequest, CreateAclsResponse)
DELETE_ACLS: Final = Api(31, "DeleteAcls", range(1, 4), 2, DeleteAclsRequest, DeleteAclsResponse)
ALTER_CONFIGS: Final = Api(
    33, "AlterConfigs", range(3), 2, AlterConfigsRequest, AlterConfigsResponse
)
DESCRIBE_LOG_DIRS: Final = Api(
    35, "DescribeLogDirs", range(1, 6), 2, DescribeLogDirsRequest, DescribeLogDirsResponse
)
SASL_AUTHENTICATE: Final = Api(
    36, "SaslAuthenticate", range(3), 2, SaslAuthenticateRequest, SaslAuthenticateResponse
)
DELETE_GROUPS: Final = Api(
    42, "DeleteGroups", range(3), 2, DeleteGroupsRequest, DeleteGroupsResponse
)
ELECT_LEADERS: Final = Api(
    43, "ElectLeaders", range(3), 2, ElectLeadersRequest, ElectLeadersResponse
)
ALTER_PARTITION_REASSIGNMENTS: Final = Api(
    45,
    "AlterPartitionReassignments",
    range(2),
    0,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
LIST_PARTITION_REASSIGNMENTS: Final = Api(
    46,
    "ListPartitionReassignments",
    range(1),
    0,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
OFFSET_DELETE: Final = Api(
    47, "OffsetDelete", range(1), NEVER, OffsetDeleteRequest, OffsetDeleteResponse
)
CREATE_DELEGATION_TOKEN: Final = Api(
    38,
    "CreateDelegationToken",
    range(1, 4),
    2,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
RENEW_DELEGATION_TOKEN: Final = Api(
    39,
    "RenewDelegationToken",
    range(1, 3),
    2,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
EXPIRE_DELEGATION_TOKEN: Final = Api(
    40,
    "ExpireDelegationToken",
    range(1, 3),
    2,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
DESCRIBE_DELEGATION_TOKEN: Final = Api(
    41,
    "DescribeDelegationToken",
    range(1, 4),
    2,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
DESCRIBE_CLIENT_QUOTAS: Final = Api(
    48,
    "DescribeClientQuotas",
    range(2),
    1,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
ALTER_CLIENT_QUOTAS: Final = Api(
    49, "AlterClientQuotas", range(2), 1, AlterClientQuotasRequest, AlterClientQuotasResponse
)
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = Api(
    50,
    "DescribeUserScramCredentials",
    range(1),
    0,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
ALTER_USER_SCRAM_CREDENTIALS: Final = Api(
    51,
    "AlterUserScramCredentials",
    range(1),
    0,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
UPDATE_FEATURES: Final = Api(
    57, "UpdateFeatures", range(3), 0, UpdateFeaturesRequest, UpdateFeaturesResponse
)
DESCRIBE_PRODUCERS: Final = Api(
    61, "DescribeProducers", range(1), 0, DescribeProducersRequest, DescribeProducersResponse
)
DESCRIBE_TRANSACTIONS: Final = Api(
    65,
    "DescribeTransactions",
    range(1),
    0,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
LIST_TRANSACTIONS: Final = Api(
    66, "ListTransactions", range(3), 0, ListTransactionsRequest, ListTransactionsResponse
)
CONSUMER_GROUP_HEARTBEAT: Final = Api(
    68,
    "ConsumerGroupHeartbeat",
    range(2),
    0,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
CONSUMER_GROUP_DESCRIBE: Final = Api(
    69,
    "ConsumerGroupDescribe",
    range(2),
    0,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
LIST_CONFIG_RESOURCES: Final = Api(
    74, "ListConfigResources", range(2), 0, ListConfigResourcesRequest, ListConfigResourcesResponse
)

APIS: Final[Mapping[int, Api[Any, Any]]] = MappingProxyType(
    {api.key: api for api in tuple(globals().values()) if isinstance(api, Api)}
)
