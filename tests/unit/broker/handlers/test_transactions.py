"""The handlers of transactions in each version, over a real coordinator and real partitions."""

import pytest

from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC
from tailrace.broker.transactions.coordinator import TRANSACTIONS_TOPIC
from tailrace.broker.transactions.decisions import Producer
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    METADATA,
)
from tailrace.protocol.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tailrace.protocol.kafka.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse
from tailrace.protocol.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tailrace.protocol.kafka.messages.list_transactions import ListTransactionsRequest
from tailrace.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop, turns
from tests.unit.broker.transactions.runtime_support import (
    ID,
    TIMEOUT_MS,
    Transactions,
    running_transactions,
)


async def init(
    world: Transactions, version: int = 4, expected: tuple[int, int] = (-1, -1)
) -> InitProducerIdResponse:
    request = InitProducerIdRequest(
        transactional_id=ID,
        transaction_timeout_ms=TIMEOUT_MS,
        producer_id=expected[0],
        producer_epoch=expected[1],
    )
    return await ask(world.world, INIT_PRODUCER_ID, version, request)


async def end(
    world: Transactions, producer: Producer, version: int, *, committed: bool = True
) -> EndTxnResponse:
    request = EndTxnRequest(
        transactional_id=ID,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=committed,
    )
    return await ask(world.world, END_TXN, version, request)


# InitProducerId


@pytest.mark.parametrize("version", list(INIT_PRODUCER_ID.versions))
def test_init_raises_the_epoch_in_every_version(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_transactions() as world:
            for epoch in range(2):
                found = await init(world, version)
                assert (found.error_code, found.producer_id, found.producer_epoch) == (
                    E.NONE,
                    1000,
                    epoch,
                )

    body()


@pytest.mark.parametrize(
    ("version", "code"), [(3, E.INVALID_PRODUCER_EPOCH), (4, E.PRODUCER_FENCED)]
)
def test_who_is_fenced_hears_it_in_words_of_its_version(version: int, code: E) -> None:
    @in_loop
    async def body() -> None:
        async with running_transactions() as world:
            await init(world)
            await init(world)
            found = await init(world, version, (1000, 0))
            assert (found.error_code, found.producer_id, found.producer_epoch) == (code, -1, -1)
            again = await init(world, version, (1000, 1))
            assert (again.error_code, again.producer_epoch) == (E.NONE, 2)

    body()


@in_loop
async def test_an_id_without_its_epoch_is_refused() -> None:
    async with running_transactions() as world:
        for expected in ((1000, -1), (-1, 0)):
            assert (await init(world, 3, expected)).error_code == E.INVALID_REQUEST


# AddPartitionsToTxn


def add_request(
    producer: Producer, topics: dict[str, list[int]], *, verify_only: bool = False
) -> AddPartitionsToTxnRequest:
    wanted = [AddPartitionsToTxnTopic(name=n, partitions=p) for n, p in topics.items()]
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=ID,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=wanted,
    )
    return AddPartitionsToTxnRequest(
        transactions=[transaction],
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=wanted,
    )


async def add(
    world: Transactions, version: int, request: AddPartitionsToTxnRequest
) -> dict[tuple[str, int], int]:
    response = await ask(world.world, ADD_PARTITIONS_TO_TXN, version, request)
    assert response.error_code == E.NONE
    results: list[AddPartitionsToTxnTopicResult] = list(response.results_by_topic_v3_and_below)
    if version >= 4:
        (result,) = response.results_by_transaction
        assert result.transactional_id == ID
        results = list(result.topic_results)
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in results
        for each in topic.results_by_partition
    }


@pytest.mark.parametrize("version", list(ADD_PARTITIONS_TO_TXN.versions))
def test_partitions_are_taken_in_in_every_version(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_transactions() as world:
            producer = await world.producer()
            request = add_request(producer, {"t": [0, 2]})
            expected = {("t", 0): E.NONE, ("t", 2): E.NONE}
            assert await add(world, version, request) == expected
            assert [each.partitions for each in world.described().topics] == [[0, 2]]

    body()


@pytest.mark.parametrize("version", list(ADD_PARTITIONS_TO_TXN.versions))
def test_one_partition_that_is_not_there_refuses_all(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_transactions() as world:
            producer = await world.producer()
            request = add_request(producer, {"t": [0, 3], "gone": [0]})
            assert await add(world, version, request) == {
                ("t", 0): E.OPERATION_NOT_ATTEMPTED,
                ("t", 3): E.UNKNOWN_TOPIC_OR_PARTITION,
                ("gone", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
            }
            assert world.state == "Empty"

    body()


@pytest.mark.parametrize(
    ("version", "code"), [(1, E.INVALID_PRODUCER_EPOCH), (2, E.PRODUCER_FENCED)]
)
def test_a_fenced_producer_takes_nothing_in(version: int, code: E) -> None:
    @in_loop
    async def body() -> None:
        async with running_transactions() as world:
            producer = await world.producer()
            await world.producer()
            assert await add(world, version, add_request(producer, {"t": [0]})) == {("t", 0): code}

    body()


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_may_ask_without_adding(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_transactions() as world:
            producer = await world.producer()
            assert await world.add(producer, 0) is E.NONE
            request = add_request(producer, {"t": [0, 1]}, verify_only=True)
            found = await add(world, version, request)
            assert found == {("t", 0): E.NONE, ("t", 1): E.TRANSACTION_ABORTABLE}
            assert [each.partitions for each in world.described().topics] == [[0]]

    body()


@in_loop
async def test_several_transactions_in_one_request() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        good = add_request(producer, {"t": [0]}).transactions[0]
        bad = add_request(Producer(7, 7), {"t": [1]}).transactions[0]
        request = AddPartitionsToTxnRequest(transactions=[good, bad])
        response = await ask(world.world, ADD_PARTITIONS_TO_TXN, 4, request)
        codes = [
            each.topic_results[0].results_by_partition[0].partition_error_code
            for each in response.results_by_transaction
        ]
        assert codes == [E.NONE, E.INVALID_PRODUCER_ID_MAPPING]


# AddOffsetsToTxn


class FoundGroups:
    """Groups whose topic is there, or cannot be made."""

    def __init__(self, found: TopicPartition | E) -> None:
        self.found = found

    async def find(self, _group_id: str) -> TopicPartition | E:
        return self.found


@pytest.mark.parametrize("version", list(ADD_OFFSETS_TO_TXN.versions))
def test_offsets_of_a_group_are_taken_in(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_transactions() as world:
            found = TopicPartition(OFFSETS_TOPIC, 12)
            world.world.broker.groups = FoundGroups(found)  # type: ignore[assignment]
            world.world.topics.add(OFFSETS_TOPIC, 50)
            producer = await world.producer()
            request = AddOffsetsToTxnRequest(
                transactional_id=ID,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                group_id="my-group",
            )
            response = await ask(world.world, ADD_OFFSETS_TO_TXN, version, request)
            assert response.error_code == E.NONE
            (topic,) = world.described().topics
            assert (topic.topic, topic.partitions) == (OFFSETS_TOPIC, [12])
            request.producer_epoch -= 1
            response = await ask(world.world, ADD_OFFSETS_TO_TXN, version, request)
            fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
            assert response.error_code == fenced

    body()


@in_loop
async def test_without_their_topic_no_offsets_are_taken_in() -> None:
    async with running_transactions() as world:
        code = E.COORDINATOR_NOT_AVAILABLE
        world.world.broker.groups = FoundGroups(code)  # type: ignore[assignment]
        request = AddOffsetsToTxnRequest(transactional_id=ID, group_id="g")
        response = await ask(world.world, ADD_OFFSETS_TO_TXN, 3, request)
        assert response.error_code == code


# EndTxn


@pytest.mark.parametrize("version", list(END_TXN.versions))
@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_is_ended_in_every_version(version: int, committed: bool) -> None:
    @in_loop
    async def body() -> None:
        async with running_transactions() as world:
            producer = await world.producer()
            assert await world.add(producer) is E.NONE
            found = await end(world, producer, version, committed=committed)
            after = (1000, 1) if version >= 5 else (-1, -1)
            assert (found.error_code, found.producer_id, found.producer_epoch) == (E.NONE, *after)
            await turns()
            assert world.state == ("CompleteCommit" if committed else "CompleteAbort")
            found = await end(world, producer, version, committed=not committed)
            assert found.error_code == E.INVALID_TXN_STATE

    body()


@pytest.mark.parametrize("version", list(END_TXN.versions))
def test_a_fenced_producer_ends_nothing(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_transactions() as world:
            producer = await world.producer()
            await world.producer()
            found = await end(world, producer, version)
            fenced = E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
            assert (found.error_code, found.producer_id) == (fenced, -1)

    body()


@pytest.mark.parametrize(("version", "code"), [(4, E.INVALID_TXN_STATE), (5, E.NONE)])
def test_an_abort_of_nothing_is_only_known_to_version_2(version: int, code: E) -> None:
    @in_loop
    async def body() -> None:
        async with running_transactions() as world:
            producer = await world.producer()
            assert (await end(world, producer, version, committed=False)).error_code == code

    body()


# What is told


@in_loop
async def test_describing_several() -> None:
    async with running_transactions() as world:
        producer = await world.producer()
        request = DescribeTransactionsRequest(transactional_ids=[ID, "nobody", ""])
        response = await ask(world.world, DESCRIBE_TRANSACTIONS, 0, request)
        codes = [each.error_code for each in response.transaction_states]
        # "nobody" lives in another partition, which is not loaded until somebody asks
        assert codes[0] == E.NONE
        assert codes[1] in (E.TRANSACTIONAL_ID_NOT_FOUND, E.COORDINATOR_LOAD_IN_PROGRESS)
        assert codes[2] == E.INVALID_REQUEST
        assert response.transaction_states[0].producer_id == producer.producer_id


@pytest.mark.parametrize("version", list(LIST_TRANSACTIONS.versions))
def test_listing_in_every_version(version: int) -> None:
    @in_loop
    async def body() -> None:
        async with running_transactions() as world:
            await world.producer()
            request = ListTransactionsRequest(state_filters=["Empty", "Odd"])
            response = await ask(world.world, LIST_TRANSACTIONS, version, request)
            assert [each.transactional_id for each in response.transaction_states] == [ID]
            assert list(response.unknown_state_filters) == ["Odd"]

    body()


@pytest.mark.parametrize(
    ("pattern", "found"), [("x", [ID]), ("", [ID]), (None, [ID]), ("y", []), (".", [ID])]
)
def test_listing_by_pattern(pattern: str | None, found: list[str]) -> None:
    @in_loop
    async def body() -> None:
        async with running_transactions() as world:
            await world.producer()
            request = ListTransactionsRequest(transactional_id_pattern=pattern)
            response = await ask(world.world, LIST_TRANSACTIONS, 2, request)
            assert [each.transactional_id for each in response.transaction_states] == found

    body()


@in_loop
async def test_a_pattern_that_is_none_is_refused() -> None:
    async with running_transactions() as world:
        request = ListTransactionsRequest(transactional_id_pattern="a(")
        response = await ask(world.world, LIST_TRANSACTIONS, 2, request)
        assert response.error_code == E.INVALID_REGULAR_EXPRESSION


@in_loop
async def test_who_asks_for_the_topic_of_transactions_makes_it() -> None:
    async with running_transactions(prepared=False) as found:
        topics = [MetadataRequestTopic(name=TRANSACTIONS_TOPIC)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=True)
        (made,) = (await ask(found.world, METADATA, 12, request)).topics
        assert (made.error_code, made.is_internal) == (E.NONE, True)
        topic = found.world.topics.get(TRANSACTIONS_TOPIC)
        assert topic is not None
        assert topic.partition_count == len(made.partitions)
