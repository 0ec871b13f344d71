"""The writer of markers by itself: bounds, repetition, what each answer of a partition means."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC
from tailrace.broker.peers.errors import PeerTimeout
from tailrace.broker.transactions import markers as module
from tailrace.broker.transactions.decisions import Producer
from tailrace.broker.transactions.marker_places import OthersPartitions, OwnPartitions
from tailrace.broker.transactions.markers import MarkerUser, MarkerWriter
from tailrace.broker.transactions.metrics import TransactionMetrics
from tailrace.broker.transactions.values import Markers
from tailrace.core.errors import CoreError, Unavailable
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.unit.broker.loops import in_loop, turns, until
from tests.unit.broker.peers.support import FakePeers, FakeRoutes, Sent


class Partition:
    """A partition whose answers the test gives; `append_marker` as `PartitionLog` has it."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.waiting: list[asyncio.Future[Any]] = []

    def append_marker(self, *what: Any) -> "asyncio.Future[Any]":
        self.asked.append(what)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        return future

    def answer(self, outcome: object = None) -> None:
        self.waiting.pop(0).set_result(outcome)


class World:
    """A writer over partitions that are always open, or whose opening fails."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.refused: dict[TopicPartition, E] = {}
        self.written: list[Markers] = []
        self.fenced: list[Markers] = []
        self.is_owner = False
        self.looked: list[str] = []
        self.unread: list[CoreError] = []
        self.metrics = TransactionMetrics()
        logs: Any = self
        self.routes = FakeRoutes()
        self.peers = FakePeers()
        self.writer = MarkerWriter(
            OwnPartitions(logs, logs),
            OthersPartitions(self.peers),
            self.routes,
            MarkerUser(self.written.append, self.on_fenced, self.look),
            self.metrics,
        )

    async def look(self, topic: str) -> None:
        self.looked.append(topic)
        if self.unread:
            raise self.unread.pop()

    def on_fenced(self, markers: Markers) -> bool:
        self.fenced.append(markers)
        return self.is_owner

    def visit(self, topic: str, partition: int, visitor: Callable[[Any], None]) -> None:
        at = TopicPartition(topic, partition)
        visitor(self.refused[at] if at in self.refused else self.at(partition, topic))

    def end_transaction(self, partition: int, *what: Any) -> "asyncio.Future[Any]":
        return self.at(partition, OFFSETS_TOPIC).append_marker(*what)

    def at(self, partition: int, topic: str = "t") -> Partition:
        return self.partitions.setdefault(TopicPartition(topic, partition), Partition())


def markers(*partitions: int, name: str = "x", topic: str = "t", epoch: int = 1) -> Markers:
    wanted = frozenset(TopicPartition(topic, each) for each in partitions)
    return Markers(name, Producer(7, epoch), True, wanted, 2)


@in_loop
async def test_all_partitions_have_theirs_before_it_is_told() -> None:
    world = World()
    wanted = markers(0, 1)
    world.writer.write(wanted, 5)
    assert world.at(0).asked == world.at(1).asked == [(7, 1, 5, True, 2)]
    assert world.metrics.markers_waiting == 2
    world.at(1).answer()
    await turns()
    assert world.written == []
    world.at(0).answer()
    await turns()
    assert world.written == [wanted]
    assert (world.metrics.markers_total, world.metrics.markers_waiting) == (2, 0)


@in_loop
async def test_offsets_are_ended_by_their_groups() -> None:
    world = World()
    world.writer.write(markers(3, topic=OFFSETS_TOPIC), 5)
    assert world.at(3, OFFSETS_TOPIC).asked == [(7, 1, 5, True, 2)]
    world.at(3, OFFSETS_TOPIC).answer(E.NONE)
    await turns()
    assert len(world.written) == 1


@in_loop
async def test_a_transaction_without_partitions_is_ended_at_once() -> None:
    world = World()
    world.writer.write(markers(), 5)
    assert world.written == [markers()]


@in_loop
async def test_where_nothing_is_open_any_more_no_marker_is_missed() -> None:
    world = World()
    world.writer.write(markers(0), 5)
    world.at(0).answer(E.INVALID_PRODUCER_EPOCH)
    await turns()
    assert world.written == [markers(0)]
    assert (world.metrics.markers_total, world.metrics.markers_waiting) == (0, 0)


@in_loop
async def test_a_partition_is_gone_once_its_topic_says_so() -> None:
    world = World()
    world.unread = [Unavailable("not now")]
    world.refused[TopicPartition("t", 1)] = E.UNKNOWN_TOPIC_OR_PARTITION
    world.writer.write(markers(0, 1), 5)
    world.at(0).answer()
    await until(lambda: world.written == [markers(0, 1)])
    assert world.looked == ["t", "t"]
    assert (world.metrics.markers_total, world.metrics.markers_waiting) == (1, 0)
    await world.writer.close()


@in_loop
async def test_a_partition_that_this_broker_had_not_heard_of_gets_its_marker() -> None:
    """Another broker made it; the one that took it into the transaction is gone by now."""
    world = World()
    at = TopicPartition("t", 7)
    world.refused[at] = E.UNKNOWN_TOPIC_OR_PARTITION
    world.routes.give(None, at)
    world.writer.write(markers(7), 5)
    assert world.written == []
    world.refused.clear()  # it is known by the look
    world.routes.give(2, at)
    await until(lambda: bool(world.peers.sent))
    (sent,) = world.peers.sent
    sent.answer.set_result(said(sent, E.NONE))
    await until(lambda: world.written == [markers(7)])
    await world.writer.close()


@in_loop
async def test_only_what_failed_is_written_again() -> None:
    world = World()
    world.refused[TopicPartition("t", 1)] = E.NOT_LEADER_OR_FOLLOWER
    world.writer.write(markers(0, 1, 2), 5)
    world.at(0).answer()
    world.at(2).answer(E.NOT_LEADER_OR_FOLLOWER)
    await turns()
    assert world.metrics.marker_failures_total == 2
    world.refused.clear()
    await until(lambda: bool(world.at(1).waiting and world.at(2).waiting))
    assert len(world.at(0).asked) == 1
    world.at(1).answer()
    world.at(2).answer()
    await turns()
    assert world.written == [markers(0, 1, 2)]
    await world.writer.close()


@in_loop
async def test_a_newer_coordinator_ends_it() -> None:
    world = World()
    world.writer.write(markers(0, 1), 5)
    world.at(0).answer(E.TRANSACTION_COORDINATOR_FENCED)
    await turns()
    assert world.fenced == [markers(0, 1)]
    world.at(1).answer()
    await turns()
    assert world.written == []
    assert world.metrics.markers_waiting == 0


@in_loop
async def test_an_owner_that_is_fenced_tries_again() -> None:
    world = World()
    world.is_owner = True
    world.writer.write(markers(0, 1, 2), 5)
    for partition in (0, 1):
        world.at(partition).answer(E.TRANSACTION_COORDINATOR_FENCED)
    world.at(2).answer()
    await turns()
    assert world.fenced == [markers(0, 1, 2)]  # once for all of them
    await until(lambda: bool(world.at(0).waiting and world.at(1).waiting))
    world.at(0).answer()
    world.at(1).answer(E.TRANSACTION_COORDINATOR_FENCED)
    await turns()
    assert len(world.fenced) == 2
    await until(lambda: bool(world.at(1).waiting))
    world.at(1).answer()
    await turns()
    assert world.written == [markers(0, 1, 2)]
    assert world.metrics.markers_waiting == 0


@in_loop
async def test_a_coordinator_that_loaded_again_asks_again_and_hears_once() -> None:
    world = World()
    world.writer.write(markers(0), 5)
    world.writer.write(markers(0), 6)
    assert [each[2] for each in world.at(0).asked] == [5, 6]
    assert world.metrics.markers_waiting == 1
    world.at(0).answer()
    await turns()
    assert world.written == []  # of the former life
    world.at(0).answer()
    await turns()
    assert world.written == [markers(0)]


@in_loop
async def test_so_many_are_in_flight_and_the_rest_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_FLIGHT_MAX", 2)
    world = World()
    world.writer.write(markers(0, 1, 2), 5)
    world.writer.write(markers(3, name="y"), 5)
    assert sorted(at.partition for at in world.partitions) == [0, 1]
    world.at(0).answer()
    await turns()
    assert sorted(at.partition for at in world.partitions) == [0, 1, 2]
    world.at(1).answer()
    world.at(2).answer()
    await turns()
    assert world.written == [markers(0, 1, 2)]
    assert world.at(3).asked
    world.at(3).answer()
    await turns()
    assert len(world.written) == 2


@in_loop
async def test_after_its_end_nothing_is_written_or_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_FLIGHT_MAX", 1)
    world = World()
    world.writer.write(markers(0, 1), 5)
    await world.writer.close()
    world.at(0).answer()
    await turns()
    assert world.written == []
    assert TopicPartition("t", 1) not in world.partitions
    assert world.metrics.markers_waiting == 0


@in_loop
async def test_many_partitions_that_answer_at_once_are_one_step() -> None:
    """A topic of many partitions may be deleted within a transaction."""
    world = World()
    wanted = markers(*range(2_000))
    world.refused = dict.fromkeys(wanted.partitions, E.UNKNOWN_TOPIC_OR_PARTITION)
    world.writer.write(wanted, 5)
    await until(lambda: world.written == [wanted])
    assert world.looked == ["t"]
    assert world.metrics.markers_waiting == 0
    await world.writer.close()


# Partitions of other brokers


def said(sent: Sent, code: E) -> WriteTxnMarkersResponse:
    """Return what a broker says that has this code for all."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=i, error_code=code)
                            for i in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in sent.request.markers
        ]
    )


def at(*partitions: int, topic: str = "t") -> list[TopicPartition]:
    return [TopicPartition(topic, each) for each in partitions]


@in_loop
async def test_each_broker_is_asked_for_its_own() -> None:
    world = World()
    world.routes.give(2, *at(1, 2), *at(0, topic=OFFSETS_TOPIC))
    world.routes.give(3, *at(3))
    wanted = markers(0, 1, 2, 3)
    offsets = markers(0, topic=OFFSETS_TOPIC, name="y")
    world.writer.write(wanted, 5)
    await turns()
    assert [each.broker_id for each in world.peers.sent] == [2, 3]
    world.writer.write(offsets, 6)
    (marker,) = world.peers.sent[0].request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 1, 5)
    assert (marker.transaction_result, marker.transaction_version) == (True, 2)
    assert [(each.name, each.partition_indexes) for each in marker.topics] == [("t", [1, 2])]
    world.at(0).answer()
    for sent in world.peers.sent[:2]:
        sent.answer.set_result(said(sent, E.NONE))
    await turns()
    assert world.written == [wanted]
    (third,) = world.peers.sent[2:]
    assert [each.name for each in third.request.markers[0].topics] == [OFFSETS_TOPIC]
    assert world.at(0, OFFSETS_TOPIC).asked == []
    third.answer.set_result(said(third, E.NONE))
    await turns()
    assert world.written == [wanted, offsets]
    await world.writer.close()


@in_loop
async def test_markers_that_wait_for_a_broker_travel_together() -> None:
    world = World()
    world.routes.give(2, *at(0, 1))
    names = ["a", "b", "c"]
    for name in names:
        world.writer.write(markers(0, 1, name=name, epoch=names.index(name)), 5)
        await turns()
    first = world.peers.sent[0]
    assert len(first.request.markers) == 1
    first.answer.set_result(said(first, E.NONE))
    await turns()
    second = world.peers.sent[1]
    assert [each.producer_epoch for each in second.request.markers] == [1, 2]
    second.answer.set_result(said(second, E.NONE))
    await turns()
    assert [each.transactional_id for each in world.written] == names
    await world.writer.close()


@pytest.mark.parametrize(
    "failure", [E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_TOPIC_OR_PARTITION, PeerTimeout("late")]
)
def test_what_another_broker_does_not_do_is_asked_of_who_has_it_then(failure: Any) -> None:
    @in_loop
    async def body() -> None:
        world = World()
        world.routes.give(2, *at(0))
        world.writer.write(markers(0), 5)
        await turns()
        (sent,) = world.peers.sent
        if isinstance(failure, E):
            sent.answer.set_result(said(sent, failure))
        else:
            sent.answer.set_exception(failure)
        await turns()
        assert world.metrics.marker_failures_total == 1
        world.routes.give(1, *at(0))
        world.writer.follow_owners(lambda _name: True)
        await turns()
        world.at(0).answer()  # at once, no pause is waited for
        await turns()
        assert world.written == [markers(0)]
        await world.writer.close()

    body()


@in_loop
async def test_a_broker_that_hangs_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_FLIGHT_MAX", 2)
    world = World()
    world.routes.give(2, *at(0, 1, 2))
    world.writer.write(markers(0, 1, 2), 5)
    world.writer.write(markers(3, 4, name="y"), 5)
    await turns()
    world.at(3).answer()
    world.at(4).answer()
    await turns()
    assert world.written == [markers(3, 4, name="y")]
    (sent,) = world.peers.sent
    sent.answer.set_result(said(sent, E.NONE))
    await turns()
    (_, rest) = world.peers.sent
    rest.answer.set_result(said(rest, E.NONE))
    await turns()
    assert world.written[1:] == [markers(0, 1, 2)]
    await world.writer.close()


@in_loop
async def test_an_id_that_moved_away_is_left_to_its_coordinator() -> None:
    world = World()
    world.writer.write(markers(0, name="mine"), 5)
    world.writer.write(markers(1, name="theirs"), 5)
    world.writer.follow_owners(lambda name: name == "mine")
    world.at(0).answer()
    world.at(1).answer()
    await turns()
    assert [each.transactional_id for each in world.written] == ["mine"]
    assert world.metrics.markers_waiting == 0
    await world.writer.close()


@in_loop
async def test_nobody_to_ask_is_found_out_here() -> None:
    """A topic that is gone has no owner: nothing is left open there."""
    world = World()
    world.routes.give(None, *at(0, 1))
    world.refused = dict.fromkeys(at(0, 1), E.UNKNOWN_TOPIC_OR_PARTITION)
    world.writer.write(markers(0, 1), 5)
    await until(lambda: world.written == [markers(0, 1)])
    assert world.peers.sent == []
    await world.writer.close()
