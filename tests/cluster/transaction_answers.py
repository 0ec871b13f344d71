"""What a broker answers in the corners of transactions, step by step, to compare two brokers.

`python -m tests.cluster.transaction_answers PORT` prints the answers of whoever listens there: so
`tests/golden/transaction-answers.txt` came from Apache Kafka 4.3.1, started fresh. Producer ids are
told as their distance from the first, and nothing is told that depends on time or on segments.
"""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka import apis
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from tailrace.protocol.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tailrace.protocol.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from tailrace.protocol.kafka.messages.end_txn import EndTxnRequest
from tailrace.protocol.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.kafka.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tailrace.protocol.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tailrace.protocol.records.batch import CONTROL, TRANSACTIONAL
from tailrace.protocol.records.record import NO_PRODUCER, Producer, Record, build_batch
from tests.cluster.raw import RawClient

E = ErrorCode
TRANSACTION = 1
"""Kind of coordinator."""
TRIES = 100
PAUSE_S = 0.05
FOR_THE_MOMENT = {
    E.COORDINATOR_LOAD_IN_PROGRESS,
    E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_COORDINATOR,
    E.CONCURRENT_TRANSACTIONS,
    E.NOT_ENOUGH_REPLICAS,
    E.UNKNOWN_TOPIC_OR_PARTITION,
}
"""Answers after which a client asks again; the answer that stays is the one that is told."""


class Sent(NamedTuple):
    """Whose batch it is."""

    producer: int
    epoch: int
    sequence: int


class Asker:
    """One client, one topic of two partitions, one transactional id."""

    def __init__(self, client: RawClient, name: str) -> None:
        self.client = client
        self.name = name
        self.epoch = 0
        topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        client.ask(apis.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        find = FindCoordinatorRequest(key=name, key_type=TRANSACTION)
        self._ask(apis.FIND_COORDINATOR, 2, find, lambda r: r.error_code)
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        answer = self._ask(apis.INIT_PRODUCER_ID, 3, request, lambda r: r.error_code)
        assert not answer.error_code, E(answer.error_code).name
        self.producer, self.epoch = answer.producer_id, answer.producer_epoch

    def produce(
        self, batch: bytes, *, version: int, name: str | None = "", partition: int = 0
    ) -> tuple[str, int]:
        """Return code and base offset; `name`: None sends no transactional id."""
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            transactional_id=self.name if name == "" else name,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=self.name, partition_data=[data])],
        )
        answer = self._ask(apis.PRODUCE, version, request, lambda r: _produced(r).error_code)
        return E(_produced(answer).error_code).name, _produced(answer).base_offset

    def add(self, *partitions: int) -> str:
        """Add partitions to the transaction, as producers of transaction version 1 do."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.name, partitions=partitions)],
        )
        answer = self._ask(apis.ADD_PARTITIONS_TO_TXN, 3, request, _added)
        return E(_added(answer)).name

    def end(self, *, commit: bool, version: int, epoch: int | None = None) -> tuple[str, int]:
        """End the transaction and wait for its markers; return code and epoch."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=commit,
        )
        answer = self._ask(apis.END_TXN, version, request, lambda r: r.error_code)
        if not answer.error_code and version >= 5:
            self.epoch = answer.producer_epoch
        for _ in range(0 if answer.error_code else TRIES):
            _, high_watermark, stable, _ = self.fetch(0)
            if stable == high_watermark:
                break
            self.client.wait(PAUSE_S)
        return E(answer.error_code).name, answer.producer_epoch

    def producers(
        self, topic: str | None = None, partition: int = 0
    ) -> tuple[str, list[tuple[int, ...]]]:
        """Return code, and producer, epoch, last sequence, first offset of each."""
        what = TopicRequest(name=topic or self.name, partition_indexes=[partition])
        request = DescribeProducersRequest(topics=[what])
        found = self.client.ask(apis.DESCRIBE_PRODUCERS, 0, request).topics[0].partitions[0]
        shown = [
            (p.producer_id - self.producer, p.producer_epoch, p.last_sequence,
             p.current_txn_start_offset)
            for p in found.active_producers
        ]  # fmt: skip
        return E(found.error_code).name, sorted(shown)

    def coordinator_epoch(self) -> int:
        """Return the epoch of the coordinator that ended the first producer's transaction."""
        what = TopicRequest(name=self.name, partition_indexes=[0])
        answer = self.client.ask(
            apis.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics=[what])
        )
        found = answer.topics[0].partitions[0].active_producers
        return next(p.coordinator_epoch for p in found if p.producer_id == self.producer)

    def mark(self, producer: int, epoch: int, coordinator: int, **more: Any) -> str:
        """Write a marker that aborts; return its code."""
        topic = more.get("topic", self.name), more.get("partition", 0)
        marker = WritableTxnMarker(
            producer_id=producer,
            producer_epoch=epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=topic[0], partition_indexes=[topic[1]])],
            coordinator_epoch=coordinator,
            transaction_version=more.get("transaction_version", 0),
        )
        answer = self.client.ask(
            apis.WRITE_TXN_MARKERS, 2, WriteTxnMarkersRequest(markers=[marker])
        )
        return E(answer.markers[0].topics[0].partitions[0].error_code).name

    def fetch(self, offset: int) -> tuple[str, int, int, list[tuple[int, int]] | None]:
        """Return code, high watermark, last stable offset, what was aborted."""
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, isolation_level=1, session_epoch=-1,
            topics=[FetchTopic(topic=self.name, partitions=[wanted])],
        )  # fmt: skip
        found = self.client.ask(apis.FETCH, 11, request).responses[0].partitions[0]
        aborted = found.aborted_transactions
        shown = None if aborted is None else [
            (each.producer_id - self.producer, each.first_offset) for each in aborted
        ]  # fmt: skip
        return E(found.error_code).name, found.high_watermark, found.last_stable_offset, shown

    def delete_records(self) -> tuple[str, int]:
        """Delete up to the high watermark; return code and new start."""
        what = DeleteRecordsPartition(partition_index=0, offset=-1)
        topic = DeleteRecordsTopic(name=self.name, partitions=[what])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)
        found = self.client.ask(apis.DELETE_RECORDS, 1, request).topics[0].partitions[0]
        return E(found.error_code).name, found.low_watermark

    def _ask(
        self, api: Api[Any, Any], version: int, request: Any, code: Callable[[Any], int]
    ) -> Any:
        """Ask until the answer is one that stays."""
        for _ in range(TRIES):
            answer = self.client.ask(api, version, request)
            if E(code(answer)) not in FOR_THE_MOMENT:
                break
            self.client.wait(PAUSE_S)
        return answer


def _produced(answer: Any) -> Any:
    return answer.responses[0].partition_responses[0]


def _added(answer: Any) -> int:
    return max(
        partition.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for partition in topic.results_by_partition
    )


def batch(sent: Sent | None, attributes: int = TRANSACTIONAL) -> bytes:
    """Return a batch of one record."""
    record = Record(timestamp=int(time.time() * 1000), key=b"k", value=b"v")
    producer = NO_PRODUCER if sent is None else Producer(*sent)
    return bytes(build_batch([record], producer=producer, attributes=attributes))


Step = tuple[str, object]


def version_1(asker: Asker) -> Iterator[Step]:
    """Yield the answers to a producer that adds its partitions itself (Produce v11)."""
    pid, epoch = asker.producer, asker.epoch

    def send(sequence: int, epoch: int = epoch, pid: int = pid, **more: Any) -> tuple[str, int]:
        attributes = more.pop("attributes", TRANSACTIONAL)
        sent = batch(Sent(pid, epoch, sequence), attributes)
        return asker.produce(sent, **{"version": 11} | more)

    yield "not added, v11", send(0)
    yield "not added, v10", send(0, version=10)
    yield "not added, v3", send(0, version=3)
    yield "add", asker.add(0)
    yield "begins too late", send(3)
    yield "begins", send(0)
    yield "producers", asker.producers()
    yield "fetch", asker.fetch(0)
    yield "plain within it", send(1, attributes=0, name=None)
    yield "plain within it, gap", send(5, attributes=0, name=None)
    yield "plain within it, with id", send(1, attributes=0)
    yield "repeat", send(0)
    yield "repeat, plain", send(0, attributes=0, name=None)
    yield "without id", send(1, name=None)
    yield "nobody's batch", asker.produce(batch(None, attributes=0), version=11)
    yield "control", send(1, attributes=CONTROL | TRANSACTIONAL)
    yield "another producer", send(0, pid=pid + 500_000)
    yield "older epoch", send(0, epoch=epoch - 1)
    yield "goes on", send(1)
    yield "commit", asker.end(commit=True, version=3)[0]
    yield "producers after commit", asker.producers()
    yield "fetch after commit", asker.fetch(0)
    yield "repeat after commit", send(1)
    yield "not added again", send(2)
    yield "add again", asker.add(0)
    yield "late", send(2)


def markers(asker: Asker) -> Iterator[Step]:
    """Yield the answers to markers, some of them for transactions that hang."""
    pid, epoch = asker.producer, asker.epoch
    yield "add", asker.add(0)
    yield "begin", asker.produce(batch(Sent(pid, epoch, 0)), version=11)
    yield "abort", asker.end(commit=False, version=3)[0]
    yield "fetch", asker.fetch(0)
    coordinator = asker.coordinator_epoch()
    yield "repeated", asker.mark(pid, epoch, coordinator)
    yield "repeated as version 2", asker.mark(pid, epoch, coordinator, transaction_version=2)
    yield "of an old coordinator", asker.mark(pid, epoch, coordinator - 1)
    yield "of a new coordinator", asker.mark(pid, epoch, coordinator + 1)
    yield "of no topic", asker.mark(pid, epoch, coordinator, topic="none")
    yield "of no partition", asker.mark(pid, epoch, coordinator, partition=7)
    yield "of no producer", asker.mark(-1, 0, coordinator)
    yield "of no epoch", asker.mark(pid, -1, coordinator)
    yield "of one unknown", asker.mark(pid + 1000, 3, -1)
    for name, sent in [
        ("old", Sent(pid + 1000, 2, 0)),
        ("gap", Sent(pid + 1000, 3, 5)),
        ("next", Sent(pid + 1000, 3, 0)),
    ]:
        answer = asker.produce(batch(sent, attributes=0), version=11, name=None)
        yield f"after it, {name}", answer
    yield "add for hanging", asker.add(0)
    begun = asker.produce(batch(Sent(pid, epoch, 1)), version=11)
    yield "hangs", begun
    yield "deleted beyond", asker.delete_records()
    yield "fetch below", asker.fetch(0)[:3]
    yield "fetch at start", asker.fetch(begun[1] + 1)
    yield "producers", asker.producers()
    yield "ended", asker.mark(pid, epoch, coordinator + 1)
    yield "fetch what was ended", asker.fetch(begun[1] + 1)
    yield "late for it", asker.mark(pid, epoch, coordinator)
    yield "unknown topic", asker.producers("none")
    yield "bad topic", asker.producers("a/b")
    yield "unknown partition", asker.producers(partition=9)


def version_2(asker: Asker) -> Iterator[Step]:
    """Yield the answers to a producer whose epoch rises with every end (Produce v12)."""
    pid, first = asker.producer, asker.epoch

    def send(sequence: int, epoch: int | None = None, **more: Any) -> tuple[str, int]:
        sent = Sent(more.pop("pid", pid), asker.epoch if epoch is None else epoch, sequence)
        return asker.produce(batch(sent), **{"version": 12} | more)

    yield "begins too late", send(3)
    yield "begins", send(0)
    yield "begins in another partition", send(0, partition=1)
    yield "gap", send(5)
    yield "repeat", send(0)
    yield "older epoch", send(0, first - 1)
    yield "newer epoch", send(0, first + 1)
    yield "commit", asker.end(commit=True, version=5)
    yield "producers", asker.producers()
    yield "fetch", asker.fetch(0)
    yield "old epoch", send(1, first)
    yield "old epoch, repeat", send(0, first)
    yield "new epoch, gap", send(1)
    yield "new epoch", send(0)
    coordinator = asker.coordinator_epoch()
    late = asker.mark(pid, asker.epoch, coordinator, transaction_version=2)
    yield "late marker", late
    yield "older marker", asker.mark(pid, first, coordinator)
    yield "producers still", asker.producers()
    yield "commit of the old epoch", asker.end(commit=True, version=5, epoch=first - 1)[0]
    yield "abort", asker.end(commit=False, version=5)
    yield "fetch after abort", asker.fetch(0)
    yield "abort of nothing", asker.end(commit=False, version=5)
    yield "next", send(0)
    yield "v11 in it", send(1, version=11)
    yield "v11 elsewhere", send(0, version=11, partition=1)
    yield "unknown id goes on", send(2, name="nobody")
    yield "unknown id begins", send(0, pid=pid + 700_000, name="nobody")
    yield "another producer", send(0, pid=pid + 700_000)
    yield "end", asker.end(commit=True, version=5)


def answers(client: RawClient) -> Iterator[str]:
    """Yield every step of all three with its answer, a line each."""
    for name, part in {"v1": version_1, "markers": markers, "v2": version_2}.items():
        for step, answer in part(Asker(client, f"answers-{name}")):
            yield f"{name} | {step} | {answer}"


class _Port(NamedTuple):
    port: int
    lines: tuple[str, ...] = ()


if __name__ == "__main__":
    anyone: Any = _Port(int(sys.argv[1]))
    with RawClient(anyone) as asking:
        for line in answers(asking):
            print(line)
