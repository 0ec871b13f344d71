"""Joining a KIP-848 group, sharing its partitions out, and being put out of it."""

from dataclasses import replace
from typing import Any

import pytest

from tailrace.broker.coordinator.consumer.group import (
    WRITE_BYTES_MAX,
    ConsumerGroup,
    ConsumerGroupState,
)
from tailrace.broker.coordinator.consumer.member import MemberState
from tailrace.broker.coordinator.consumer.request_checks import check_request
from tailrace.broker.errors import KafkaError
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tailrace.protocol.kafka.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from tests.unit.broker.coordinator.consumer.support import (
    REBALANCE_MS,
    SESSION_MS,
    Client,
    ConsumerDriver,
    consumer_config,
    lasting,
)
from tests.unit.broker.coordinator.support import GROUP, KnownTopics

FIRST = ConsumerGroupHeartbeatRequest(
    group_id=GROUP,
    member_id="m",
    member_epoch=0,
    rebalance_timeout_ms=1000,
    subscribed_topic_names=["t"],
    topic_partitions=[],
)
LATER = replace(FIRST, member_epoch=3)


def pair() -> tuple[ConsumerDriver, Client, Client]:
    """Return two members of a stable group, with two partitions and one."""
    driver = ConsumerDriver()
    a, b = Client("a"), Client("b")
    driver.settle(a, b)
    assert (a.partitions, b.partitions) == ([0, 1], [2])
    return driver, a, b


# What no group could mean anything by


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (replace(FIRST, group_id=""), 1),
        (replace(FIRST, group_id="   "), 1),
        (replace(FIRST, member_id=""), 1),
        (replace(LATER, member_id=""), 0),
        (replace(LATER, member_id="", member_epoch=-1), 0),
        (replace(FIRST, instance_id=""), 0),
        (replace(FIRST, rack_id=""), 0),
        (replace(FIRST, rebalance_timeout_ms=-1), 0),
        (replace(FIRST, topic_partitions=None), 0),
        (replace(FIRST, topic_partitions=[TopicPartitions(topic_id=bytes(16))]), 0),
        (replace(FIRST, subscribed_topic_names=None), 0),
        (replace(LATER, member_epoch=-2), 0),
        (replace(LATER, member_epoch=-3), 0),
    ],
)
def test_consumer_heartbeat_request_validation(
    request_: ConsumerGroupHeartbeatRequest, version: int
) -> None:
    with pytest.raises(KafkaError) as raised:
        check_request(request_, version, consumer_config().consumer)
    assert raised.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (FIRST, 0),
        (FIRST, 1),
        (replace(FIRST, member_id=""), 0),
        (replace(FIRST, subscribed_topic_names=None, subscribed_topic_regex="a"), 1),
        (replace(FIRST, server_assignor="range"), 1),
        (LATER, 1),
        (replace(LATER, member_epoch=-2, instance_id="i"), 1),
    ],
)
def test_what_clients_say_is_let_in(request_: ConsumerGroupHeartbeatRequest, version: int) -> None:
    check_request(request_, version, consumer_config().consumer)


def test_an_assignor_that_is_not_there_is_refused() -> None:
    config = consumer_config(assignors="range").consumer
    with pytest.raises(KafkaError) as raised:
        check_request(replace(FIRST, server_assignor="uniform"), 1, config)
    assert raised.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    check_request(replace(FIRST, server_assignor="range"), 1, config)


# Joining


def test_member_id_generation() -> None:
    driver = ConsumerDriver()
    response = driver.beat("", 0, version=0, **Client("").joining())
    assert response.member_id == "u1"
    assert list(driver.consumers.members) == ["u1"]
    assert response.member_epoch == 2


def test_unknown_group_id() -> None:
    response = ConsumerDriver().beat("m", 3)
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_unknown_member_id_joins_consumer_group() -> None:
    driver, _, _ = pair()
    assert driver.beat("c", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat("c", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_member_joins_empty_consumer_group() -> None:
    driver = ConsumerDriver()
    response = driver.turn(Client("a"))
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 2)
    assert response.heartbeat_interval_ms == 5_000
    assert response.assignment is not None
    assert [(t.topic_id, t.partitions) for t in response.assignment.topic_partitions] == [
        (driver.topic_id(), [0, 1, 2])
    ]
    assert driver.consumers.state is ConsumerGroupState.STABLE


def test_an_answer_names_the_assignment_only_when_it_is_news() -> None:
    driver = ConsumerDriver()
    a = Client("a")
    driver.turn(a)
    assert driver.turn(a).assignment is None
    everything = {**a.joining(), "topic_partitions": []}
    assert driver.beat("a", a.epoch, **everything).assignment is not None


def test_new_joining_member_triggers_new_target_assignment() -> None:
    driver = ConsumerDriver()
    a, b = Client("a"), Client("b")
    driver.settle(a)
    assert driver.turn(b).assignment is not None
    assert (b.epoch, b.partitions) == (3, [])
    assert driver.consumers.members["b"].state is MemberState.UNRELEASED_PARTITIONS
    assert driver.consumers.state is ConsumerGroupState.RECONCILING
    told = driver.send(a)
    assert (told.member_epoch, a.epoch) == (2, 2), "it stays until it has let go"
    a.hear(told)
    driver.turn(b)
    assert b.partitions == [], "not yet released"
    a.let_go()
    driver.turn(a)
    driver.turn(b)
    assert (a.epoch, a.partitions, b.partitions) == (3, [0, 1], [2])
    assert driver.consumers.state is ConsumerGroupState.STABLE


def test_updating_metadata_triggers_new_target_assignment() -> None:
    driver = ConsumerDriver()
    a = Client("a")
    driver.settle(a)
    a.topics = ("t", "other")
    driver.turn(a, subscribed_topic_names=a.topics)
    assert a.owned == {driver.topic_id(): {0, 1, 2}, driver.topic_id("other"): {0}}
    assert a.epoch == 3


def test_updating_metadata_without_topics_writes_the_member_only() -> None:
    driver, a, _ = pair()
    written = len(driver.stream)
    driver.turn(a, rack_id="rack-7")
    assert len(driver.stream) == written + 1
    assert driver.consumers.members["a"].rack_id == "rack-7"
    assert driver.consumers.epoch == 3


def test_a_heartbeat_without_news_writes_nothing() -> None:
    driver, a, _ = pair()
    written = len(driver.stream)
    driver.turn(a)
    assert len(driver.stream) == written


def test_consumer_group_member_leaves() -> None:
    driver, a, b = pair()
    assert driver.leave_group(a) is ErrorCode.NONE
    driver.settle(b)
    assert b.partitions == [0, 1, 2]
    assert list(driver.consumers.members) == ["b"]


def test_group_is_empty_when_all_members_left() -> None:
    driver, a, b = pair()
    driver.leave_group(a)
    driver.leave_group(b)
    assert driver.consumers.state is ConsumerGroupState.EMPTY
    assert driver.consumers.owners == {}
    assert driver.reloaded().consumers.state is ConsumerGroupState.EMPTY


def test_group_is_full() -> None:
    driver = ConsumerDriver(consumer_config(group_size_max=1))
    a = Client("a")
    driver.turn(a)
    assert driver.turn(Client("b")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.turn(a).error_code == ErrorCode.NONE


def test_a_topic_that_is_not_there_is_read_when_it_is() -> None:
    driver = ConsumerDriver()
    a = Client("a", topics=("later",))
    driver.settle(a)
    assert a.partitions == []
    driver.topics.create("later", 2)
    driver.notice("later")
    driver.turn(a)
    assert a.partitions == [0, 1]


def test_new_partitions_are_assigned() -> None:
    driver, a, b = pair()
    driver.topics.grow("t", 6)
    driver.notice("t")
    driver.settle(a, b)
    assert (a.partitions, b.partitions) == ([0, 1, 3], [2, 4, 5])


def test_a_topic_made_anew_is_another() -> None:
    driver, a, b = pair()
    old = driver.topic_id()
    driver.topics.delete("t")
    driver.topics.create("t", 2)
    driver.notice("t")
    driver.settle(a, b)
    assert old not in {**a.owned, **b.owned}
    assert (a.owned, b.owned) == ({driver.topic_id(): {0}}, {driver.topic_id(): {1}})


def test_changes_of_other_topics_cost_nothing() -> None:
    driver, a, _ = pair()
    written = len(driver.stream)
    driver.topics.create("elsewhere", 1)
    driver.notice("elsewhere")
    driver.turn(a)
    assert len(driver.stream) == written


def test_the_assignor_that_most_ask_for_decides() -> None:
    driver = ConsumerDriver(topics=KnownTopics({"t": 3, "other": 3}))
    both = ("t", "other")
    a, b = Client("a", topics=both, assignor="range"), Client("b", topics=both, assignor="range")
    driver.settle(a, b)
    assert [sorted(numbers) for numbers in a.owned.values()] == [[0, 1], [0, 1]]
    assert driver.describe().assignor_name == "range"


# Epochs


def test_member_epoch_validation() -> None:
    driver, a, _ = pair()
    owned = [TopicPartitions(topic_id=driver.topic_id(), partitions=[0, 1])]
    more = [TopicPartitions(topic_id=driver.topic_id(), partitions=[0, 1, 2])]
    assert driver.beat("a", a.epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.beat("a", 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    before = driver.consumers.members["a"].previous_epoch
    assert before == a.epoch - 1
    assert driver.beat("a", before, topic_partitions=more).error_code == (
        ErrorCode.FENCED_MEMBER_EPOCH
    )
    assert driver.beat("a", before).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.beat("a", before, topic_partitions=owned).member_epoch == a.epoch


def test_a_lost_answer_is_given_again() -> None:
    driver = ConsumerDriver()
    a, b = Client("a"), Client("b")
    driver.settle(a)
    driver.turn(b)
    driver.turn(a)
    driver.send(a)
    lost = driver.consumers.members["a"].epoch
    assert (a.epoch, lost) == (2, 3), "it did not hear of the epoch"
    assert driver.turn(a).member_epoch == 3
    driver.settle(a, b)
    assert (a.partitions, b.partitions) == ([0, 1], [2])


def test_a_member_that_joins_again_keeps_its_place() -> None:
    driver, a, b = pair()
    a.epoch, a.owned, a.wanted = 0, {}, {}
    driver.settle(a, b)
    assert (a.partitions, b.partitions) == ([0, 1], [2])
    assert driver.consumers.epoch == 3


# Time


def test_session_timeout_expiration() -> None:
    driver, a, b = pair()
    driver.advance(SESSION_MS - 1)
    driver.turn(b)
    driver.advance(1)
    assert list(driver.consumers.members) == ["b"]
    assert driver.turn(a).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    driver.settle(b)
    assert b.partitions == [0, 1, 2]


def test_session_timeout_lifecycle() -> None:
    driver, a, b = pair()
    for _ in range(5):
        driver.advance(SESSION_MS - 1)
        driver.turn(a)
        driver.turn(b)
    assert sorted(driver.consumers.members) == ["a", "b"]


def test_rebalance_timeout_expiration() -> None:
    driver = ConsumerDriver()
    a, b = Client("a", rebalance_ms=10_000), Client("b")
    driver.settle(a)
    driver.turn(b)
    assert driver.send(a).assignment is not None, "it is told to let go, and does not"
    driver.advance(9_999)
    driver.send(a)
    assert "a" in driver.consumers.members
    driver.advance(1)
    assert list(driver.consumers.members) == ["b"]
    driver.settle(b)
    assert b.partitions == [0, 1, 2]


def test_rebalance_timeout_lifecycle() -> None:
    driver = ConsumerDriver()
    a, b = Client("a", rebalance_ms=10_000), Client("b")
    driver.settle(a)
    driver.turn(b)
    driver.turn(a)
    driver.advance(9_999)
    driver.turn(a)
    driver.advance(10_000)
    assert sorted(driver.consumers.members) == ["a", "b"]


def test_sessions_and_revocations_start_anew_after_a_load() -> None:
    driver = ConsumerDriver()
    a, b = Client("a"), Client("b")
    driver.settle(a)
    driver.turn(b)
    driver.send(a)
    other = driver.reloaded()
    for _ in range(2):
        other.advance(REBALANCE_MS // 2 - 1)
        other.send(a)
        other.turn(b)
    assert sorted(other.consumers.members) == ["a", "b"]
    other.advance(2)
    assert list(other.consumers.members) == ["b"], "it never let go"


def test_the_assignment_waits_for_its_interval() -> None:
    driver = ConsumerDriver(consumer_config(assignment_interval_ms=1_000))
    a, b = Client("a"), Client("b")
    driver.turn(a)
    driver.turn(b)
    assert driver.consumers.state is ConsumerGroupState.ASSIGNING
    driver.advance(999)
    driver.turn(b)
    assert driver.consumers.target_epoch == 2
    driver.advance(1)
    driver.turn(b)
    assert driver.consumers.target_epoch == driver.consumers.epoch == 3


# Records


def test_a_load_brings_everything_back() -> None:
    driver = ConsumerDriver()
    a, b, c = Client("a"), Client("b", topics=("other",)), Client("c", regex="o.*", topics=None)
    driver.settle(a, b, c, turns=2)
    driver.leave_group(b)
    assert lasting(driver.reloaded().consumers) == lasting(driver.consumers)


def test_the_newest_record_of_each_key_is_enough() -> None:
    driver = ConsumerDriver()
    a, b = Client("a"), Client("b")
    driver.settle(a)
    driver.settle(a, b)
    driver.leave_group(a)
    driver.settle(b)
    newest = {record.key: n for n, record in enumerate(driver.stream)}
    compacted = [driver.stream[n] for n in sorted(newest.values())]
    assert lasting(driver.reloaded(compacted).consumers) == lasting(driver.consumers)


def test_an_answer_waits_for_its_records_and_for_those_before_it() -> None:
    driver = ConsumerDriver()
    a = Client("a")
    driver.settle(a)
    driver.confirm = False
    joining = driver.beat_soon("b", 0, **Client("b").joining())
    news = driver.beat_soon("a", a.epoch)
    asked = len(driver.unconfirmed)
    no_news = driver.beat_soon("a", a.epoch)
    assert len(driver.unconfirmed) == asked == 2, "it has no record of its own"
    assert not {joining, news, no_news} & driver.replies.keys()
    driver.confirm_one()
    assert {joining, news, no_news} & driver.replies.keys() == {joining}
    still_waits = driver.beat_soon("a", a.epoch)
    assert still_waits not in driver.replies
    driver.confirm_one()
    assert {joining, news, no_news, still_waits} <= driver.replies.keys()
    assert driver.beat_soon("a", a.epoch) in driver.replies, "nothing is under way any more"


def test_a_member_that_says_nothing_of_what_it_owns_still_owns_it() -> None:
    driver = ConsumerDriver()
    a, b = Client("a"), Client("b")
    driver.settle(a)
    driver.turn(b)
    driver.send(a)
    driver.beat("a", a.epoch)
    assert driver.consumers.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    driver.turn(b)
    assert b.partitions == []


def test_what_a_member_reads_no_more_is_taken_at_once() -> None:
    driver = ConsumerDriver(consumer_config(assignment_interval_ms=1_000))
    a = Client("a", topics=("t", "other"))
    driver.turn(a)
    other = driver.topic_id("other")
    response = driver.send(a, subscribed_topic_names=["t"])
    assert driver.consumers.target_epoch == 2, "the next target has to wait"
    assert response.assignment is not None
    assert other not in [topic.topic_id for topic in response.assignment.topic_partitions]
    assert driver.consumers.members["a"].revoking == {other: {0: 2}}


def test_a_target_of_topics_that_it_reads_no_more_is_not_given() -> None:
    driver = ConsumerDriver(consumer_config(assignment_interval_ms=1_000))
    a = Client("a", topics=("t", "other"))
    driver.turn(a)
    driver.turn(a, subscribed_topic_names=["t"])
    driver.settle(a, turns=2)
    assert a.owned.keys() == {driver.topic_id()}
    assert driver.consumers.target_epoch == 2


def test_records_that_are_too_large_are_an_error_not_silence() -> None:
    driver = ConsumerDriver(confirm=False)
    ticket = driver.beat_soon("a", 0, **Client("a").joining())
    driver.act(driver.shard.on_refused(driver.unconfirmed.popleft(), driver.now))
    assert driver.replies[ticket] is ErrorCode.UNKNOWN_SERVER_ERROR


def test_many_records_go_in_several_writes() -> None:
    topics = KnownTopics({f"{'x' * 200}{n}": 1 for n in range(4_000)})
    driver = ConsumerDriver(confirm=False, topics=topics)
    names = [topic.name for topic in topics.all()]
    driver.beat_soon("a", 0, **Client("a", topics=names).joining())
    sizes = [
        sum(len(record.key) + len(record.value or b"") for record in write.records)
        for write in driver.unconfirmed
    ]
    assert len(sizes) > 1
    assert all(size <= 2 * WRITE_BYTES_MAX for size in sizes)
    assert not driver.replies
    driver.confirm_all()
    assert len(driver.replies) == 1


@pytest.mark.parametrize(
    ("epoch", "partition", "code"),
    [
        (3, 0, ErrorCode.NONE),
        (4, 0, ErrorCode.STALE_MEMBER_EPOCH),
        (2, 0, ErrorCode.NONE),
        (2, 2, ErrorCode.STALE_MEMBER_EPOCH),
        (1, 0, ErrorCode.STALE_MEMBER_EPOCH),
    ],
    ids=["now", "never yet", "had since", "gone since", "before it had it"],
)
def test_offset_commit_with_consumer_group_member(
    epoch: int, partition: int, code: ErrorCode
) -> None:
    driver, a, _ = pair()
    ticket = driver.commit("a", epoch, version=9, offsets={("t", partition): 1})
    assert driver.commit_codes(ticket) == [code]
    assert a.epoch == 3


def test_offsets_of_what_is_to_be_let_go_are_still_committed() -> None:
    driver = ConsumerDriver()
    a, b = Client("a"), Client("b")
    driver.settle(a)
    driver.turn(b)
    driver.send(a)
    assert driver.consumers.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert driver.commit_codes(driver.commit("a", 2, version=9, offsets={("t", 2): 1})) == [
        ErrorCode.NONE
    ]


def test_validate_offset_commit() -> None:
    driver, _, _ = pair()

    def code(member_id: str, epoch: int, version: int = 9) -> ErrorCode:
        [found] = driver.commit_codes(driver.commit(member_id, epoch, version=version))
        return found

    assert code("zz", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code("", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code("a", 3, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert code("a", 3) is ErrorCode.NONE


def test_an_empty_group_takes_commits_from_outside() -> None:
    driver, a, b = pair()
    driver.leave_group(a)
    driver.leave_group(b)
    assert driver.commit_codes(driver.commit("", -1)) == [ErrorCode.NONE]


def test_a_group_is_deleted_only_without_members() -> None:
    driver, a, b = pair()

    def delete() -> Any:
        ticket = driver.ticket()
        driver.act(driver.shard.delete_group(GROUP, ticket))
        return driver.replies[ticket]

    assert delete() is ErrorCode.NON_EMPTY_GROUP
    driver.leave_group(a)
    driver.leave_group(b)
    assert delete() is ErrorCode.NONE
    assert GROUP not in driver.shard.groups
    assert GROUP not in driver.reloaded().shard.groups


def test_consumer_group_states() -> None:
    group = ConsumerGroup("g", KnownTopics({}))
    assert group.state_name == "Empty"
    driver = ConsumerDriver(consumer_config(assignment_interval_ms=1_000))
    driver.turn(Client("a"))
    assert driver.consumers.state_name == "Stable"
    driver.turn(Client("b"))
    assert driver.consumers.state_name == "Assigning"
    driver.advance(1_000)
    driver.turn(Client("b", epoch=2))
    assert driver.consumers.state_name == "Reconciling"


def test_what_is_shown_of_a_group_is_on_the_stream() -> None:
    driver = ConsumerDriver(confirm=False)
    driver.beat_soon(
        "m", 0, rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
    )
    asked = driver.describe_soon()
    assert asked not in driver.replies
    driver.confirm_all()
    assert [member.member_id for member in driver.replies[asked].members] == ["m"]
    assert driver.describe() == driver.replies[asked]


@pytest.mark.parametrize("kind", ["consumer", "classic"])
def test_a_member_too_large_to_be_stored_is_refused_before_anything_changes(kind: str) -> None:
    driver = ConsumerDriver()
    c = Client("c")
    driver.settle(c)
    before, written = lasting(driver.consumers), len(driver.stream)
    topics = [f"{n:0200}" for n in range(5_000)]
    if kind == "consumer":
        code = driver.send(Client("big", topics=topics)).error_code
    else:
        big = (("range", encode_subscription(ConsumerProtocolSubscription(topics=topics), 1)),)
        code = driver.joined(driver.join("big", protocols=big)).error_code
    assert code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (lasting(driver.consumers), len(driver.stream)) == (before, written)
