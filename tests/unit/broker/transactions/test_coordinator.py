"""The coordinator over real partitions: stored, marked, failing, restarting, timing out."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
import re2

from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC
from tailrace.broker.replicated.partitioning import partition_for
from tailrace.broker.transactions.config import TransactionConfig
from tailrace.broker.transactions.coordinator import TRANSACTIONS_TOPIC
from tailrace.broker.transactions.decisions import Producer
from tailrace.broker.transactions.describing import list_filter
from tailrace.core.errors import BookieUnavailable, LedgerFenced, NotEnoughBookies
from tailrace.core.runtime.loop_turns import LoopTurns, Pace
from tailrace.core.runtime.metrics import Metrics
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.messages.list_transactions import ListTransactionsRequest
from tailrace.protocol.records.batch import read_header
from tests.unit.broker.loops import in_loop, turns, until
from tests.unit.broker.transactions.runtime_support import (
    ADD_WAIT_MS,
    ID,
    PARTITIONS,
    TIMEOUT_MS,
    Transactions,
    running_transactions,
)

NEIGHBOURS = [
    name
    for name in map("other-{}".format, range(99))
    if partition_for(name, PARTITIONS) == partition_for(ID, PARTITIONS)
]
"""Ids that live in the same partition."""

# The thin way


@in_loop
async def test_the_first_id_makes_the_internal_topic() -> None:
    async with running_transactions(prepared=False) as world:
        assert await world.init() is E.NOT_COORDINATOR
        assert await world.prepare() is E.NONE
        topic = world.world.topics.get(TRANSACTIONS_TOPIC)
        assert topic is not None
        assert topic.partition_count == PARTITIONS
        assert topic.configs == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": "104857600",
            "min.insync.replicas": "1",
        }
        assert await world.init() == Producer(1000, 0)


@in_loop
async def test_a_topic_that_cannot_be_made_is_no_coordinator() -> None:
    async with running_transactions(prepared=False) as world:

        async def refuse(*_: object) -> None:
            raise NotEnoughBookies

        world.world.topics.create = refuse  # type: ignore[method-assign,assignment]
        assert await world.prepare() is E.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_is_in_every_partition_before_the_id_is_free(committed: bool) -> None:
    @in_loop
    async def story() -> None:
        async with running_transactions() as world:
            producer = await world.producer()
            assert await world.add(producer, 0, 2) is E.NONE
            assert world.state == "Ongoing"
            assert await world.end(producer, committed=committed) == producer
            await turns()
            assert world.state == ("CompleteCommit" if committed else "CompleteAbort")
            for partition in (0, 2):
                (marker,) = world.batches(partition)
                header = read_header(marker)
                assert header.is_control
                assert (header.producer_id, header.producer_epoch) == producer
            assert world.coordinator.metrics.markers_total == 2
            assert world.coordinator.metrics.markers_waiting == 0

    story()


@in_loop
async def test_offsets_are_ended_by_their_groups() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        offsets = TopicPartition(OFFSETS_TOPIC, 1)
        assert await world.coordinator.add(ID, producer, [offsets], 0) is E.NONE
        assert await world.end(producer) == producer
        await turns()
        assert world.state == "CompleteCommit"
        epoch = world.log_epoch()
        assert world.groups.ended == [(1, *producer, epoch, True, 0)]


@in_loop
async def test_what_is_asked_meanwhile() -> None:
    async with running_transactions(auto=False) as world:
        beginning = asyncio.ensure_future(world.init())
        await turns()
        assert await world.init() is E.CONCURRENT_TRANSACTIONS
        assert await world.end(Producer(1000, 0), version=2) is E.CONCURRENT_TRANSACTIONS
        assert await world.end(Producer(1000, -1)) is E.CONCURRENT_TRANSACTIONS
        assert await world.end(Producer(1000, 1)) is E.PRODUCER_FENCED
        world.writer.confirm()
        producer = await beginning
        assert producer == Producer(1000, 0)


@in_loop
async def test_refusals_that_need_no_shard() -> None:
    async with running_transactions() as world:
        ask = world.coordinator
        assert await ask.init_producer_id("", TIMEOUT_MS, None) is E.INVALID_REQUEST
        for timeout_ms in (0, -1, 900_001):
            code = await ask.init_producer_id(ID, timeout_ms, None)
            assert code is E.INVALID_TRANSACTION_TIMEOUT
        assert isinstance(await ask.init_producer_id(ID, 900_000, None), Producer)
        nobody, t0 = Producer(1, 1), TopicPartition("t", 0)
        assert await ask.add("", nobody, [t0], 0) is E.INVALID_REQUEST
        assert await ask.end("", nobody, 0, committed=True) is E.INVALID_REQUEST
        assert await ask.verify("", *nobody, [t0]) == {t0: E.INVALID_REQUEST}
        assert ask.describe("").error_code == E.INVALID_REQUEST


@in_loop
async def test_an_id_that_nobody_knows() -> None:
    async with running_transactions() as world:
        nobody, t0 = Producer(1, 1), TopicPartition("t", 0)
        unknown = E.INVALID_PRODUCER_ID_MAPPING
        assert await world.add(nobody) is unknown
        assert await world.end(nobody) is unknown
        assert await world.coordinator.verify(ID, *nobody, [t0]) == {t0: unknown}
        assert await world.take_in(*nobody, [t0]) == {t0: unknown}
        assert world.described().error_code == E.TRANSACTIONAL_ID_NOT_FOUND


@in_loop
async def test_verification_can_be_switched_off() -> None:
    config = TransactionConfig(topic_partitions=PARTITIONS, verifies_partitions=False)
    async with running_transactions(config=config) as world:
        t0 = TopicPartition("t", 0)
        unknown = {t0: E.INVALID_PRODUCER_ID_MAPPING}
        assert await world.coordinator.verify(ID, 1, 1, [t0]) == {t0: E.NONE}
        assert await world.coordinator.verify(ID, -1, -1, [t0]) == unknown  # nobody's transaction
        world.coordinator.use(replace(config, verifies_partitions=True))
        assert await world.coordinator.verify(ID, 1, 1, [t0]) == unknown


# Version 2


@in_loop
async def test_the_next_transaction_waits_for_the_markers_of_the_former() -> None:
    async with running_transactions(auto=False) as world:
        beginning = asyncio.ensure_future(world.init())
        await turns()
        world.writer.confirm()
        producer = await beginning
        assert isinstance(producer, Producer)
        t0 = TopicPartition("t", 0)
        adding = world.take_in(*producer, [t0])
        await turns()
        world.writer.confirm()
        assert await adding == {t0: E.NONE}
        ending = asyncio.ensure_future(world.end(producer, version=2))
        await turns()
        world.writer.confirm()
        after = await ending
        assert after == Producer(producer.producer_id, 1)
        next_adding = world.take_in(*after, [t0])
        await turns()
        assert not next_adding.done()
        marker_writer = world.world.log("t", 0).writer
        assert marker_writer is not None
        marker_writer.confirm()  # the marker is there
        await turns()
        world.writer.confirm()  # the end is stored
        await turns()
        world.writer.confirm()  # so is the new beginning
        assert await next_adding == {t0: E.NONE}
        assert world.state == "Ongoing"


@in_loop
async def test_nobody_waits_for_ever_for_an_id_that_stays_busy() -> None:
    async with running_transactions(auto=False) as world:
        beginning = asyncio.ensure_future(world.init())
        await turns()
        t0 = TopicPartition("t", 0)
        adding = world.take_in(1000, 0, [t0])
        await turns()
        assert not adding.done()
        world.clock.advance_ms(ADD_WAIT_MS)
        world.coordinator.fire_due()
        assert await adding == {t0: E.CONCURRENT_TRANSACTIONS}
        world.writer.confirm()
        await beginning


@in_loop
async def test_all_who_waited_for_one_id_are_served() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        partitions = [TopicPartition("t", each) for each in range(3)]
        answers = [world.take_in(*producer, [each]) for each in partitions]
        assert [await each for each in answers] == [{each: E.NONE} for each in partitions]
        assert [each.partitions for each in world.described().topics] == [[0, 1, 2]]


@in_loop
async def test_an_end_in_version_2_gives_the_next_epoch_and_knows_its_repetition() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        assert await world.add(producer, version=2) is E.NONE
        after = Producer(producer.producer_id, 1)
        assert await world.end(producer, version=2) == after
        await turns()
        assert await world.end(producer, version=2) == after
        assert await world.end(producer, committed=False, version=2) is E.INVALID_TXN_STATE
        (marker,) = world.batches()
        assert read_header(marker).producer_epoch == 1
        assert await world.end(after, committed=False, version=2) == after._replace(epoch=2)
        await turns()
        assert world.state == "CompleteAbort"


# Fencing, timeouts, expiry


@in_loop
async def test_a_second_producer_takes_over_in_two_steps() -> None:
    async with running_transactions() as world:
        first = await world.producer()
        assert await world.add(first) is E.NONE
        assert await world.init() is E.CONCURRENT_TRANSACTIONS
        await turns()
        assert world.state == "CompleteAbort"
        second = await world.producer()
        assert second == Producer(first.producer_id, 2)
        for zombies in (world.add(first), world.end(first), world.end(first, version=2)):
            assert await zombies is E.PRODUCER_FENCED


@in_loop
async def test_a_transaction_that_is_open_too_long_is_aborted() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        assert await world.add(producer) is E.NONE
        world.clock.advance_ms(TIMEOUT_MS)
        world.coordinator.abort_timed_out()
        await turns()
        assert world.state == "Ongoing"
        world.clock.advance_ms(1)
        world.coordinator.abort_timed_out()
        world.coordinator.abort_timed_out()
        await until(lambda: world.state == "CompleteAbort")
        assert world.coordinator.metrics.timeouts_total == 1
        assert await world.end(producer) is E.PRODUCER_FENCED
        (marker,) = world.batches()
        assert read_header(marker).producer_epoch == producer.epoch + 1


@in_loop
async def test_ids_that_are_not_used_are_forgotten() -> None:
    config = TransactionConfig(topic_partitions=PARTITIONS, id_expiration_ms=1_000)
    async with running_transactions(config=config) as world:
        producer = await world.producer()
        world.clock.advance_ms(999)
        world.coordinator.remove_expired()
        await turns()
        assert world.state == "Empty"
        world.clock.advance_ms(1)
        world.coordinator.remove_expired()
        assert await world.init() is E.CONCURRENT_TRANSACTIONS
        waiting = world.take_in(*producer, [TopicPartition("t", 0)])
        await turns()
        assert set((await waiting).values()) == {E.INVALID_PRODUCER_ID_MAPPING}
        assert world.described().error_code == E.TRANSACTIONAL_ID_NOT_FOUND
        await world.restart()
        await world.prepare()
        assert world.described().error_code == E.TRANSACTIONAL_ID_NOT_FOUND


@in_loop
async def test_open_transactions_never_expire() -> None:
    config = TransactionConfig(topic_partitions=PARTITIONS, id_expiration_ms=1_000)
    async with running_transactions(config=config) as world:
        assert await world.add(await world.producer()) is E.NONE
        world.clock.advance_ms(10_000)
        world.coordinator.remove_expired()
        await turns()
        assert world.state == "Ongoing"


# Markers


@in_loop
async def test_markers_are_written_until_they_are_there() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        assert await world.add(producer, 0, 1) is E.NONE
        world.world.log("t", 1).open_error = BookieUnavailable("b1")
        assert await world.end(producer) == producer
        await turns()
        assert world.state == "PrepareCommit"
        assert world.coordinator.metrics.marker_failures_total == 1
        assert world.coordinator.metrics.markers_waiting == 1
        assert await world.end(producer) is E.CONCURRENT_TRANSACTIONS
        world.world.log("t", 1).open_error = None
        world.clock.advance_ms(100)  # the pause after a failed opening
        await until(lambda: world.state == "CompleteCommit")
        assert len(world.batches(1)) == 1
        assert len(world.batches(0)) == 1


@in_loop
async def test_a_partition_that_is_gone_needs_no_marker() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        assert await world.add(producer, 0, 1) is E.NONE
        await world.world.topics.delete("t")
        assert await world.end(producer) == producer
        await turns()
        assert world.state == "CompleteCommit"
        assert world.coordinator.metrics.markers_total == 0


async def fenced(world: Transactions) -> Producer:
    """Return a producer with an open transaction where a newer coordinator wrote a marker."""
    producer = await world.producer()
    assert await world.add(producer) is E.NONE
    log = await world.log_of()
    newer = log.append_marker(*producer, world.log_epoch() + 1, committed=False)
    assert not isinstance(await newer, E)
    return producer


@in_loop
async def test_a_coordinator_that_was_taken_over_learns_it_from_a_partition() -> None:
    async with running_transactions() as world:
        producer = await fenced(world)
        assert await world.end(producer) == producer
        world.writer.error = LedgerFenced("another owner")
        await turns()
        assert world.coordinator.metrics.shard_failures_total == 1


@in_loop
async def test_a_marker_of_nobodys_coordinator_holds_up_its_own_id_alone() -> None:
    async with running_transactions() as world:
        producer = await fenced(world)
        assert await world.end(producer) == producer
        await turns()
        assert world.state == "PrepareCommit"
        assert await world.init() is E.CONCURRENT_TRANSACTIONS
        name, metrics = NEIGHBOURS[0], world.coordinator.metrics
        other = await world.coordinator.init_producer_id(name, TIMEOUT_MS, None)
        assert isinstance(other, Producer)
        assert (metrics.shard_failures_total, metrics.marker_failures_total) == (0, 1)
        await world.restart()  # at a higher epoch
        await until(lambda: world.state == "CompleteCommit")


# Failing and restarting


@in_loop
async def test_a_failed_append_tells_whoever_waits_and_reads_again() -> None:
    async with running_transactions(auto=False) as world:
        beginning = asyncio.ensure_future(world.init())
        await turns()
        world.writer.fail(BookieUnavailable("b1"))
        assert await beginning is E.NOT_COORDINATOR
        assert await world.prepare() is E.NONE
        assert world.described().error_code == E.TRANSACTIONAL_ID_NOT_FOUND
        assert world.coordinator.metrics.requests_waiting == 0


@in_loop
async def test_while_it_loads() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        await world.restart()
        world.log.opening = asyncio.Event()
        loading = E.COORDINATOR_LOAD_IN_PROGRESS
        assert await world.init() is loading
        assert await world.add(producer) is loading
        assert await world.end(producer) is loading
        assert world.described().error_code == loading
        world.log.opening.set()
        assert await world.prepare() is E.NONE
        assert world.state == "Empty"


@pytest.mark.parametrize("committed", [True, False])
def test_what_was_decided_before_a_crash_is_finished_after_it(committed: bool) -> None:
    @in_loop
    async def story() -> None:
        async with running_transactions() as world:
            producer = await world.producer()
            assert await world.add(producer, 0, 1) is E.NONE
            world.world.log("t", 1).open_error = BookieUnavailable("b1")
            assert await world.end(producer, committed=committed) == producer
            await turns()
            assert world.state.startswith("Prepare")
            await world.restart()
            world.world.log("t", 1).open_error = None
            end = "CompleteCommit" if committed else "CompleteAbort"
            await until(lambda: world.state == end)
            assert len(world.batches(1)) == 1
            assert len(world.batches(0)) == 2  # one of each life; the second says nothing new
            assert await world.end(producer, committed=committed) == producer
            assert await world.end(producer, committed=not committed) is E.INVALID_TXN_STATE

    story()


@in_loop
async def test_an_open_transaction_goes_on_after_a_restart() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        assert await world.add(producer, 0) is E.NONE
        await world.restart()
        await world.prepare()
        assert await world.add(producer, 1) is E.NONE
        assert [each.partitions for each in world.described().topics] == [[0, 1]]
        assert await world.end(producer) == producer


@in_loop
async def test_stopping_answers_whoever_waits() -> None:
    async with running_transactions(auto=False) as world:
        beginning = asyncio.ensure_future(world.init())
        await turns()
        await world.coordinator.close()
        assert await beginning is E.NOT_COORDINATOR
        assert await world.init() is E.NOT_COORDINATOR


@in_loop
async def test_an_append_that_fails_while_it_stops_is_nobodys_to_read_again() -> None:
    async with running_transactions(auto=False) as world:
        beginning = asyncio.ensure_future(world.init())
        await turns()
        stopping = asyncio.ensure_future(world.coordinator.close())
        await turns(1)
        world.writer.fail(BookieUnavailable("b1"))
        await stopping
        assert await beginning is E.NOT_COORDINATOR


@in_loop
async def test_a_load_that_outlives_its_topic_serves_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        assert await world.add(producer) is E.NONE
        world.world.log("t", 0).open_error = BookieUnavailable("b1")
        assert await world.end(producer) == producer
        await world.restart()
        world.log.opening = asyncio.Event()
        assert await world.init() is E.COORDINATOR_LOAD_IN_PROGRESS
        topic = world.world.topics.get(TRANSACTIONS_TOPIC)
        assert topic is not None
        await world.coordinator.on_topic_deleting(topic)
        world.log.opening.set()
        await turns(20)
        assert world.coordinator.metrics.shards_loaded == 0
        assert "task_failed" not in caplog.text


@in_loop
async def test_without_its_topic_it_coordinates_nothing() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        await world.world.topics.delete(TRANSACTIONS_TOPIC)
        assert await world.end(producer) is E.NOT_COORDINATOR
        assert world.described().error_code == E.NOT_COORDINATOR


@in_loop
async def test_without_a_producer_id_to_give_producers_try_again() -> None:
    async with running_transactions() as world:

        async def fail() -> int:
            raise BookieUnavailable("metadata")

        world.ids.take = fail  # type: ignore[method-assign]
        assert await world.init() is E.COORDINATOR_LOAD_IN_PROGRESS


# Listing


@in_loop
async def test_listing() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        assert await world.add(producer) is E.NONE
        await world.coordinator.init_producer_id("other", TIMEOUT_MS, None)
        world.clock.advance_ms(10)

        async def names(**fields: Any) -> list[str]:
            pattern = re2.compile(fields.pop("pattern")) if "pattern" in fields else None
            wanted = list_filter(ListTransactionsRequest(**fields), pattern)
            found = await world.coordinator.list_transactions(wanted, Pace(LoopTurns()))
            assert not isinstance(found, E)
            return sorted(each.transactional_id for each in found)

        assert await names() == ["other", ID]
        assert await names(state_filters=["Ongoing"]) == [ID]
        assert await names(state_filters=["Ongoing", "Empty", "Odd"]) == ["other", ID]
        assert await names(state_filters=["Odd"]) == []
        assert await names(producer_id_filters=[producer.producer_id]) == [ID]
        assert await names(state_filters=["Ongoing"], duration_filter=9) == [ID]
        assert await names(state_filters=["Ongoing"], duration_filter=10) == []
        assert await names(pattern="oth.*") == ["other"]
        assert await names(pattern="oth") == []
        found = world.described()
        assert (found.producer_id, found.producer_epoch) == producer
        assert found.transaction_timeout_ms == TIMEOUT_MS
        assert found.transaction_start_time_ms == world.clock.now_ms() - 10


@in_loop
async def test_numbers_are_registered_and_move() -> None:
    async with running_transactions() as world:
        metrics = Metrics()
        metrics.register("broker_transactions", world.coordinator.metrics)
        assert metrics.snapshot()["broker_transactions_inits_total"] == 0
        producer = await world.producer()
        await world.add(producer)
        await world.coordinator.verify(ID, *producer, [TopicPartition("t", 0)])
        await world.end(producer)
        await turns()
        found = metrics.snapshot()
        names = ("inits", "adds", "verifications", "ends", "markers")
        assert [found[f"broker_transactions_{name}_total"] for name in names] == [1] * 5
        assert found["broker_transactions_records_written_total"] == 4
