"""The table of APIs: key -> versions, flexible versions, request and response class.

What ApiVersions advertises is this table; what is decoded and encoded is this table too.
Source: Kafka 4.3.1 common/message/*.json; the choice of versions: reference/kafka.md 1.1, 1.2.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from protocol.errors import UnsupportedVersion
from protocol.ids import Buffer
from protocol.kafka import hot_fetch, hot_produce, wire
from protocol.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from protocol.kafka.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from protocol.kafka.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from protocol.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.kafka.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from protocol.kafka.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from protocol.kafka.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from protocol.kafka.messages.fetch import FetchRequest, FetchResponse
from protocol.kafka.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.kafka.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.kafka.messages.join_group import JoinGroupRequest, JoinGroupResponse
from protocol.kafka.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from protocol.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.kafka.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from protocol.kafka.messages.metadata import MetadataRequest, MetadataResponse
from protocol.kafka.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from protocol.kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from protocol.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from protocol.kafka.messages.produce import ProduceRequest, ProduceResponse
from protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse

Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass(frozen=True, slots=True)
class Api(Generic[Request, Response]):
    """One Kafka API. `versions` are the ones that decode and encode."""

    key: int
    name: str
    versions: range
    flexible_since: int
    request: type[Request]
    response: type[Response]
    advertised_since: int | None = None  # when ApiVersions shows more than is spoken

    @property
    def advertised(self) -> range:
        """The versions that ApiVersions shows: Produce from 0, as Kafka 4 does (KAFKA-18659)."""
        first = self.versions.start if self.advertised_since is None else self.advertised_since
        return range(first, self.versions.stop)

    def flexible(self, version: int) -> bool:
        """Say whether `version` has compact lengths and tagged fields."""
        return version >= self.flexible_since

    def check(self, version: int) -> None:
        """Refuse a version that is not spoken. Errors: UnsupportedVersion."""
        if version not in self.versions:
            raise UnsupportedVersion(f"{self.name} v{version}")


PRODUCE: Final = Api(
    0, "Produce", range(3, 12), 9, ProduceRequest, ProduceResponse, advertised_since=0
)
FETCH: Final = Api(1, "Fetch", range(4, 18), 12, FetchRequest, FetchResponse)
LIST_OFFSETS: Final = Api(
    2, "ListOffsets", range(1, 11), 6, ListOffsetsRequest, ListOffsetsResponse
)
METADATA: Final = Api(3, "Metadata", range(14), 9, MetadataRequest, MetadataResponse)
OFFSET_COMMIT: Final = Api(
    8, "OffsetCommit", range(2, 10), 8, OffsetCommitRequest, OffsetCommitResponse
)
OFFSET_FETCH: Final = Api(
    9, "OffsetFetch", range(1, 10), 6, OffsetFetchRequest, OffsetFetchResponse
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

APIS: Final[Mapping[int, Api[Any, Any]]] = MappingProxyType(
    {
        api.key: api
        for api in (
            PRODUCE,
            FETCH,
            LIST_OFFSETS,
            METADATA,
            OFFSET_COMMIT,
            OFFSET_FETCH,
            FIND_COORDINATOR,
            JOIN_GROUP,
            HEARTBEAT,
            LEAVE_GROUP,
            SYNC_GROUP,
            DESCRIBE_GROUPS,
            LIST_GROUPS,
            API_VERSIONS,
            CREATE_TOPICS,
            DELETE_TOPICS,
            DELETE_RECORDS,
            INIT_PRODUCER_ID,
            OFFSET_FOR_LEADER_EPOCH,
            DESCRIBE_CONFIGS,
            CREATE_PARTITIONS,
            INCREMENTAL_ALTER_CONFIGS,
            DESCRIBE_CLUSTER,
            DESCRIBE_TOPIC_PARTITIONS,
        )
    }
)


# What the hand-tuned codecs decline (None), the construct does.
_HOT_DECODE: Final[Mapping[int, Callable[[int, memoryview], Any]]] = {
    PRODUCE.key: hot_produce.decode_request,
    FETCH.key: hot_fetch.decode_request,
}
_HOT_ENCODE: Final[Mapping[int, Callable[[int, Any], list[Buffer] | None]]] = {
    PRODUCE.key: hot_produce.encode_response,
    FETCH.key: hot_fetch.encode_response,
}


def decode_request(api: Api[Request, Any], version: int, body: memoryview) -> Request:
    """Decode the body of a request; bytes behind it are ignored, as Kafka does.

    Errors: UnsupportedVersion, DecodeError. Cost: records are slices of `body`.
    """
    if version not in api.versions:
        api.check(version)
    hot = _HOT_DECODE.get(api.key)
    message: Request | None = hot(version, body) if hot else None
    if message is None:
        message = wire.decode(api.request, version, body, flexible=api.flexible(version))
    return message


def decode_response(api: Api[Any, Response], version: int, body: Buffer) -> Response:
    """Decode the body of a response. Errors: UnsupportedVersion, DecodeError."""
    api.check(version)
    return wire.decode(api.response, version, body, flexible=api.flexible(version))


def encode_request(api: Api[Request, Any], version: int, message: Request) -> bytes:
    """Encode the body of a request. Errors: UnsupportedVersion; ValueError is our own bug."""
    api.check(version)
    return wire.join(wire.encode(message, version, flexible=api.flexible(version)))


def encode_response(api: Api[Any, Response], version: int, message: Response) -> list[Buffer]:
    """Encode the body of a response: buffers in order, record bytes as they were given.

    Errors: UnsupportedVersion; ValueError is our own bug.
    """
    if version not in api.versions:
        api.check(version)
    hot = _HOT_ENCODE.get(api.key)
    parts = hot(version, message) if hot else None
    if parts is None:
        parts = wire.encode(message, version, flexible=api.flexible(version))
    return parts
