"""Who is asked about a transaction, and what is made of every kind of answer."""

from collections.abc import Sequence
from typing import Any

import pytest

from tailrace.broker.peers.errors import PeerLost
from tailrace.broker.replicated.machine import Answer
from tailrace.broker.replicated.partitions import answer_now
from tailrace.broker.transactions.decisions import Producer
from tailrace.broker.transactions.metadata import VERSION_2
from tailrace.broker.transactions.peer_requests import Question
from tailrace.broker.transactions.verification import Verification
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import ADD_PARTITIONS_TO_TXN
from tailrace.protocol.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tests.unit.broker.loops import in_loop, turns
from tests.unit.broker.peers.support import FakePeers, FakeRoutes

HOME = TopicPartition("__transaction_state", 3)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class World:
    """A coordinator of this broker that says yes to everything, and other brokers."""

    def __init__(self) -> None:
        self.verifies = True
        self.home: TopicPartition | None = HOME
        self.asked: list[tuple[Any, ...]] = []
        self.routes, self.peers = FakeRoutes(), FakePeers()
        self.verification = Verification(self, self.routes, self.peers)

    def partition_of(self, _transactional_id: str) -> TopicPartition | None:
        return self.home

    def add(self, *what: Any) -> Answer:
        self.asked.append(("add", *what))
        return answer_now(E.NONE)

    def verify(
        self, name: str, producer_id: int, epoch: int, partitions: Sequence[TopicPartition]
    ) -> Answer:
        self.asked.append(("verify", name, producer_id, epoch, partitions))
        return answer_now(dict.fromkeys(partitions, E.NONE))


def question(*partitions: TopicPartition, adds: bool = False, name: str = "x") -> Question:
    return Question(name, 7, 1, partitions or (T0,), adds)


def answered(*codes: E, name: str = "x") -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        for index, code in enumerate(codes)
    ]
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
    result = AddPartitionsToTxnResult(transactional_id=name, topic_results=[topic])
    return AddPartitionsToTxnResponse(results_by_transaction=[result])


@in_loop
async def test_an_own_transaction_is_asked_about_here() -> None:
    world = World()
    assert await world.verification.ask(question(T0, T1)) == {T0: E.NONE, T1: E.NONE}
    assert await world.verification.ask(question(T0, adds=True)) == {T0: E.NONE}
    assert world.asked == [
        ("verify", "x", 7, 1, (T0, T1)),
        ("add", "x", Producer(7, 1), (T0,), VERSION_2),
    ]
    assert world.peers.sent == []


@pytest.mark.parametrize("adds", [True, False])
def test_another_brokers_transaction_is_asked_about_there(*, adds: bool) -> None:
    @in_loop
    async def body() -> None:
        world = World()
        world.routes.give(2, HOME)
        asking = world.verification.ask(question(T0, T1, adds=adds))
        await turns()
        (sent,) = world.peers.sent
        assert (sent.broker_id, sent.api) == (2, ADD_PARTITIONS_TO_TXN)
        assert [each.verify_only for each in sent.request.transactions] == [not adds]
        sent.answer.set_result(answered(E.NONE, E.TRANSACTION_ABORTABLE))
        assert await asking == {T0: E.NONE, T1: E.TRANSACTION_ABORTABLE}
        assert world.asked == []
        await world.verification.close()

    body()


@in_loop
async def test_no_answer_is_not_a_yes() -> None:
    world = World()
    world.routes.give(2, HOME)
    asking = world.verification.ask(question(T0, T1))
    await turns()
    world.peers.sent[0].answer.set_exception(PeerLost("gone"))
    assert await asking == {T0: E.NETWORK_EXCEPTION, T1: E.NETWORK_EXCEPTION}
    waiting = world.verification.ask(question())
    await turns()
    await world.verification.close()
    assert await waiting == {T0: E.NETWORK_EXCEPTION}


@in_loop
async def test_without_a_coordinator_it_may_be_asked_again() -> None:
    world = World()
    world.routes.give(None, HOME)
    assert await world.verification.ask(question()) == {T0: E.COORDINATOR_NOT_AVAILABLE}
    world.home = None
    await world.verification.ask(question())
    assert [kind for kind, *_ in world.asked] == ["verify"]  # which knows what to say


@in_loop
async def test_where_nothing_is_verified_nobody_else_is_asked() -> None:
    world = World()
    world.verifies = False
    world.routes.give(2, HOME)
    assert await world.verification.ask(question()) == {T0: E.NONE}
    adding = world.verification.ask(question(adds=True))  # which is no question of trust
    await turns()
    world.peers.sent[0].answer.set_result(answered(E.NONE))
    assert await adding == {T0: E.NONE}
    await world.verification.close()
