"""ConsumerGroupHeartbeat: joining, living and changing one's mind; leaving is in leaving.py.

Source: Kafka GroupMetadataManager.consumerGroupHeartbeat.
"""

from dataclasses import replace

from tailrace.broker.coordinator.consumer.admission import (
    check_size,
    check_storable,
    find_member,
    replace_member,
)
from tailrace.broker.coordinator.consumer.assigning import (
    Surroundings,
    drop_unused_regexes,
    refresh,
    update_target,
)
from tailrace.broker.coordinator.consumer.changes import put_current, put_member
from tailrace.broker.coordinator.consumer.group import ConsumerGroup
from tailrace.broker.coordinator.consumer.member import (
    JOIN_EPOCH,
    ConsumerMember,
    Owned,
)
from tailrace.broker.coordinator.consumer.reconciling import Target, reconcile
from tailrace.broker.coordinator.consumer.request_checks import UNCHANGED
from tailrace.broker.coordinator.consumer.timers import restart_session, watch_revocation
from tailrace.broker.coordinator.consumer.topic_regex import regex_fault
from tailrace.broker.coordinator.consumer.topics import topic_ids
from tailrace.broker.coordinator.effects import Caller
from tailrace.broker.errors import KafkaError
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


def heartbeat(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    caller: Caller,
    around: Surroundings,
) -> ConsumerGroupHeartbeatResponse:
    """Handle a heartbeat that is no leave; the request has been checked, and has a member id.

    Errors: KafkaError, before anything has changed.
    """
    check_size(group, request.member_id, around.config)
    owned = _owned(request)
    known = find_member(group, request, owned)
    member = _with_request(known, request, caller)
    if member.topic_regex and member.topic_regex not in group.regex_counts:
        _check_regex(member.topic_regex)
    if member != known:
        check_storable(member)
    _take_over(group, request, known)
    has_new_topics = subscribe(group, known, member, around)
    member = advance(group, member.member_id, owned, around, has_new_topics=has_new_topics)
    restart_session(group, member, around)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=around.times.heartbeat_interval_ms,
    )
    says_all = (
        request.rebalance_timeout_ms != UNCHANGED
        and (request.subscribed_topic_names, request.subscribed_topic_regex) != (None, None)
        and owned is not None
    )
    is_joining = request.member_epoch == JOIN_EPOCH
    if is_joining or says_all or member.assigned != known.assigned:
        response.assignment = _assignment(member)
    return response


def _check_regex(regex: str) -> None:
    fault = regex_fault(regex)
    if fault is not None:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {fault}.",
        )


def _with_request(
    known: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerMember:
    """Return the member with what the request says; null leaves things as they are."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        known,
        instance_id=known.instance_id if request.instance_id is None else request.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=known.rebalance_timeout_ms if timeout_ms == UNCHANGED else timeout_ms,
        topic_names=known.topic_names if names is None else frozenset(names),
        topic_regex=known.topic_regex if regex is None else regex,
        assignor=known.assignor if request.server_assignor is None else request.server_assignor,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _take_over(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, known: ConsumerMember
) -> None:
    """Put a joining static member in the place of the one that had its instance id."""
    old = group.static_member(request.instance_id)
    if old is not None and request.member_epoch == JOIN_EPOCH:
        replace_member(group, old, known)


def subscribe(
    group: ConsumerGroup, known: ConsumerMember, member: ConsumerMember, around: Surroundings
) -> bool:
    """Write what a member asks for; return whether it subscribes to something else than before."""
    if member != known or member.member_id not in group.members:
        put_member(group, member)
    has_new_names = member.topic_names != known.topic_names
    has_new_regex = member.topic_regex != known.topic_regex
    if has_new_regex:
        drop_unused_regexes(group)
    refresh(group, around, must_bump=has_new_names or has_new_regex)
    update_target(group, around)
    return has_new_names or has_new_regex


def advance(
    group: ConsumerGroup,
    member_id: str,
    owned: Owned | None,
    around: Surroundings,
    *,
    has_new_topics: bool,
) -> ConsumerMember:
    """Bring a member one step nearer to its target; return it as it is then."""
    member = group.members[member_id]
    target = Target(
        group.target_epoch,
        group.targets.get(member_id, {}),
        topic_ids(group.topics_of(member), around.topics),
        group.is_owned_by_other,
    )
    advanced = reconcile(member, target, owned, has_new_topics=has_new_topics)
    if advanced != member:
        put_current(group, advanced)
        watch_revocation(group, advanced, around)
    return advanced


def _owned(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    if request.topic_partitions is None:
        return None
    return {topic.topic_id: topic.partitions for topic in request.topic_partitions}


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(epochs))
            for topic_id, epochs in sorted(member.assigned.items())
        ]
    )
