"""Several members do what they like, in any order; the invariants hold after each step."""

from copy import deepcopy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tailrace.broker.coordinator.config import GroupConfig
from tailrace.broker.coordinator.group import GroupState
from tailrace.broker.coordinator.records import OffsetUpdate
from tailrace.broker.coordinator.shard import GroupShard
from tailrace.broker.replicated.effects import NEVER
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.join_group import JoinGroupResponse
from tailrace.protocol.kafka.messages.leave_group import MemberIdentity
from tailrace.protocol.kafka.messages.sync_group import SyncGroupResponse
from tests.unit.broker.coordinator.support import GROUP, Driver, subscription

ACTORS = 4
ACTOR = st.integers(0, ACTORS - 1)
PROTOCOLS = st.sampled_from(
    [
        (("range", subscription("t")),),
        (("range", subscription("t")), ("sticky", subscription("t"))),
        (("sticky", subscription("t")), ("range", subscription("t", "other"))),
    ]
)
PRODUCERS = (1, 2)
PRODUCER = st.sampled_from(PRODUCERS)
SESSION_MS = 6_000
REBALANCE_MS = 15_000
CONFIG = GroupConfig(initial_rebalance_delay_ms=1_000, group_size_max=3)


class Actor:
    """A client: what it believes of itself, and the request it waits for."""

    def __init__(self, instance_id: str | None) -> None:
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.members: list[str] | None = None
        self.ticket: int | None = None
        self.protocols: Any = (("range", subscription("t")),)
        self.is_synced = False


def offsets_of(shard: GroupShard) -> dict[str, Any]:
    offsets = shard.commits.offsets
    return {group_id: offsets.of_group(group_id) for group_id in offsets}


def outcome_of(shard: GroupShard, producer: int) -> list[OffsetUpdate]:
    """Return what would be seen if a transaction were committed now."""
    return sorted(deepcopy(shard.commits.pending).end(producer, is_commit=True))


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(CONFIG, confirm=False)
        self.actors = [Actor("i" if n == 0 else None) for n in range(ACTORS)]
        self.generation = 0
        self.leaders: dict[int, str] = {}

    # What clients and time do

    @rule(actor=ACTOR, version=st.sampled_from([3, 5, 9]))
    def join(self, actor: int, version: int) -> None:
        me = self.actors[actor]
        me.is_synced = False
        me.ticket = self.driver.join(
            me.member_id,
            group_instance_id=me.instance_id,
            protocols=me.protocols,
            version=version,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )
        self.collect()

    @rule(actor=ACTOR, protocols=PROTOCOLS)
    def subscribe_anew(self, actor: int, protocols: Any) -> None:
        self.actors[actor].protocols = protocols
        self.join(actor, 5)

    @rule(actor=ACTOR)
    def restart_client(self, actor: int) -> None:
        """It forgets who it was; a static one comes back as the same instance."""
        self.actors[actor] = Actor(self.actors[actor].instance_id)

    @rule(actor=ACTOR)
    def sync(self, actor: int) -> None:
        me = self.actors[actor]
        given = {m: b"for " + m.encode() for m in me.members or ()}
        me.ticket = self.driver.sync(me.member_id, given, generation_id=me.generation)
        self.collect()

    @rule(actor=ACTOR)
    def heartbeat(self, actor: int) -> None:
        me = self.actors[actor]
        code = self.driver.heartbeat(me.member_id, generation_id=me.generation)
        if code is not ErrorCode.NONE:
            me.generation = -1
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            me.member_id = ""

    @rule(
        actors=st.permutations(range(ACTORS)), size=st.integers(1, ACTORS), again=st.integers(1, 6)
    )
    def some_behave(self, actors: list[int], size: int, again: int) -> None:
        """Some clients do for a while what clients do."""
        for _ in range(again):
            for actor in actors[:size]:
                me = self.actors[actor]
                if me.ticket is not None:
                    continue
                if me.generation < 0:
                    self.join(actor, 5)
                elif not me.is_synced:
                    self.sync(actor)
                else:
                    self.heartbeat(actor)
            self.confirm(True)
            self.time_passes(600)

    @rule(actor=ACTOR)
    def leave(self, actor: int) -> None:
        me = self.actors[actor]
        ticket = self.driver.ticket()
        identity = [(me.member_id, me.instance_id)]
        self.driver.act(self._leave(identity, ticket))
        self.actors[actor] = Actor(me.instance_id)

    def _leave(self, identity: list[tuple[str, str | None]], ticket: int) -> Any:
        members = [MemberIdentity(member_id=m, group_instance_id=i) for m, i in identity]
        return self.driver.shard.leave(GROUP, members, ticket, self.driver.now)

    @rule(actor=ACTOR, offset=st.integers(0, 100))
    def commit(self, actor: int, offset: int) -> None:
        me = self.actors[actor]
        self.driver.commit(me.member_id, me.generation, offsets={("t", actor % 3): offset})

    @rule(producer=PRODUCER, actor=ACTOR, is_member=st.booleans(), offset=st.integers(0, 100))
    def commit_in_transaction(
        self, producer: int, actor: int, is_member: bool, offset: int
    ) -> None:
        me = self.actors[actor]
        who = {"member_id": me.member_id, "generation_id": me.generation} if is_member else {}
        offsets = {("t", actor % 3): offset}
        self.driver.commit_in_transaction(producer, offsets=offsets, **who)

    @rule(producer=PRODUCER, is_commit=st.booleans())
    def end_transaction(self, producer: int, is_commit: bool) -> None:
        self.driver.end_transaction(producer, is_commit=is_commit)

    @rule(what=st.sampled_from(["group", "topic"]))
    def delete(self, what: str) -> None:
        shard = self.driver.shard
        if what == "topic":
            self.driver.act(shard.drop_topic("t"))
        else:
            self.driver.act(shard.delete_group(GROUP, self.driver.ticket()))
            self.forget_a_group_that_is_gone()

    def forget_a_group_that_is_gone(self) -> None:
        if GROUP not in self.driver.shard.groups:
            self.generation = 0
            self.leaders.clear()

    @rule(everything=st.booleans())
    def confirm(self, everything: bool) -> None:
        if everything:
            self.driver.confirm_all()
        elif self.driver.unconfirmed:
            self.driver.confirm_one()
        self.collect()

    @rule(ms=st.sampled_from([0, 1, 900, 3_000, 7_000, 20_000]))
    def time_passes(self, ms: int) -> None:
        self.driver.advance(ms)
        self.collect()

    @rule()
    def clean(self) -> None:
        self.driver.act(self.driver.shard.clean(self.driver.now))
        self.forget_a_group_that_is_gone()

    def collect(self) -> None:
        for actor in self.actors:
            response = self.driver.replies.get(actor.ticket or 0)
            if isinstance(response, JoinGroupResponse):
                self.on_join(actor, response)
            elif isinstance(response, SyncGroupResponse):
                self.on_sync(actor, response)
            if response is not None:
                actor.ticket = None

    def on_join(self, actor: Actor, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            actor.member_id = response.member_id
        elif response.error_code == ErrorCode.NONE:
            actor.member_id, actor.generation = response.member_id, response.generation_id
            members = [m.member_id for m in response.members]
            actor.members = None if response.skip_assignment else members or None
            if members:  # only the leader is told who is there
                assert response.leader == response.member_id
                assert response.member_id in members
        elif response.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            actor.member_id = ""

    def on_sync(self, actor: Actor, response: SyncGroupResponse) -> None:
        actor.is_synced = response.error_code == ErrorCode.NONE
        if not actor.is_synced:
            assert response.assignment == b""
            actor.generation = -1
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            actor.member_id = ""

    # What always holds

    @invariant()
    def generations_rise(self) -> None:
        group = self.driver.shard.groups.classic(GROUP)
        if group is not None:
            assert group.generation >= self.generation
            self.generation = group.generation

    @invariant()
    def there_is_one_leader_exactly_while_there_are_members(self) -> None:
        group = self.driver.shard.groups.classic(GROUP)
        if group is None:
            return
        assert (group.roster.leader is None) == (len(group.roster) == 0)
        assert group.roster.leader is None or group.roster.leader in group.roster
        assert len(group.roster) <= CONFIG.group_size_max or group.state is GroupState.PREPARING

    @invariant()
    def states_mean_what_they_say(self) -> None:
        group = self.driver.shard.groups.classic(GROUP)
        if group is None:
            return
        is_empty = group.state is GroupState.EMPTY
        assert not (is_empty and len(group.roster))
        assert not (group.state in (GroupState.STABLE, GroupState.COMPLETING) and not group.roster)
        if group.state is GroupState.STABLE:
            assert group.protocol_name is not None
            assert group.roster.supports_any([group.protocol_name])
        if group.state is not GroupState.COMPLETING:
            assert all(m.sync_ticket is None for m in group.roster)

    @invariant()
    def every_stable_member_has_what_its_leader_gave(self) -> None:
        group = self.driver.shard.groups.classic(GROUP)
        if group is None or group.state is not GroupState.STABLE:
            return
        for member in group.roster:  # under its own id, or that of its predecessor
            name = b"i-" if member.instance_id else member.member_id.encode()
            assert member.assignment == b"" or member.assignment.startswith(b"for " + name)

    @invariant()
    def whoever_waits_has_a_deadline_or_a_write_and_whoever_does_not_a_session(self) -> None:
        group = self.driver.shard.groups.classic(GROUP)
        if group is None:
            return
        for member in group.roster:
            if member.join_ticket is None and member.sync_ticket is None:
                assert member.deadline_ms < NEVER
        waits = any(m.join_ticket is not None or m.sync_ticket is not None for m in group.roster)
        if waits and not self.driver.unconfirmed:
            assert group.next_deadline_ms() < NEVER

    @invariant()
    def a_copy_from_the_stream_is_the_shard_when_nothing_is_under_way(self) -> None:
        if self.driver.unconfirmed:
            return
        shard, copy = self.driver.shard, self.driver.reloaded().shard
        assert list(shard.commits._under_way) == []
        assert offsets_of(copy) == offsets_of(shard)
        for producer in PRODUCERS:
            assert outcome_of(copy, producer) == outcome_of(shard, producer)
        assert copy.groups.keys() <= shard.groups.keys()
        group = shard.groups.classic(GROUP)
        if group is None or group.generation == 0:
            return
        if group.state not in (GroupState.STABLE, GroupState.EMPTY):
            return
        copied = copy.groups.classic(GROUP)
        assert copied is not None
        stored, live = copied.to_value(), group.to_value()
        if group.state is GroupState.STABLE:
            live.current_state_timestamp = stored.current_state_timestamp
        assert stored == live

    def teardown(self) -> None:
        """Left alone, everybody is answered, and the silent are gone."""
        self.driver.confirm = True
        self.driver.confirm_all()
        for _ in range(10):
            self.driver.advance(REBALANCE_MS)
        self.collect()
        assert self.driver.asked == self.driver.replies.keys()
        group = self.driver.shard.groups.classic(GROUP)
        assert group is None or not len(group.roster)


GroupMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestGroupMachine = GroupMachine.TestCase
