"""Where a marker is written: to a partition of this broker, or by the broker that has it."""

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from tailrace.broker.coordinator.partitioning import OFFSETS_TOPIC
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.peers.errors import PeerError
from tailrace.broker.peers.gathering import Gathered, one_request
from tailrace.broker.peers.routes import Sender
from tailrace.broker.replicated.machine import Answer
from tailrace.broker.replicated.record_log import Appended
from tailrace.broker.transactions.peer_requests import (
    MARKERS_SINCE,
    MarkerAt,
    marker_codes,
    markers_request,
)
from tailrace.broker.transactions.values import Marker
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import WRITE_TXN_MARKERS

AT_ONCE: Final = 1_000
"""Markers in one request to another broker."""

Done: TypeAlias = Callable[[ErrorCode], None]
"""Hears once what became of a marker."""


class Logs(Protocol):
    """Where partitions are opened; `broker.partition.PartitionLogs` is one."""

    def visit(
        self, topic: str, partition: int, visitor: Callable[[PartitionLog | ErrorCode], None]
    ) -> None:
        """Call `visitor` with the open partition, or with why it cannot be opened."""


class OffsetGroups(Protocol):
    """Where groups keep offsets of transactions; `broker.coordinator.GroupCoordinator` is one."""

    def end_transaction(
        self,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,  # noqa: FBT001 - as agreed with those who call it
        transaction_version: int = 0,
    ) -> Answer:
        """End a transaction in one partition of `__consumer_offsets`. An ErrorCode."""


class OwnPartitions:
    """Markers of partitions that this broker serves."""

    def __init__(self, logs: Logs, groups: OffsetGroups) -> None:
        self._logs = logs
        self._groups = groups

    def write(self, marker: Marker, partition: TopicPartition, done: Done) -> None:
        """Append a marker, in order of calls; `done` hears when it is confirmed or refused."""

        def take(appended: Appended) -> None:
            result = appended.result()
            done(result if isinstance(result, ErrorCode) else ErrorCode.NONE)

        def append(log: PartitionLog | ErrorCode) -> None:
            if isinstance(log, ErrorCode):
                done(log)
            else:
                log.append_marker(*marker).add_done_callback(take)

        if partition.topic == OFFSETS_TOPIC:
            ended = self._groups.end_transaction(partition.partition, *marker)
            ended.add_done_callback(take)
        else:
            self._logs.visit(*partition, append)


class OthersPartitions:
    """Markers of partitions that other brokers serve: those for one broker travel together."""

    def __init__(self, peers: Sender) -> None:
        ask_all = one_request(
            peers, WRITE_TXN_MARKERS, MARKERS_SINCE, markers_request, marker_codes
        )
        self._markers = Gathered("remote_markers", AT_ONCE, ask_all, self._on_error)

    def write(self, broker_id: int, at: MarkerAt, done: Done) -> None:
        """Have a broker append a marker; `done` hears what it says.

        NETWORK_EXCEPTION: no answer, it may be written.
        """
        answer = self._markers.ask(broker_id, at)
        answer.add_done_callback(lambda answered: done(answered.result()))

    async def close(self) -> None:
        """Ask no more. Idempotent."""
        await self._markers.close()

    def _on_error(self, _at: MarkerAt, _error: PeerError) -> ErrorCode:
        return ErrorCode.NETWORK_EXCEPTION
