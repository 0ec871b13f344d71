"""One thread per broker that fetches ahead of the fold, within a bounded queue."""

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from typing_extensions import override

from tailrace.compaction.restoring.cluster import READ_COMMITTED, Address, Topic
from tailrace.compaction.restoring.connection import Connection
from tailrace.compaction.restoring.errors import RestoreError, Transient, check
from tailrace.compaction.restoring.fold import Aborted, next_offset
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import Buffer, Offset
from tailrace.protocol.kafka.apis import FETCH
from tailrace.protocol.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)

MAX_WAIT_MS = 500
ANSWERS_AHEAD = 2
"""Answers that wait for the fold, of all brokers together."""


class Span(NamedTuple):
    """What is left to fetch of a partition."""

    position: Offset
    end: Offset


class Sizes(NamedTuple):
    """What one answer may hold. Unit: bytes; one batch of any size comes whole."""

    answer_bytes: int = 16 * 1024 * 1024
    partition_bytes: int = 4 * 1024 * 1024


class Fetched(NamedTuple):
    """Whole batches of one partition."""

    partition: int
    records: Buffer
    aborted: Sequence[Aborted]


class OutOfRange(Exception):
    """The log does not hold the next offset of a partition; its bounds say why."""

    def __init__(self, partition: int, place: str) -> None:
        super().__init__(place)
        self.partition = partition
        self.place = place


Event: TypeAlias = list[Fetched] | Transient | OutOfRange | RestoreError
"""An answer, empty if it brought nothing; or why the thread ended."""


class Fetchers:
    """Threads that fetch all spans; `next` returns what comes. To be closed."""

    def __init__(
        self,
        topic: Topic,
        led: Mapping[Address, Sequence[int]],
        spans: Mapping[int, Span],
        sizes: Sizes,
        timeout_s: float,
    ) -> None:
        self._events: queue.Queue[Event] = queue.Queue(ANSWERS_AHEAD)
        self._stopped = threading.Event()
        self._threads = [
            _Fetcher(
                _Source(topic, address, sizes, timeout_s),
                {each: spans[each] for each in some},
                self._put,
                self._stopped,
            )
            for address, some in led.items()
        ]
        for thread in self._threads:
            thread.start()

    def next(self, timeout_s: float) -> Event | None:
        """Return what came next; None when nothing came for so long."""
        try:
            return self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Stop all threads and wait for them. Idempotent."""
        self._stopped.set()
        for thread in self._threads:
            thread.close()
        for thread in self._threads:
            thread.join()

    def _put(self, event: Event) -> None:
        while not self._stopped.is_set():
            try:
                self._events.put(event, timeout=_LOOK_S)
            except queue.Full:
                continue
            return


_LOOK_S = 0.1
"""How often a thread with a full queue looks whether it is to stop."""


class _Source(NamedTuple):
    topic: Topic
    address: Address
    sizes: Sizes
    timeout_s: float


class _Fetcher(threading.Thread):
    def __init__(
        self,
        source: _Source,
        spans: dict[int, Span],
        put: Callable[[Event], None],
        stopped: threading.Event,
    ) -> None:
        super().__init__(name=f"fetch {source.address.host}:{source.address.port}", daemon=True)
        self._source = source
        self._spans = spans
        self._put = put
        self._stopped = stopped
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    @override
    def run(self) -> None:
        """Fetch until all spans are done, or something ends it."""
        try:
            connection = self._open()
            while self._spans and not self._stopped.is_set():
                self._put(self._fetch(connection))
        except (Transient, OutOfRange, RestoreError) as error:
            self._put(error)
        finally:
            self.close()

    def close(self) -> None:
        """End the wait for an answer. Idempotent."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _open(self) -> Connection:
        address = self._source.address
        timeout_s = self._source.timeout_s
        connection = Connection(address.host, address.port, timeout_s, address.entrance)
        with self._lock:
            self._connection = connection
        return connection

    def _fetch(self, connection: Connection) -> list[Fetched]:
        answer = connection.ask(FETCH, self._request())
        check(answer.error_code, connection.place)
        fetched = []
        for topic in answer.responses:
            for data in topic.partitions:
                found = self._take(data, connection.place)
                if found is not None:
                    fetched.append(found)
        return fetched

    def _request(self) -> FetchRequest:
        sizes, topic = self._source.sizes, self._source.topic
        # A broker fills an answer in the order of the request: what was served goes to the end.
        partitions = [
            FetchPartition(
                partition=partition,
                fetch_offset=span.position,
                partition_max_bytes=sizes.partition_bytes,
            )
            for partition, span in self._spans.items()
        ]
        return FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=sizes.answer_bytes,
            isolation_level=READ_COMMITTED,
            session_id=0,
            topics=[FetchTopic(topic=topic.name, topic_id=topic.id, partitions=partitions)],
            rack_id="",
        )

    def _take(self, data: PartitionData, broker: str) -> Fetched | None:
        partition = data.partition_index
        place = f"{self._source.topic.name}-{partition} at {broker}"
        span = self._spans.get(partition)
        if span is None:
            raise Transient("an answer that nobody asked for", place)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OutOfRange(partition, place)
        check(data.error_code, place)
        records = _joined(data.records)
        position = next_offset(records, place)
        if position is None:
            return None
        del self._spans[partition]
        if position < span.end:
            self._spans[partition] = Span(max(position, span.position), span.end)
        aborted = [
            Aborted(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()
        ]
        return Fetched(partition, records, aborted)


def _joined(records: Buffer | Sequence[Buffer] | None) -> Buffer:
    if records is None:
        return b""
    if isinstance(records, bytes | bytearray | memoryview):
        return records
    return b"".join(records)
