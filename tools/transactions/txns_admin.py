"""What the `txn` commands ask of a cluster. Source: Kafka's TransactionsCommand, Admin client."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
)
from tailrace.protocol.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    TopicRequest,
)
from tailrace.protocol.kafka.messages.describe_transactions import DescribeTransactionsRequest
from tailrace.protocol.kafka.messages.list_transactions import ListTransactionsRequest
from tailrace.protocol.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tailrace.tools.clients.librdkafka import Target
from tailrace.tools.clients.own_requests import Brokers, check
from tailrace.tools.errors import CliError

TRANSACTION = 1
"""Key type of FindCoordinator."""

OVERDUE_MS = 60_000
"""Coordinators look every ten seconds for transactions that are open for too long."""

Row = dict[str, Any]


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition."""

    partition: TopicPartition
    leader: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int
    """When its producer wrote last. Unit: wall ms."""
    held_by: str | None = None
    """The transactional id whose coordinator has it, and has not ended it in time."""
    state: str | None = None
    """What that coordinator says of it."""

    def row(self, now_ms: int) -> Row:
        """Return it for a table."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "coordinator_epoch": self.coordinator_epoch,
            "start_offset": self.start_offset,
            "last_timestamp": self.last_timestamp,
            "idle_minutes": max(now_ms - self.last_timestamp, 0) // 60_000,
            "transactional_id": self.held_by,
            "state": self.state,
        }


class TransactionsAdmin:
    """Transactions of one cluster. Errors: CliError from every method."""

    def __init__(self, to: Target) -> None:
        self._brokers = Brokers(to)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *what: object) -> None:
        self._brokers.__exit__(*what)

    def list_all(self, request: ListTransactionsRequest) -> list[Row]:
        """Return the transactional ids that pass the request's filters, by name."""
        rows = []
        for node_id, connection in self._brokers.all():
            found = connection.ask(LIST_TRANSACTIONS, request)
            check(found.error_code, f"list transactions of broker {node_id}")
            if found.unknown_state_filters:
                raise CliError(f"no such state: {', '.join(found.unknown_state_filters)}")
            rows += [
                {
                    "transactional_id": each.transactional_id,
                    "coordinator": node_id,
                    "producer_id": each.producer_id,
                    "state": each.transaction_state,
                }
                for each in found.transaction_states
            ]
        return sorted(rows, key=lambda row: str(row["transactional_id"]))

    def describe(self, transactional_id: str, now_ms: int) -> Row:
        """Return everything about one transactional id."""
        node_id = self._brokers.coordinator(transactional_id, TRANSACTION)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        found = self._brokers.to(node_id).ask(DESCRIBE_TRANSACTIONS, request).transaction_states[0]
        check(found.error_code, f"describe transactional id {transactional_id}")
        is_open = bool(found.topics)
        return {
            "transactional_id": transactional_id,
            "coordinator": node_id,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
            "state": found.transaction_state,
            "timeout_ms": found.transaction_timeout_ms,
            "start_ms": found.transaction_start_time_ms if is_open else None,
            "open_ms": now_ms - found.transaction_start_time_ms if is_open else None,
            "partitions": [
                str(TopicPartition(topic.topic, partition))
                for topic in found.topics
                for partition in topic.partitions
            ],
        }

    def hanging(
        self, topics: Sequence[str], partition: int | None, before_ms: int, now_ms: int
    ) -> list[OpenTransaction]:
        """Return what has been open since before `before_ms` and will not be ended.

        No coordinator has it (what Kafka's find-hanging lists), or one has it and should have ended
        it `OVERDUE_MS` ago: it lives, and does not do what it is there for.
        """
        old = [
            each
            for each in self._open(topics or None, partition)
            if each.last_timestamp <= before_ms
        ]
        ids = sorted({each.producer_id for each in old})
        if not ids:
            return []
        wanted = ListTransactionsRequest(producer_id_filters=ids)
        known = [row["transactional_id"] for row in self.list_all(wanted)]
        served = {
            (described["producer_id"], partition_name): described
            for described in (self.describe(name, now_ms) for name in known)
            for partition_name in described["partitions"]
        }
        found = []
        for each in old:
            described = served.get((each.producer_id, str(each.partition)))
            if described is None:
                found.append(each)
            elif described["open_ms"] > described["timeout_ms"] + OVERDUE_MS:
                name, state = described["transactional_id"], described["state"]
                found.append(each._replace(held_by=name, state=state))
        return found

    def starting_at(self, partition: TopicPartition, start_offset: int) -> OpenTransaction:
        """Return the transaction that is open in a partition since an offset."""
        for each in self._open([partition.topic], partition.partition):
            if each.start_offset == start_offset:
                return each
        raise CliError(
            f"no transaction of {partition} is open since offset {start_offset}",
            remedy="`tailrace txn hanging` shows those that hang",
        )

    def abort(self, at: OpenTransaction) -> None:
        """Write the marker that a hanging transaction misses."""
        marker = WritableTxnMarker(
            producer_id=at.producer_id,
            producer_epoch=at.producer_epoch,
            coordinator_epoch=max(at.coordinator_epoch, 0),
            transaction_result=False,
            topics=[
                WritableTxnMarkerTopic(
                    name=at.partition.topic, partition_indexes=[at.partition.partition]
                )
            ],
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        found = self._brokers.to(at.leader).ask(WRITE_TXN_MARKERS, request)
        code = found.markers[0].topics[0].partitions[0].error_code
        check(code, f"abort the transaction of producer {at.producer_id} in {at.partition}")

    def _open(
        self, topics: Sequence[str] | None, partition: int | None
    ) -> Iterable[OpenTransaction]:
        found = self._brokers.topics(None if topics is None else list(topics))
        for topic in found.topics:
            check(topic.error_code, f"topic {topic.name}")
            for each in topic.partitions:
                if partition is None or partition == each.partition_index:
                    at = TopicPartition(topic.name or "", each.partition_index)
                    yield from self._open_in(at, each.leader_id)

    def _open_in(self, at: TopicPartition, leader: int) -> Iterable[OpenTransaction]:
        if leader < 0:
            raise CliError(f"nobody leads {at}", remedy="try again when its broker is back")
        wanted = TopicRequest(name=at.topic, partition_indexes=[at.partition])
        request = DescribeProducersRequest(topics=[wanted])
        answer: PartitionResponse = (
            self._brokers.to(leader).ask(DESCRIBE_PRODUCERS, request).topics[0].partitions[0]
        )
        if answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION:
            return
        check(answer.error_code, f"producers of {at}")
        for each in answer.active_producers:
            if each.current_txn_start_offset >= 0:
                yield OpenTransaction(
                    at,
                    leader,
                    each.producer_id,
                    each.producer_epoch,
                    each.coordinator_epoch,
                    each.current_txn_start_offset,
                    each.last_timestamp,
                )
