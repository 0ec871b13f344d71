"""Members of a consumer group do what they like, in any order; the invariants hold after each step.

Answers get lost, clients do not let go, records are confirmed late or never, the broker dies.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tailrace.broker.coordinator.consumer.group import ConsumerGroup
from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.coordinator.consumer.support import (
    Client,
    ConsumerDriver,
    consumer_config,
    lasting,
)
from tests.unit.broker.coordinator.support import GROUP, KnownTopics

ACTORS = 4
ACTOR = st.integers(0, ACTORS - 1)
NAMES = ("a", "b", "ab")
SUBSCRIPTION = st.sampled_from(
    [(("a",), None), (("a", "b"), None), (("b",), "a.*"), ((), "a.*"), ((), ".*")]
)
CONFIG = consumer_config(session_timeout_ms=45_000)


class Actor(Client):
    """A client that may not have heard the answer to its last heartbeat yet.

    When an answer is lost it says everything anew, as librdkafka and Java's client do: only then is
    it told its assignment again.
    """

    ticket: int | None = None
    is_unsure: bool = False

    def __hash__(self) -> int:
        return hash(self.member_id)


class ConsumerGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.topics = KnownTopics({"a": 3, "b": 2})
        self.driver = ConsumerDriver(CONFIG, confirm=False, topics=self.topics)
        self.numbers = 0
        self.actors = [self._new(n) for n in range(ACTORS)]

    def _new(self, actor: int) -> Actor:
        self.numbers += 1
        instance = "i" if actor == 0 else None
        return Actor(f"m{self.numbers}", topics=("a",), instance_id=instance, rebalance_ms=30_000)

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.driver.shard.groups.get(GROUP)
        return group if isinstance(group, ConsumerGroup) else None

    # What clients do

    @rule(actor=ACTOR, obeys=st.booleans())
    def turn(self, actor: int, obeys: bool) -> None:
        me = self.actors[actor]
        if me.ticket is None:
            self._send(me)
            self._collect(obeys=obeys)

    @rule(actor=ACTOR, subscription=SUBSCRIPTION)
    def subscribe_anew(self, actor: int, subscription: Any) -> None:
        me = self.actors[actor]
        me.topics, me.regex = subscription
        if me.ticket is None:
            self._send(
                me,
                subscribed_topic_names=me.topics,
                subscribed_topic_regex=me.regex or "",
            )
            self._collect(obeys=True)

    @rule(actor=ACTOR)
    def lose_the_answer(self, actor: int) -> None:
        self._lose(self.actors[actor])

    @rule(actor=ACTOR)
    def leave(self, actor: int) -> None:
        me = self.actors[actor]
        epoch = -2 if me.instance_id else -1
        self.driver.beat_soon(me.member_id, epoch, instance_id=me.instance_id)
        self.actors[actor] = self._new(actor)

    @rule(actor=ACTOR)
    def die(self, actor: int) -> None:
        self.actors[actor] = self._new(actor)

    # What happens to them

    @rule(ms=st.sampled_from([1, 1_000, 20_000, 29_999]))
    def time_passes(self, ms: int) -> None:
        self.driver.advance(ms)
        self._collect(obeys=True)

    @rule(everything=st.booleans())
    def confirm(self, everything: bool) -> None:
        if everything:
            self.driver.confirm_all()
        elif self.driver.unconfirmed:
            self.driver.confirm_one()
        self._collect(obeys=True)

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(1, 5))
    def change_topic(self, name: str, partitions: int) -> None:
        topic = self.topics.get(name)
        if topic is None:
            self.topics.create(name, partitions)
        elif partitions > topic.partition_count:
            self.topics.grow(name, partitions)
        else:
            self.topics.delete(name)
        self.driver.notice(name)

    @rule()
    def crash(self) -> None:
        """What was not confirmed is lost, and so are the answers that waited for it."""
        mono_ms = self.driver.mono_ms
        self.driver = self.driver.reloaded()
        self.driver.confirm = False
        assert self.driver.mono_ms == mono_ms
        for me in self.actors:
            self._lose(me)

    @rule()
    def settle(self) -> None:
        """Left alone, they come to what the target says: all of it has one reader each."""
        self.driver.confirm_all()
        self._collect(obeys=True)
        for me in self.actors:
            self._lose(me)
        for _ in range(12):
            for me in self.actors:
                self._send(me)
                self.driver.confirm_all()
                self._collect(obeys=True)
            self.driver.advance(5_000)
            self.driver.confirm_all()
        group = self.group
        assert group is not None
        known = [me for me in self.actors if me.epoch > 0]
        assert {me.member_id for me in known} == group.members.keys()
        for me in known:
            target = group.targets.get(me.member_id, {})
            there = {t: set(p) for t, p in target.items() if self.topics.by_id(t)}
            assert me.owned == there, (me, target)
        read = {(t, p) for me in known for t, parts in me.owned.items() for p in parts}
        assert read == {
            (topic.topic_id, p)
            for name in group.subscribed_topics()
            if (topic := self.topics.get(name))
            for p in range(topic.partition_count)
        }
        assert group.state_name == "Stable"

    # How

    def _send(self, me: Actor, **fields: Any) -> None:
        said: dict[str, Any] = {**me.saying(), **fields}
        if me.is_unsure:
            said = {**me.joining(), "subscribed_topic_regex": me.regex or "", **said}
            me.is_unsure = False
        me.ticket = self.driver.beat_soon(me.member_id, me.epoch, **said)

    @staticmethod
    def _lose(me: Actor) -> None:
        me.is_unsure |= me.ticket is not None
        me.ticket = None

    def _collect(self, *, obeys: bool) -> None:
        for me in self.actors:
            if me.ticket is None or me.ticket not in self.driver.replies:
                continue
            response = self.driver.replies[me.ticket]
            me.ticket = None
            if response.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                me.epoch, me.owned, me.wanted = 0, {}, {}
            me.hear(response)
            if obeys:
                me.obey()

    # What always holds

    @invariant()
    def no_partition_has_two_readers(self) -> None:
        """Of those that the group still knows, in the epoch that they believe to be in."""
        group = self.group
        seen: dict[tuple[bytes, int], str] = {}
        for me in self.actors:
            member = group.members.get(me.member_id) if group else None
            if member is None or me.epoch not in (member.epoch, member.previous_epoch):
                continue
            for topic_id, partitions in me.owned.items():
                for partition in partitions:
                    other = seen.setdefault((topic_id, partition), me.member_id)
                    assert other == me.member_id, (topic_id, partition)

    @invariant()
    def owners_are_those_who_have(self) -> None:
        group = self.group
        if group is None:
            return
        owners: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            for held in (member.assigned, member.revoking):
                for topic_id, epochs in held.items():
                    for partition in epochs:
                        assert (topic_id, partition) not in owners
                        owners[topic_id, partition] = member.member_id
        assert owners == {(t, p): m for t, parts in group.owners.items() for p, m in parts.items()}

    @invariant()
    def a_load_brings_the_same_back(self) -> None:
        group = self.group
        if group is None or self.driver.unconfirmed:
            return
        other = self.driver.reloaded().shard.groups.get(GROUP)
        assert isinstance(other, ConsumerGroup)
        assert lasting(other) == lasting(group)


TestConsumerGroups = ConsumerGroupMachine.TestCase
TestConsumerGroups.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
