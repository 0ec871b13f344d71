"""Kill the broker between a transaction's offsets and its end: all of them count, or none."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import (
    ADD_OFFSETS_TO_TXN,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    TXN_OFFSET_COMMIT,
)
from tailrace.protocol.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tailrace.protocol.kafka.messages.end_txn import EndTxnRequest
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.kafka.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tailrace.protocol.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from tailrace.protocol.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tailrace.protocol.records.record import Producer
from tests.cluster.raw import ANSWER_S, RawClient, create_topic, wait_for_group
from tests.process import TailraceProcess

pytestmark = pytest.mark.crash

GROUP = "g"
ID = "x"
TOPIC = "t"
TRANSACTIONS = 1
"""Key type of FindCoordinator."""
PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
BEFORE, AFTER = 3, 8
"""What the group has committed, and what the transaction commits."""


@contextmanager
def connected(broker: TailraceProcess) -> Iterator[RawClient]:
    """Connect, and wait until both coordinators serve."""
    with RawClient(broker) as client:
        wait_for_group(client, GROUP)
        find = FindCoordinatorRequest(key=ID, key_type=TRANSACTIONS)
        until_done(lambda: client.ask(FIND_COORDINATOR, 2, find).error_code)
        yield client


def until_done(ask: Callable[[], int]) -> ErrorCode:
    """Ask until the answer is not one that passes."""
    deadline = time.monotonic() + ANSWER_S
    while (code := ErrorCode(ask())) in PASSING:
        assert time.monotonic() < deadline, code
        time.sleep(0.02)
    return code


def init(client: RawClient) -> Producer:
    """Begin as the owner of the id; what was open before is aborted."""
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
    answers = []

    def ask() -> int:
        answers.append(client.ask(INIT_PRODUCER_ID, 4, request))
        return answers[-1].error_code

    assert until_done(ask) is ErrorCode.NONE
    return Producer(answers[-1].producer_id, answers[-1].producer_epoch)


def commit_plainly(client: RawClient) -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=BEFORE, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    request = OffsetCommitRequest(group_id=GROUP, topics=[topic])
    response = client.ask(OFFSET_COMMIT, 7, request)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


def commit_in_transaction(client: RawClient, producer: Producer) -> None:
    add = AddOffsetsToTxnRequest(
        transactional_id=ID,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=GROUP,
    )
    assert until_done(lambda: client.ask(ADD_OFFSETS_TO_TXN, 2, add).error_code) is ErrorCode.NONE
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=AFTER, committed_metadata=""
    )
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id=GROUP,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )
    response = client.ask(TXN_OFFSET_COMMIT, 3, request)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


def end(client: RawClient, producer: Producer, *, committed: bool) -> ErrorCode:
    request = EndTxnRequest(
        transactional_id=ID,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=committed,
    )
    return until_done(lambda: client.ask(END_TXN, 3, request).error_code)


def fetch(client: RawClient, *, stable: bool) -> tuple[int, ErrorCode]:
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
    request = OffsetFetchRequest(group_id=GROUP, topics=topics, require_stable=stable)
    (partition,) = client.ask(OFFSET_FETCH, 7, request).topics[0].partitions
    return partition.committed_offset, ErrorCode(partition.error_code)


def stable_offset(client: RawClient) -> int:
    """Wait until no transaction can change it any more."""
    deadline = time.monotonic() + ANSWER_S
    while (found := fetch(client, stable=True))[1] is ErrorCode.UNSTABLE_OFFSET_COMMIT:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert found[1] is ErrorCode.NONE
    return found[0]


@pytest.fixture
def broker(broker_factory: Callable[..., TailraceProcess]) -> TailraceProcess:
    started = broker_factory().start()
    create_topic(started, TOPIC)
    return started


@pytest.mark.parametrize("how", ["commit", "fence"])
def test_killed_between_the_offsets_and_the_end(broker: TailraceProcess, how: str) -> None:
    with connected(broker) as client:
        producer = init(client)
        commit_plainly(client)
        commit_in_transaction(client, producer)
    broker.kill()
    broker.restart()
    with connected(broker) as client:
        assert fetch(client, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert fetch(client, stable=False) == (BEFORE, ErrorCode.NONE)
        if how == "fence":
            init(client)
            assert end(client, producer, committed=True) is not ErrorCode.NONE
        else:
            assert end(client, producer, committed=True) is ErrorCode.NONE
        assert stable_offset(client) == (BEFORE if how == "fence" else AFTER)


def test_killed_when_the_end_is_answered(broker: TailraceProcess) -> None:
    with connected(broker) as client:
        producer = init(client)
        commit_plainly(client)
        commit_in_transaction(client, producer)
        assert end(client, producer, committed=True) is ErrorCode.NONE
    broker.kill()
    broker.restart()
    with connected(broker) as client:
        assert stable_offset(client) == AFTER
