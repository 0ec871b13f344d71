"""What Jepsen found in transactions of Kafka and its peers, by name, with raw requests.

Bufstream 0.1.0 and Kafka itself (2024): requests that are late or come twice tear transactions,
commit what was aborted, or end the next transaction (KIP-890 is the answer).
"""

import time
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

import pytest

from protocol.errors import ErrorCode
from protocol.kafka.apis import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    PRODUCE,
)
from protocol.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.kafka.messages.end_txn import EndTxnRequest
from protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from protocol.kafka.messages.init_producer_id import InitProducerIdRequest
from protocol.records.batch import read_header, split_batches
from protocol.records.record import Producer as BatchProducer
from protocol.records.record import Record, build_batch, iter_records
from tests.cluster.raw import ANSWER_S, RawClient, create_topic, fetch_request, produce_request
from tests.process import TailraceProcess

E = ErrorCode
_names = count()
TRANSACTIONAL = 0x10
OPEN_MS = 300
"""How long a transaction of these tests may stay open where that matters."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TailraceProcess]:
    """A broker that looks for transactions that are open too long five times a second."""
    often = "transaction.abort.timed.out.transaction.cleanup.interval.ms=200"
    folder = tmp_path_factory.mktemp("broker") / "data"
    with TailraceProcess(folder, "--set", often) as running:
        yield running


class Producer(NamedTuple):
    """A producer id in one of its lives."""

    producer_id: int
    epoch: int


class Story:
    """One transactional id and two topics with a partition each."""

    def __init__(self, broker: TailraceProcess, client: RawClient) -> None:
        self.client = client
        number = next(_names)
        self.name = f"id-{number}"
        self.a, self.b = (create_topic(broker, f"{each}-{number}") for each in "ab")
        self._sequences: dict[tuple[str, Producer], int] = {}
        find = FindCoordinatorRequest(key=self.name, key_type=1)
        assert client.ask(FIND_COORDINATOR, 2, find).error_code == E.NONE

    def patiently(self, ask: Any, *arguments: Any, **fields: Any) -> Any:
        """Ask until no transaction is in the way."""
        deadline = time.monotonic() + ANSWER_S
        while (answer := ask(*arguments, **fields)) is E.CONCURRENT_TRANSACTIONS:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return answer

    def init(self, timeout_ms: int = 60_000) -> Producer:
        """Take the id over."""
        found: Producer = self.patiently(self._init, timeout_ms)
        return found

    def _init(self, timeout_ms: int) -> Producer | ErrorCode:
        request = InitProducerIdRequest(
            transactional_id=self.name, transaction_timeout_ms=timeout_ms
        )
        answer = self.client.ask(INIT_PRODUCER_ID, 4, request)
        if answer.error_code:
            return E(answer.error_code)
        return Producer(answer.producer_id, answer.producer_epoch)

    def add(self, producer: Producer, *topics: str, version: int = 3) -> ErrorCode:
        """Take partitions in; from v4 on as a client of transaction version 2."""
        return E(self.patiently(self._add, producer, topics, version))

    def _add(self, producer: Producer, topics: tuple[str, ...], version: int) -> ErrorCode:
        wanted = [AddPartitionsToTxnTopic(name=each, partitions=[0]) for each in topics]
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=self.name,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    topics=wanted,
                )
            ],
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=wanted,
        )
        answer = self.client.ask(ADD_PARTITIONS_TO_TXN, version, request)
        topic_results = answer.results_by_topic_v3_and_below
        if version >= 4:
            topic_results = answer.results_by_transaction[0].topic_results
        return E(topic_results[0].results_by_partition[0].partition_error_code)

    def write(self, producer: Producer, topic: str, value: bytes) -> ErrorCode:
        """Produce one record of the transaction."""
        sequence = self._sequences.get((topic, producer), 0)
        code = self.send(producer, topic, value, sequence)
        if code is E.NONE:
            self._sequences[topic, producer] = sequence + 1
        return code

    def send(self, producer: Producer, topic: str, value: bytes, sequence: int) -> ErrorCode:
        batch = build_batch(
            [Record(offset=0, timestamp=1, value=value)],
            producer=BatchProducer(*producer, sequence),
            attributes=TRANSACTIONAL,
        )
        request = produce_request(topic, batch)
        request.transactional_id = self.name
        answer = self.client.ask(PRODUCE, 11, request)
        return E(answer.responses[0].partition_responses[0].error_code)

    def write_plainly(self, topic: str, value: bytes) -> None:
        """Produce one record in no transaction."""
        batch = build_batch([Record(offset=0, timestamp=1, value=value)])
        answer = self.client.ask(PRODUCE, 11, produce_request(topic, batch))
        assert answer.responses[0].partition_responses[0].error_code == E.NONE

    def end(self, producer: Producer, *, committed: bool, version: int) -> Producer | ErrorCode:
        """End the transaction; return who goes on."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=committed,
        )
        answer = self.client.ask(END_TXN, version, request)
        if answer.error_code:
            return E(answer.error_code)
        if version < 5:
            return producer
        return Producer(answer.producer_id, answer.producer_epoch)

    def ended(self, producer: Producer, *, committed: bool, version: int) -> Producer:
        found = self.patiently(self.end, producer, committed=committed, version=version)
        assert isinstance(found, Producer), found
        return found

    def committed(self, topic: str) -> list[bytes | None]:
        """Return what a reader of committed records sees, to where it may read by now."""
        request = fetch_request(topic)
        request.isolation_level = 1
        found = self.client.ask(FETCH, 11, request).responses[0].partitions[0]
        assert found.error_code == E.NONE
        aborted = {(each.producer_id, each.first_offset) for each in found.aborted_transactions}
        data = found.records or b""
        return list(_committed(memoryview(data), aborted))  # type: ignore[arg-type]

    def wait_for(self, topic: str, *values: bytes) -> None:
        """Wait until a reader of committed records sees just these."""
        deadline = time.monotonic() + ANSWER_S
        while self.committed(topic) != list(values):
            assert time.monotonic() < deadline, self.committed(topic)
            time.sleep(0.02)


def _committed(data: memoryview, aborted: set[tuple[int, int]]) -> Iterator[bytes | None]:
    """Drop what was aborted, as clients do: from its first offset to the producer's next marker."""
    dropping: set[int] = set()
    for start, stop in split_batches(data):
        header = read_header(data[start:stop])
        begun = {(each, at) for each, at in aborted if at <= header.last_offset}
        aborted -= begun
        dropping |= {each for each, _ in begun}
        if header.is_control:
            dropping.discard(header.producer_id)
        elif header.producer_id not in dropping:
            yield from (record.value for record in iter_records(data[start:stop]))


@pytest.fixture
def story(broker: TailraceProcess) -> Iterator[Story]:
    with RawClient(broker) as client:
        yield Story(broker, client)


VERSION_1, VERSION_2 = (3, 4), (4, 5)
"""Versions of AddPartitionsToTxn and EndTxn: of a client of transaction version 0 and 1, and 2."""
by_version = pytest.mark.parametrize(("add", "end"), [VERSION_1, VERSION_2], ids=["TV1", "TV2"])


@by_version
@pytest.mark.parametrize("committed", [True, False])
def test_all_partitions_or_none(story: Story, add: int, end: int, committed: bool) -> None:
    me = story.init()
    assert story.add(me, story.a, story.b, version=add) is E.NONE
    assert story.write(me, story.a, b"a") is E.NONE
    assert story.write(me, story.b, b"b") is E.NONE
    assert story.committed(story.a) == story.committed(story.b) == []
    story.ended(me, committed=committed, version=end)
    plain = [b"a"] if committed else []
    story.wait_for(story.a, *plain)
    story.wait_for(story.b, *([b"b"] if committed else []))


def test_a_late_end_does_not_commit_the_next_transaction(story: Story) -> None:
    me = story.init()
    assert story.add(me, story.a, version=4) is E.NONE
    assert story.write(me, story.a, b"first") is E.NONE
    after = story.ended(me, committed=True, version=5)
    assert after == me._replace(epoch=me.epoch + 1)
    assert story.add(after, story.a, version=4) is E.NONE
    assert story.write(after, story.a, b"second") is E.NONE
    late = story.end(me, committed=True, version=5)  # the same request, by another way
    assert late is E.PRODUCER_FENCED
    assert story.committed(story.a) == [b"first"]
    story.ended(after, committed=False, version=5)
    assert story.add(story.init(), story.b, version=4) is E.NONE  # the abort is complete
    assert story.committed(story.a) == [b"first"]


def test_an_end_that_is_repeated_is_answered_as_the_first(story: Story) -> None:
    me = story.init()
    assert story.add(me, story.a, version=4) is E.NONE
    assert story.write(me, story.a, b"once") is E.NONE
    after = story.ended(me, committed=True, version=5)
    assert story.ended(me, committed=True, version=5) == after
    other = story.patiently(story.end, me, committed=False, version=5)
    assert other is E.INVALID_TXN_STATE
    story.wait_for(story.a, b"once")


@by_version
def test_a_write_that_comes_after_the_end_is_in_no_transaction(
    story: Story, add: int, end: int
) -> None:
    """Torn transaction: the end overtook the last write. It is refused, not kept for the next."""
    me = story.init()
    assert story.add(me, story.a, story.b, version=add) is E.NONE
    assert story.write(me, story.a, b"a") is E.NONE
    after = story.ended(me, committed=True, version=end)
    story.wait_for(story.a, b"a")
    late = story.send(me, story.b, b"late", 0)
    assert late in (E.TRANSACTION_ABORTABLE, E.INVALID_PRODUCER_EPOCH)
    assert story.add(after, story.a, version=add) is E.NONE
    late = story.send(me, story.b, b"late", 0)
    assert late in (E.TRANSACTION_ABORTABLE, E.INVALID_PRODUCER_EPOCH)
    story.ended(after, committed=True, version=end)
    assert story.committed(story.b) == []


def test_what_was_aborted_is_not_read_with_the_next_transaction(story: Story) -> None:
    """Aborted read: a write of the aborted transaction arrives in the middle of the next one."""
    me = story.init()
    assert story.add(me, story.a, version=4) is E.NONE
    assert story.write(me, story.a, b"aborted") is E.NONE
    after = story.ended(me, committed=False, version=5)
    assert story.add(after, story.a, version=4) is E.NONE
    assert story.write(after, story.a, b"second") is E.NONE
    assert story.send(me, story.a, b"aborted too", 1) is E.INVALID_PRODUCER_EPOCH
    story.ended(after, committed=True, version=5)
    story.wait_for(story.a, b"second")


@by_version
def test_a_zombie_writes_and_ends_nothing(story: Story, add: int, end: int) -> None:
    zombie = story.init()
    assert story.add(zombie, story.a, version=add) is E.NONE
    assert story.write(zombie, story.a, b"zombie") is E.NONE
    me = story.init()  # aborts what the other has open
    assert me.epoch > zombie.epoch
    assert story.write(zombie, story.a, b"again") is E.INVALID_PRODUCER_EPOCH
    assert story.end(zombie, committed=True, version=end) is E.PRODUCER_FENCED
    assert story.add(zombie, story.a, version=add) is E.PRODUCER_FENCED
    assert story.add(me, story.a, version=add) is E.NONE
    assert story.write(me, story.a, b"mine") is E.NONE
    story.ended(me, committed=True, version=end)
    story.wait_for(story.a, b"mine")


@by_version
def test_nobody_waits_longer_for_a_dead_producer_than_it_may_take(
    story: Story, add: int, end: int
) -> None:
    dead = story.init(timeout_ms=OPEN_MS)
    assert story.add(dead, story.a, version=add) is E.NONE
    assert story.write(dead, story.a, b"never") is E.NONE
    story.write_plainly(story.a, b"behind it")
    story.wait_for(story.a, b"behind it")
    assert story.write(dead, story.a, b"late") is E.INVALID_PRODUCER_EPOCH
    refused = (E.PRODUCER_FENCED, E.INVALID_TXN_STATE)
    assert story.end(dead, committed=True, version=end) in refused
