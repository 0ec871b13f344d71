"""What ConsumerGroupDescribe says of a KIP-848 group.

Source: Kafka ConsumerGroup.asDescribedGroup, ConsumerGroupMember.asConsumerGroupDescribeMember.
"""

from tailrace.broker.coordinator.consumer.assigning import preferred_assignor
from tailrace.broker.coordinator.consumer.assignor import Partitions, TopicId
from tailrace.broker.coordinator.consumer.group import ConsumerGroup
from tailrace.broker.coordinator.consumer.member import ConsumerMember
from tailrace.broker.coordinator.consumer.topics import KnownTopics
from tailrace.broker.coordinator.consumer_config import ConsumerGroupConfig
from tailrace.protocol.kafka.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def described_consumer_group(
    group: ConsumerGroup, config: ConsumerGroupConfig, topics: KnownTopics
) -> DescribedGroup:
    """Return the group with its members, by member id. Cost: members + partitions."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group, config),
        members=[
            _described_member(group.members[member_id], group.targets.get(member_id, {}), topics)
            for member_id in sorted(group.members)
        ],
    )


def _described_member(member: ConsumerMember, target: Partitions, topics: KnownTopics) -> Member:
    has: dict[TopicId, frozenset[int]] = {}
    for held in (member.assigned, member.revoking):
        for topic_id, epochs in held.items():
            has[topic_id] = has.get(topic_id, frozenset()).union(epochs)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(has, topics),
        target_assignment=_assignment(target, topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Partitions, topics: KnownTopics) -> Assignment:
    found = ((topics.by_id(topic_id), partitions[topic_id]) for topic_id in sorted(partitions))
    return Assignment(
        topic_partitions=[
            TopicPartitions(
                topic_id=topic.topic_id, topic_name=topic.name, partitions=sorted(numbers)
            )
            for topic, numbers in found
            if topic is not None
        ]
    )
