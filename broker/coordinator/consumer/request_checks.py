"""What a heartbeat must say, whoever sends it to whatever group.

Source: Kafka GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid.
"""

from tailrace.broker.coordinator.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from tailrace.broker.coordinator.consumer_config import ConsumerGroupConfig
from tailrace.broker.errors import KafkaError
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

UNCHANGED = -1
"""A rebalance timeout that says "as before"."""

MEMBER_ID_SINCE = 1
"""Version from which on members choose their own id (KIP-1082)."""


def check_request(
    request: ConsumerGroupHeartbeatRequest, version: int, config: ConsumerGroupConfig
) -> None:
    """Refuse what no group could mean anything by. Errors: KafkaError."""
    epoch = request.member_epoch
    needs_id = version >= MEMBER_ID_SINCE or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH
    _refuse_if(needs_id and not request.member_id.strip(), "MemberId can't be empty.")
    _refuse_if(not request.group_id.strip(), "GroupId can't be empty.")
    for name, value in (("InstanceId", request.instance_id), ("RackId", request.rack_id)):
        _refuse_if(value is not None and not value.strip(), f"{name} can't be empty.")
    if epoch == JOIN_EPOCH:
        _check_first_request(request)
    _refuse_if(
        epoch == STATIC_LEAVE_EPOCH and request.instance_id is None, "InstanceId can't be null."
    )
    _refuse_if(epoch < STATIC_LEAVE_EPOCH, "MemberEpoch is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in config.assignor_names:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. Supported assignors: "
            f"{', '.join(config.assignor_names)}.",
        )


def _check_first_request(request: ConsumerGroupHeartbeatRequest) -> None:
    _refuse_if(
        request.rebalance_timeout_ms == UNCHANGED,
        "RebalanceTimeoutMs must be provided in first request.",
    )
    _refuse_if(
        request.topic_partitions is None or len(request.topic_partitions) > 0,
        "TopicPartitions must be empty when (re-)joining.",
    )
    _refuse_if(
        request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    )


def _refuse_if(is_wrong: bool, message: str) -> None:  # noqa: FBT001  # reads as a sentence
    if is_wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
