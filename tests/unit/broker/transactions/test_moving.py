"""Transactional ids whose partition goes to another broker, and comes from one."""

import asyncio

from tailrace.broker.replicated.partitioning import partition_for
from tailrace.broker.replicated.record_log import to_batch
from tailrace.broker.transactions.coordinator import TRANSACTIONS_TOPIC
from tailrace.broker.transactions.decisions import Producer
from tailrace.broker.transactions.describing import ListFilter
from tailrace.broker.transactions.metadata import NO_PRODUCER_ID, TransactionState
from tailrace.broker.transactions.records import transaction_record
from tailrace.core.errors import OwnershipLost
from tailrace.core.runtime.loop_turns import LoopTurns, Pace
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.ids import TopicPartition
from tests.unit.broker.loops import in_loop, turns, until
from tests.unit.broker.transactions.runtime_support import (
    ID,
    PARTITIONS,
    running_transactions,
)

HOME = TopicPartition(TRANSACTIONS_TOPIC, partition_for(ID, PARTITIONS))
ALL = [HOME._replace(partition=each) for each in range(PARTITIONS)]


@in_loop
async def test_what_another_broker_coordinates_is_refused_and_not_loaded() -> None:
    async with running_transactions(prepared=False) as world:
        world.routes.give(2, *ALL)
        assert await world.coordinator.find(ID) == HOME
        assert await world.init() is E.NOT_COORDINATOR
        assert await world.add(Producer(1, 0)) is E.NOT_COORDINATOR
        assert world.described().error_code == E.NOT_COORDINATOR
        await turns()
        assert world.coordinator.metrics.shards_loaded == 0
        assert world.log.writer is None  # never opened


@in_loop
async def test_who_waits_is_told_when_the_id_moves() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        world.log.auto = False
        adding = asyncio.ensure_future(world.add(producer))
        await turns()
        assert not adding.done()
        world.routes.give(2, HOME)
        assert await adding is E.NOT_COORDINATOR
        assert world.coordinator.metrics.requests_waiting == 0
        assert await world.add(producer) is E.NOT_COORDINATOR


@in_loop
async def test_an_id_that_comes_back_is_what_its_stream_says() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        assert await world.add(producer) is E.NONE
        world.routes.give(2, HOME)
        assert await world.end(producer) is E.NOT_COORDINATOR
        world.routes.give(1, HOME)  # loads in the background: nobody has to ask
        await until(lambda: world.coordinator.metrics.shards_loaded == PARTITIONS)
        assert world.state == "Ongoing"
        assert await world.end(producer) is E.NONE or world.state == "PrepareCommit"


@in_loop
async def test_markers_of_an_id_that_moved_are_the_new_coordinators() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        assert await world.add(producer) is E.NONE
        t0 = TopicPartition("t", 0)
        world.routes.give(3, t0)
        assert await world.end(producer) == producer
        await turns()
        (sent,) = world.peers.sent
        world.routes.give(2, HOME)
        sent.answer.set_result(sent.api.response())  # which says nothing of any marker
        await turns()
        assert world.coordinator.metrics.markers_waiting == 0
        world.routes.give(1, HOME)  # as for a broker that takes the id over
        await until(lambda: len(world.peers.sent) == 2)
        again = world.peers.sent[1]
        assert again.broker_id == 3
        assert again.request == sent.request
        world.routes.give(1, t0)  # a broker that died, say: its partition has moved
        again.answer.set_result(sent.api.response())
        await turns()
        world.routes.give(1, t0)
        await until(lambda: world.state == "CompleteCommit")
        assert len(world.batches()) == 1


@in_loop
async def test_a_load_that_the_move_overtakes_serves_nobody() -> None:
    async with running_transactions(prepared=False) as world:
        world.world.topics.add(TRANSACTIONS_TOPIC, PARTITIONS)
        world.log.opening = asyncio.Event()
        assert await world.init() is E.COORDINATOR_LOAD_IN_PROGRESS
        await turns()
        world.routes.give(2, *ALL)
        assert await world.init() is E.NOT_COORDINATOR
        world.log.opening.set()
        await turns(20)
        assert world.coordinator.metrics.shards_loaded == 0
        assert world.described().error_code == E.NOT_COORDINATOR
        assert world.coordinator.partition_of(ID) == HOME
        world.routes.give(1, HOME)
        await until(lambda: world.described().error_code != E.COORDINATOR_LOAD_IN_PROGRESS)
        assert world.described().error_code == E.TRANSACTIONAL_ID_NOT_FOUND


@in_loop
async def test_only_own_ids_are_listed_and_waited_for() -> None:
    async with running_transactions() as world:
        await world.producer()
        everything = ListFilter(None, frozenset(), -1, None)
        listed = await world.coordinator.list_transactions(everything, Pace(LoopTurns()))
        assert isinstance(listed, list)
        assert [each.transactional_id for each in listed] == [ID]
        world.routes.give(2, HOME)
        assert await world.coordinator.list_transactions(everything, Pace(LoopTurns())) == []


@in_loop
async def test_no_two_coordinators_write_markers_under_one_epoch() -> None:
    """Else one that was slow could end the producer's next transaction with the last one's."""
    async with running_transactions() as world:
        producer = await world.producer()
        assert await world.add(producer) is E.NONE
        world.routes.give(3, TopicPartition("t", 0))
        assert await world.end(producer) == producer
        for sent in range(1, 4):
            await until(lambda sent=sent: len(world.peers.sent) == sent)
            await world.restart()  # before any marker is answered: nothing more is written
        epochs = [each.request.markers[0].coordinator_epoch for each in world.peers.sent]
        assert epochs == sorted(set(epochs))


@in_loop
async def test_what_another_broker_decided_is_brought_about_although_nobody_asks() -> None:
    """This one was paused meanwhile; it lost its log, and no change of owners tells it of that."""
    async with running_transactions() as world:
        assert await world.add(await world.producer()) is E.NONE
        runner = world.coordinator._partitions.runner(ID)
        assert runner is not None
        assert runner.machine is not None
        open_now = runner.machine.transactions[ID].current
        decided = open_now.prepare(TransactionState.PREPARE_COMMIT, 0, NO_PRODUCER_ID, 0)
        own = world.world.broker.partitions.get(HOME)
        assert own is not None
        _ = await own.append(to_batch([transaction_record(decided)], 0))
        world.writer.fail(OwnershipLost("another broker had it"))
        world.coordinator.abort_timed_out()  # as it does every ten seconds
        await until(lambda: len(world.batches()) == 1)
        await until(lambda: world.state == "CompleteCommit")
