"""One transactional producer by raw requests: what it is told, right or wrong, late or twice."""

import time
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple, Protocol

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    PRODUCE,
)
from tailrace.protocol.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from tailrace.protocol.kafka.messages.end_txn import EndTxnRequest
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.kafka.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.records.batch import read_header, split_batches
from tailrace.protocol.records.record import Producer as BatchProducer
from tailrace.protocol.records.record import Record, build_batch, iter_records
from tests.cluster.raw import ANSWER_S, create_topic, fetch_request, produce_request
from tests.process import TailraceProcess

E = ErrorCode
_names = count()
TRANSACTIONAL = 0x10
_BEING_ENDED = (E.NOT_ENOUGH_REPLICAS, E.CONCURRENT_TRANSACTIONS)


class Producer(NamedTuple):
    """A producer id in one of its lives."""

    producer_id: int
    epoch: int


class Versions(NamedTuple):
    """What a client of one transaction version (KIP-890) speaks."""

    add: int | None
    """AddPartitionsToTxn; None: writing adds."""
    produce: int
    end: int


TV1, TV2 = Versions(3, 11, 4), Versions(None, 12, 5)


class Asks(Protocol):
    """A `RawClient`, or a `RawCluster`, which looks for the broker itself."""

    def ask(self, api: Any, version: int, message: Any) -> Any:
        """Return the answer to a request."""


class Story:
    """One transactional id and two topics with a partition each."""

    def __init__(self, broker: TailraceProcess, client: Asks) -> None:
        self.client = client
        self.versions = TV2
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

    def add(self, producer: Producer, *topics: str) -> ErrorCode:
        """Take partitions in, if that is asked for."""
        if self.versions.add is None:
            return E.NONE
        return E(self.patiently(self._add, producer, topics, self.versions.add))

    def _add(self, producer: Producer, topics: tuple[str, ...], version: int) -> ErrorCode:
        wanted = [AddPartitionsToTxnTopic(name=each, partitions=[0]) for each in topics]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=wanted,
        )
        answer = self.client.ask(ADD_PARTITIONS_TO_TXN, version, request)
        results = answer.results_by_topic_v3_and_below[0].results_by_partition
        return E(results[0].partition_error_code)

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
        answer = self.client.ask(PRODUCE, self.versions.produce, request)
        return E(answer.responses[0].partition_responses[0].error_code)

    def send_late(self, producer: Producer, topic: str, value: bytes, sequence: int) -> ErrorCode:
        """Produce one record of a transaction that is over; again while it is being ended."""
        deadline = time.monotonic() + ANSWER_S
        while (code := self.send(producer, topic, value, sequence)) in _BEING_ENDED:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return code

    def hang(self, producer_id: int, topic: str) -> None:
        """Write in a transaction that no coordinator knows; only without verification."""
        assert self.send(Producer(producer_id, 0), topic, b"hangs", 0) is E.NONE

    def write_plainly(self, topic: str, value: bytes) -> None:
        """Produce one record in no transaction."""
        batch = build_batch([Record(offset=0, timestamp=1, value=value)])
        answer = self.client.ask(PRODUCE, 11, produce_request(topic, batch))
        assert answer.responses[0].partition_responses[0].error_code == E.NONE

    def end(self, producer: Producer, *, committed: bool) -> Producer | ErrorCode:
        """End the transaction; return who goes on."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=committed,
        )
        answer = self.client.ask(END_TXN, self.versions.end, request)
        if answer.error_code:
            return E(answer.error_code)
        if self.versions is TV1:
            return producer
        return Producer(answer.producer_id, answer.producer_epoch)

    def ended(self, producer: Producer, *, committed: bool) -> Producer:
        found = self.patiently(self.end, producer, committed=committed)
        assert isinstance(found, Producer), found
        return found

    def committed(self, topic: str) -> list[bytes | None]:
        """Return what a reader of committed records sees, to where it may read by now."""
        request = fetch_request(topic)
        request.isolation_level = 1
        deadline = time.monotonic() + ANSWER_S
        while True:
            found = self.client.ask(FETCH, 11, request).responses[0].partitions[0]
            if found.error_code != E.NOT_LEADER_OR_FOLLOWER:
                break
            assert time.monotonic() < deadline
            time.sleep(0.02)  # it is being opened
        assert E(found.error_code) is E.NONE, E(found.error_code)
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
