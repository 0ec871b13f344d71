"""A group that changes its protocol with members in it, member by member, and back."""

from dataclasses import replace
from typing import Any

import pytest

from tailrace.broker.coordinator.consumer.group import ConsumerGroup
from tailrace.broker.coordinator.group import ClassicGroup, GroupState
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from tests.unit.broker.coordinator.consumer.support import (
    Client,
    ConsumerDriver,
    consumer_config,
    lasting,
)
from tests.unit.broker.coordinator.support import GROUP, REBALANCE_MS, SESSION_MS


def subscription(*topics: str, owned: list[int] | None = None) -> bytes:
    has = [TopicPartition(topic="t", partitions=owned)] if owned else []
    return encode_subscription(
        ConsumerProtocolSubscription(topics=topics or ["t"], owned_partitions=has), 1
    )


def assignment(*partitions: int, user_data: bytes | None = None) -> bytes:
    parts = [TopicPartition(topic="t", partitions=list(partitions))]
    return encode_assignment(
        ConsumerProtocolAssignment(assigned_partitions=parts, user_data=user_data), 1
    )


def protocols(owned: list[int] | None = None) -> tuple[tuple[str, bytes], ...]:
    return (("range", subscription(owned=owned)),)


class ClassicClient:
    """A classic consumer inside of the group: it joins and syncs whenever it is told to."""

    def __init__(self, driver: ConsumerDriver, member_id: str, generation: int = -1) -> None:
        self.driver = driver
        self.member_id = member_id
        self.generation = generation
        self.partitions: list[int] = []

    def join(self) -> ErrorCode:
        driver = self.driver
        ticket = driver.join(self.member_id, protocols=protocols(self.partitions))
        driver.advance(driver.config.initial_rebalance_delay_ms * 2)
        response = driver.joined(ticket)
        if response.error_code:
            return ErrorCode(response.error_code)
        self.member_id, self.generation = response.member_id, response.generation_id
        synced = driver.synced(driver.sync(self.member_id, generation_id=self.generation))
        if not synced.error_code:
            parts = decode_assignment(synced.assignment).assigned_partitions
            self.partitions = sorted(p for part in parts for p in part.partitions)
        return ErrorCode(synced.error_code)

    def turn(self) -> None:
        if self.beat() is not ErrorCode.NONE:
            self.join()

    def beat(self) -> ErrorCode:
        return self.driver.heartbeat(self.member_id, generation_id=self.generation)


def classic_pair(**config: object) -> tuple[ConsumerDriver, ClassicClient, ClassicClient]:
    """Return a classic group whose two members have two partitions and one."""
    driver = ConsumerDriver(consumer_config(**config))
    ids = [driver.new_id(protocols=protocols()) for _ in range(2)]
    tickets = [driver.join(id_, protocols=protocols()) for id_ in ids]
    driver.advance(driver.config.initial_rebalance_delay_ms * 2)
    generation = driver.joined(tickets[0]).generation_id
    given = {ids[0]: assignment(0, 1), ids[1]: assignment(2)}
    for id_ in ids:
        leads = id_ == driver.classic.roster.leader
        driver.sync(id_, given if leads else None, generation_id=generation)
    a, b = (ClassicClient(driver, id_, generation) for id_ in ids)
    a.partitions, b.partitions = [0, 1], [2]
    assert driver.classic.state is GroupState.STABLE
    return driver, a, b


def go_on(*clients: Client | ClassicClient, driver: ConsumerDriver, turns: int = 8) -> None:
    for _ in range(turns):
        for client in clients:
            if isinstance(client, ClassicClient):
                client.turn()
            else:
                driver.turn(client)


# Upgrade


def test_consumer_group_joins_classic_group_online_upgrade() -> None:
    driver, a, b = classic_pair()
    c = Client("c")
    assert driver.turn(c).error_code == ErrorCode.NONE
    group = driver.consumers
    assert (a.member_id in group.members, b.member_id in group.members) == (True, True)
    assert group.members[a.member_id].classic is not None
    assert a.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    go_on(a, b, c, driver=driver)
    assert sorted([*a.partitions, *b.partitions, *c.partitions]) == [0, 1, 2]
    assert group.state_name == "Stable"
    assert lasting(driver.reloaded().consumers) == lasting(group)


def test_rolling_upgrade_to_the_last_member() -> None:
    driver, a, b = classic_pair()
    driver.commit(a.member_id, a.generation, offsets={("t", 0): 42})
    c, d = Client("c"), Client("d")
    driver.leave((a.member_id, None))
    driver.turn(c)
    go_on(b, c, driver=driver)
    driver.leave((b.member_id, None))
    driver.turn(d)
    go_on(c, d, driver=driver)
    assert sorted([*c.partitions, *d.partitions]) == [0, 1, 2]
    assert [member.classic for member in driver.consumers.members.values()] == [None, None]
    assert driver.committed("t", 0) == 42


def test_members_that_wait_in_a_barrier_join_again() -> None:
    driver, a, b = classic_pair()
    waiting = driver.join(a.member_id, protocols=(("range", subscription("other")),))
    assert waiting not in driver.replies
    driver.turn(Client("c"))
    assert driver.joined(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert a.join() is ErrorCode.NONE
    assert b.beat() is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("policy", ["downgrade", "disabled"])
def test_consumer_group_joins_classic_group_only_if_it_may(policy: str) -> None:
    driver, a, _ = classic_pair(migration_policy=policy)
    assert driver.turn(Client("c")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert isinstance(driver.shard.groups[GROUP], ClassicGroup)
    assert a.beat() is ErrorCode.NONE


def test_group_that_would_be_too_large_stays_classic() -> None:
    driver, _, _ = classic_pair(group_size_max=1)
    assert driver.turn(Client("c")).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_refused_newcomer_upgrades_nothing() -> None:
    driver, a, _ = classic_pair()
    waiting = driver.join(a.member_id, protocols=(("range", subscription("other")),))
    response = driver.turn(Client("c", topics=None, regex="("))
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert isinstance(driver.shard.groups[GROUP], ClassicGroup)
    assert waiting not in driver.replies


def test_other_protocol_types_stay_classic() -> None:
    driver = ConsumerDriver()
    [member_id] = driver.stable(protocol_type="connect")
    assert driver.turn(Client("c")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.heartbeat(member_id) is ErrorCode.NONE


def test_custom_assignors_that_keep_user_data_are_not_upgraded() -> None:
    driver = ConsumerDriver()
    [member_id] = driver.stable(protocols=protocols())
    ticket = driver.join(member_id, protocols=(("range", subscription("other")),))
    generation = driver.joined(ticket).generation_id
    driver.sync(member_id, {member_id: assignment(0, user_data=b"x")}, generation_id=generation)
    response = driver.turn(Client("c"))
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "custom assignor" in (response.error_message or "")


def test_malformed_subscriptions_are_not_upgraded() -> None:
    driver = ConsumerDriver()
    driver.stable(protocols=(("range", b"\0"),))
    response = driver.turn(Client("c"))
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "malformed" in (response.error_message or "")


@pytest.mark.parametrize("policy", ["bidirectional", "disabled"])
def test_empty_groups_take_the_protocol_of_whoever_comes(policy: str) -> None:
    driver, a, b = classic_pair(migration_policy=policy)
    driver.leave((a.member_id, None), (b.member_id, None))
    c = Client("c")
    driver.settle(c)
    assert c.partitions == [0, 1, 2]
    assert isinstance(driver.reloaded().shard.groups[GROUP], ConsumerGroup)
    driver.leave_group(c)
    driver.stable(protocols=protocols())
    assert isinstance(driver.reloaded().shard.groups[GROUP], ClassicGroup)


# Classic members inside


def mixed() -> tuple[ConsumerDriver, Client, ClassicClient]:
    driver = ConsumerDriver()
    c = Client("c")
    driver.settle(c)
    ticket = driver.join("", protocols=protocols())
    assert driver.joined(ticket).error_code == ErrorCode.MEMBER_ID_REQUIRED
    a = ClassicClient(driver, driver.joined(ticket).member_id)
    assert a.join() is ErrorCode.NONE
    go_on(a, c, driver=driver)
    assert sorted([*a.partitions, *c.partitions]) == [0, 1, 2]
    return driver, c, a


def test_classic_member_joins_consumer_group() -> None:
    driver, _, a = mixed()
    assert driver.consumers.members[a.member_id].classic is not None
    assert a.beat() is ErrorCode.NONE


def test_classic_member_joins_consumer_group_only_if_it_may() -> None:
    driver = ConsumerDriver(consumer_config(migration_policy="disabled"))
    driver.turn(Client("c"))
    response = driver.joined(driver.join("x", protocols=protocols()))
    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol_type": "connect"},
        {"protocols": ()},
        {"protocols": (("range", b""),)},
        {"protocols": (("else", subscription()),)},
    ],
)
def test_classic_members_need_a_protocol_of_all(fields: dict[str, object]) -> None:
    driver, _, _ = mixed()
    response = driver.joined(driver.join("x", **{"protocols": protocols(), **fields}))
    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_classic_members_session_timeout_has_its_bounds() -> None:
    driver, _, _ = mixed()
    ticket = driver.join("x", protocols=protocols(), session_timeout_ms=5_999)
    assert driver.joined(ticket).error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_joining_consumer_group_triggers_size_limit() -> None:
    driver = ConsumerDriver(consumer_config(group_size_max=1))
    driver.turn(Client("c"))
    response = driver.joined(driver.join("x", protocols=protocols()))
    assert response.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_refused_join_without_member_id_is_not_told_one() -> None:
    driver, _, _ = mixed()
    response = driver.joined(driver.join("", protocols=protocols(), protocol_type="connect"))
    assert (response.error_code, response.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")


def test_classic_group_sync_to_consumer_group_refusals() -> None:
    driver, c, a = mixed()

    def code(member_id: str, **fields: object) -> ErrorCode:
        ticket = driver.sync(member_id, **{"generation_id": a.generation, **fields})  # type: ignore[arg-type]
        return ErrorCode(driver.synced(ticket).error_code)

    assert code("zz") is ErrorCode.UNKNOWN_MEMBER_ID
    assert code(c.member_id) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code(a.member_id, generation_id=a.generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert code(a.member_id, protocol_type="x") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(a.member_id, protocol_name="x") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(a.member_id, group_instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert code(a.member_id) is ErrorCode.NONE


def test_classic_group_heartbeat_to_consumer_group_refusals() -> None:
    driver, c, a = mixed()
    assert driver.heartbeat("zz", generation_id=a.generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(c.member_id, generation_id=c.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    wrong = driver.heartbeat(a.member_id, generation_id=a.generation - 1)
    assert wrong is ErrorCode.ILLEGAL_GENERATION


def test_classic_member_is_put_out_when_it_does_not_join_again() -> None:
    driver, c, a = mixed()
    driver.turn(Client("d"))
    assert a.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(REBALANCE_MS // (SESSION_MS - 1)):
        driver.advance(SESSION_MS - 1)
        a.beat()
        driver.turn(c)
    assert a.member_id in driver.consumers.members
    driver.advance(SESSION_MS - 1)
    assert a.member_id not in driver.consumers.members


def test_classic_member_is_put_out_when_it_does_not_sync() -> None:
    driver = ConsumerDriver()
    driver.settle(Client("c"))
    member_id = driver.new_id(protocols=protocols())
    ticket = driver.join(member_id, protocols=protocols(), rebalance_timeout_ms=5_000)
    generation = driver.joined(ticket).generation_id
    driver.advance(4_999)
    driver.heartbeat(member_id, generation_id=generation)
    assert member_id in driver.consumers.members
    driver.advance(1)
    assert member_id not in driver.consumers.members


def test_classic_members_session_is_its_own() -> None:
    driver, c, a = mixed()
    driver.advance(SESSION_MS - 1)
    driver.turn(c)
    assert a.member_id in driver.consumers.members
    driver.advance(1)
    assert list(driver.consumers.members) == ["c"]


# Downgrade


@pytest.mark.parametrize("how", ["leave", "expire", "by hand"])
def test_last_consumer_protocol_member_goes(how: str) -> None:
    driver, c, a = mixed()
    driver.commit(a.member_id, a.generation, offsets={("t", 1): 7}, version=9)
    if how == "leave":
        assert driver.leave_group(c) is ErrorCode.NONE
    elif how == "by hand":
        assert driver.leave((c.member_id, None)) == [ErrorCode.NONE]
    else:
        for _ in range(5):
            driver.advance(SESSION_MS - 1)
            if isinstance(driver.shard.groups[GROUP], ConsumerGroup):
                a.turn()
    assert isinstance(driver.shard.groups[GROUP], ClassicGroup)
    assert [m.member_id for m in driver.classic.roster] == [a.member_id]
    assert driver.classic.state is GroupState.PREPARING, "the members share it out anew"
    assert driver.committed("t", 1) == 7
    assert isinstance(driver.reloaded().shard.groups[GROUP], ClassicGroup)
    joined = driver.joined(driver.join(a.member_id, protocols=protocols(a.partitions)))
    assert (joined.error_code, joined.leader) == (ErrorCode.NONE, a.member_id)


def test_last_consumer_protocol_member_goes_where_no_downgrade_may_be() -> None:
    driver, a, b = classic_pair(migration_policy="upgrade")
    c = Client("c")
    driver.turn(c)
    go_on(a, b, c, driver=driver)
    driver.leave_group(c)
    assert isinstance(driver.shard.groups[GROUP], ConsumerGroup)
    assert len(driver.consumers.members) == 2


def test_static_member_replaced_by_a_classic_one_is_the_last() -> None:
    driver = ConsumerDriver()
    c = Client("c", instance_id="i")
    driver.settle(c)
    a = ClassicClient(driver, driver.new_id(protocols=protocols()))
    a.join()
    go_on(a, c, driver=driver)
    joined = driver.joined(driver.join("", protocols=protocols(), group_instance_id="i"))
    assert joined.error_code == ErrorCode.NONE
    assert isinstance(driver.shard.groups[GROUP], ClassicGroup)
    assert driver.classic.roster.static_id("i") == joined.member_id
    assert driver.classic.state is GroupState.PREPARING


def test_static_member_moves_between_protocols_one_by_one() -> None:
    driver = ConsumerDriver()
    c, d = Client("c", instance_id="i"), Client("d", instance_id="j")
    driver.settle(c, d)
    joined = driver.joined(driver.join("", protocols=protocols(), group_instance_id="i"))
    assert joined.error_code == ErrorCode.NONE
    assert driver.consumers.static_ids["i"] == joined.member_id
    assert driver.turn(c).error_code == ErrorCode.FENCED_INSTANCE_ID
    again = Client("c2", instance_id="i")
    assert driver.turn(again).error_code == ErrorCode.NONE, "it need not have left"
    assert driver.consumers.members["c2"].classic is None


def test_a_group_in_its_first_rebalance_is_upgraded() -> None:
    driver = ConsumerDriver()
    member_id = driver.new_id(protocols=protocols())
    waiting = driver.join(member_id, protocols=protocols())
    assert waiting not in driver.replies
    c = Client("c")
    assert driver.turn(c).error_code == ErrorCode.NONE
    assert driver.joined(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    a = ClassicClient(driver, member_id)
    assert a.join() is ErrorCode.NONE
    go_on(a, c, driver=driver)
    assert sorted([*a.partitions, *c.partitions]) == [0, 1, 2]


def test_sessions_count_on_after_an_upgrade() -> None:
    driver, a, b = classic_pair()
    driver.turn(Client("c"))
    driver.advance(SESSION_MS)
    assert {a.member_id, b.member_id} & driver.consumers.members.keys() == set()


def test_sessions_and_generation_go_on_after_a_downgrade() -> None:
    driver, c, a = mixed()
    epoch = driver.consumers.epoch
    driver.leave_group(c)
    assert driver.classic.generation == epoch
    driver.advance(SESSION_MS)
    assert a.member_id not in driver.classic.roster


def test_group_that_would_be_too_large_is_not_downgraded() -> None:
    driver = ConsumerDriver(replace(consumer_config(), group_size_max=1))
    c = Client("c")
    driver.settle(c)
    members = [ClassicClient(driver, f"x{n}") for n in range(2)]
    for member in members:
        member.join()
    driver.leave_group(c)
    assert isinstance(driver.shard.groups[GROUP], ConsumerGroup)


def test_classic_member_that_waits_for_others_is_left_in_peace() -> None:
    driver = ConsumerDriver()
    c = Client("c")
    driver.settle(c)
    a = ClassicClient(driver, "x")
    assert a.join() is ErrorCode.NONE
    assert a.beat() is ErrorCode.NONE, "what it is to have is not free yet"
    driver.turn(c)
    driver.turn(c)
    assert a.beat() is ErrorCode.REBALANCE_IN_PROGRESS, "now it is"


@pytest.mark.parametrize(
    "fields", [{"session_timeout_ms": 1}, {"member_id": "gone"}, {"protocol_type": ""}]
)
def test_a_refused_join_leaves_an_emptied_groups_offsets_to_a_group(fields: dict[str, Any]) -> None:
    driver = ConsumerDriver()
    driver.commit(offsets={("t", 0): 5})
    c = Client("c")
    driver.settle(c)
    driver.leave_group(c)
    assert driver.joined(driver.join(**fields)).error_code != ErrorCode.NONE
    ticket = driver.ticket()
    driver.act(driver.shard.delete_group(GROUP, ticket))
    assert driver.replies[ticket] is ErrorCode.NONE
    assert driver.committed() is None


def test_an_id_that_was_handed_out_keeps_nobody_of_the_consumer_protocol_away() -> None:
    driver = ConsumerDriver()
    member_id = driver.new_id(protocols=protocols())
    c = Client("c")
    assert driver.turn(c).error_code == ErrorCode.NONE
    driver.settle(c)
    assert c.partitions == [0, 1, 2]
    assert ClassicClient(driver, member_id).join() is ErrorCode.NONE


def test_a_member_that_keeps_its_id_owes_the_new_protocol_no_join() -> None:
    driver = ConsumerDriver()
    c = Client("c")
    driver.settle(c)
    a = ClassicClient(driver, "x")
    a.join()
    driver.turn(c)
    driver.turn(c)
    assert a.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    b = Client("x")
    for _ in range(2 * REBALANCE_MS // 10_000):
        assert driver.turn(b).error_code == driver.turn(c).error_code == ErrorCode.NONE
        driver.advance(10_000)


def test_a_crash_in_the_middle_of_a_large_upgrade_does_not_take_the_generation_back() -> None:
    driver = ConsumerDriver()
    big = (("range", subscription("t", *(f"{n:0200}" for n in range(1_500)))),)
    ids = driver.stable(2, protocols=big)
    for id_ in ids:  # the leader, that comes again, asks for another generation
        driver.join(id_, protocols=big)
    driver.sync(ids[0], dict.fromkeys(ids, assignment()))
    generation = driver.classic.generation
    assert generation > 1
    driver.confirm = False
    driver.beat_soon("c", 0, **Client("c").joining())
    while len(driver.unconfirmed) > 1:
        driver.confirm_one()
        assert driver.reloaded().consumers.epoch >= generation
