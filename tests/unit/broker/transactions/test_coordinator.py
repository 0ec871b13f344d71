"""The coordinator over real partitions: stored, marked, failing, restarting, timing out."""

import pytest

from broker.transactions.coordinator import TRANSACTIONS_TOPIC
from broker.transactions.decisions import Producer
from core.errors import NotEnoughBookies
from protocol.errors import ErrorCode as E
from protocol.records.batch import read_header
from tests.unit.broker.loops import in_loop, turns
from tests.unit.broker.transactions.runtime_support import (
    ID,
    PARTITIONS,
    running_transactions,
)

# The thin way


@in_loop
async def test_the_first_id_makes_the_internal_topic() -> None:
    async with running_transactions(prepared=False) as world:
        assert await world.init() is E.NOT_COORDINATOR
        assert await world.coordinator.prepare(ID) is E.NONE
        topic = world.world.topics.get(TRANSACTIONS_TOPIC)
        assert topic is not None
        assert topic.partition_count == PARTITIONS
        assert topic.configs == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
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
        assert await world.coordinator.prepare(ID) is E.COORDINATOR_NOT_AVAILABLE


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
