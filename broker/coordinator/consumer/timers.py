"""What members must do by when, and who failed to.

Source: Kafka GroupMetadataManager.scheduleConsumerGroupSessionTimeout and the three beside it.
"""

from tailrace.broker.coordinator.consumer.assigning import Surroundings
from tailrace.broker.coordinator.consumer.group import ConsumerGroup, MemberTimers
from tailrace.broker.coordinator.consumer.member import ConsumerMember, MemberState
from tailrace.broker.coordinator.wakes import wake_ms
from tailrace.broker.replicated.effects import NEVER, Now


def timers_of(group: ConsumerGroup, member_id: str) -> MemberTimers:
    """Return a member's deadlines, to be set."""
    return group.timers.setdefault(member_id, MemberTimers())


def restart_session(group: ConsumerGroup, member: ConsumerMember, around: Surroundings) -> None:
    """Count a member's session from now; a classic member brought its own timeout.

    One that has left the classic protocol behind owes it nothing more.
    """
    timers = timers_of(group, member.member_id)
    if member.classic is None:
        timeout_ms = around.times.session_timeout_ms
        timers.join_ms = timers.sync_ms = NEVER
    else:
        timeout_ms = member.classic.session_timeout_ms
    timers.session_ms = _wake(group, around.now.mono_ms + timeout_ms)


def watch_revocation(group: ConsumerGroup, member: ConsumerMember, around: Surroundings) -> None:
    """Give a member its rebalance timeout to let go, or be content that it need not.

    A classic member's time to join and to sync is counted instead.
    """
    if member.classic is not None:
        return
    timers = timers_of(group, member.member_id)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        timers.revoke_epoch = member.epoch
        timers.revoke_ms = _wake(group, around.now.mono_ms + member.rebalance_timeout_ms)
    else:
        timers.revoke_ms = NEVER


def await_join(group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
    """Give a classic member its rebalance timeout to join again, from when it was first told."""
    timers = timers_of(group, member.member_id)
    if timers.join_ms == NEVER:
        timers.join_ms = _wake(group, now.mono_ms + member.rebalance_timeout_ms)


def await_sync(group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
    """Note that a classic member has joined, and give it its rebalance timeout to sync."""
    timers = timers_of(group, member.member_id)
    timers.join_ms = NEVER
    timers.sync_ms = _wake(group, now.mono_ms + member.rebalance_timeout_ms)


def start_timers(group: ConsumerGroup, around: Surroundings) -> None:
    """Count all sessions, and what is to be let go, from now: the group was loaded or converted."""
    for member_id in sorted(group.members):
        member = group.members[member_id]
        restart_session(group, member, around)
        watch_revocation(group, member, around)


def overdue(group: ConsumerGroup, now: Now) -> list[str]:
    """Return the members that failed to do something in time."""
    late = [
        member_id
        for member_id in sorted(group.timers.keys() & group.members.keys())
        if _is_late(group.timers[member_id], group.members[member_id], now)
    ]
    next_ms = min((timers.earliest_ms() for timers in group.timers.values()), default=NEVER)
    group.wake_at_ms = wake_ms(next_ms, len(group.timers), now)
    return late


def _is_late(timers: MemberTimers, member: ConsumerMember, now: Now) -> bool:
    if timers.revoke_ms <= now.mono_ms and member.epoch != timers.revoke_epoch:
        timers.revoke_ms = NEVER
    return timers.earliest_ms() <= now.mono_ms


def _wake(group: ConsumerGroup, at_ms: int) -> int:
    group.wake_at_ms = min(group.wake_at_ms, at_ms)
    return at_ms
