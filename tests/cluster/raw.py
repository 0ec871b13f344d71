"""A client on a plain socket: sends what it is told, right or wrong, and waits for what comes."""

import select
import socket
import struct
import time
from types import TracebackType
from typing import Any, Self, TypeVar

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import (
    API_VERSIONS,
    CREATE_TOPICS,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
)
from tailrace.protocol.kafka.codec import decode_response, encode_request
from tailrace.protocol.kafka.header import RequestHeader, decode_response_header, request_frame
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tailrace.protocol.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tailrace.protocol.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.kafka.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tailrace.protocol.records.batch import split_batches
from tailrace.protocol.records.record import Producer, Record, build_batch, iter_records
from tests.process import TailraceProcess

ANSWER_S = 60
"""How long an answer may take here: a machine that is busy with other tests is not a fault."""
PRODUCE_VERSION = 9
FETCH_VERSION = 11

R = TypeVar("R")
Q = TypeVar("Q")


class Closed(Exception):
    """The broker closed the connection."""


class RawClient:
    """One connection. Usable as a context manager."""

    def __init__(self, broker: TailraceProcess, *, receive_buffer: int | None = None) -> None:
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(ANSWER_S)
        self.first_line = len(broker.lines)  # before it connects: it may be refused at once
        """Lines before it are about others, who may have had the same port."""
        try:
            self._socket.connect(("127.0.0.1", broker.port))
        except OSError:
            self._socket.close()
            raise
        self._received = bytearray()
        self._correlation_id = 0
        self.peer = f"127.0.0.1:{self._socket.getsockname()[1]}"
        """How the broker's log lines name this connection."""

    def send_bytes(self, data: Buffer) -> None:
        """Send bytes as they are. Errors: Closed if the broker did not want them all."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def send_until_blocked(self, data: Buffer, times: int, *, patience_s: float) -> int:
        """Send the same bytes again and again; return how often, until nobody takes them."""
        sent = 0
        self._socket.settimeout(patience_s)
        try:
            while sent < times:
                self._socket.sendall(data)
                sent += 1
        except TimeoutError:
            pass
        finally:
            self._socket.settimeout(ANSWER_S)
        return sent

    def frame(self, api: Api[Any, Any], version: int, message: Any) -> bytes:
        """Return a whole request, with the next correlation id."""
        self._correlation_id += 1
        header = RequestHeader(api.key, version, self._correlation_id, "raw")
        return request_frame(api, header, encode_request(api, version, message))

    def send(self, api: Api[Any, Any], version: int, message: Any) -> int:
        """Send a request without waiting; return its correlation id."""
        self.send_bytes(self.frame(api, version, message))
        return self._correlation_id

    def receive(self) -> memoryview:
        """Return the next frame. Errors: Closed."""
        return self._take(int.from_bytes(self._take(4), "big", signed=True))

    def receive_as(self, api: Api[Any, R], version: int) -> tuple[int, R]:
        """Return the next answer as one to `api`, with its correlation id. Errors: Closed."""
        frame = self.receive()
        correlation_id, at = decode_response_header(api, version, frame)
        return correlation_id, decode_response(api, version, frame[at:])

    def receive_any(self, api: Api[Any, Any], version: int) -> tuple[int, Any]:
        """Return the next answer where the API is known only when the test runs."""
        return self.receive_as(api, version)

    def ask(self, api: Api[Q, R], version: int, message: Q) -> R:
        """Send a request and return its answer. Errors: Closed."""
        sent = self.send(api, version, message)
        correlation_id, response = self.receive_as(api, version)
        assert correlation_id == sent
        return response

    def has_answer(self) -> bool:
        """Whether something to read is here already."""
        return bool(self._received) or bool(select.select([self._socket], [], [], 0)[0])

    def wait(self, seconds: float) -> None:
        """Let time pass. Errors: Closed, as soon as the broker closes."""
        if select.select([self._socket], [], [], seconds)[0]:
            self._read()

    def is_closed_by_broker(self) -> bool:
        """Wait for the broker to close; False if it answers instead."""
        try:
            return not self._received and not self._read()
        except Closed:
            return True

    def receive_some(self) -> None:
        """Take what is there of an answer, and forget it. Errors: Closed."""
        self._read()

    def reset(self) -> None:
        """Close with a reset, as a process that dies."""
        linger = struct.pack("ii", 1, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close()

    def close(self) -> None:
        """Close this side. Idempotent."""
        self._socket.close()

    def _take(self, size: int) -> memoryview:
        assert size >= 0
        while len(self._received) < size:
            self._received += self._read()
        taken = memoryview(bytes(self._received[:size]))
        del self._received[:size]
        return taken

    def _read(self) -> bytes:
        try:
            data = self._socket.recv(1 << 16)
        except ConnectionResetError as error:
            raise Closed from error
        if not data:
            raise Closed
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


# ---- requests that are as they should be


def batch(*values: bytes, codec: int = 0, producer: Producer | None = None) -> bytearray:
    """Return a whole batch of keyless records with the time 1."""
    records = [Record(offset=at, timestamp=1, value=each) for at, each in enumerate(values)]
    return build_batch(records, codec, producer=producer or Producer())


def create_topic(broker: TailraceProcess, name: str, **configs: str) -> str:
    """Create a topic with one partition; return its name."""
    wanted = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[
            CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()
        ],
    )
    with RawClient(broker) as client:
        answer = client.ask(
            CREATE_TOPICS, 5, CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
        )
    assert answer.topics[0].error_code == 0, answer
    return name


def topic_id(client: RawClient, topic: str) -> bytes:
    """Return the id of a topic."""
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    found: bytes = client.ask(METADATA, 12, wanted).topics[0].topic_id
    return found


def producer_id(client: RawClient) -> int:
    """Return a producer id that nobody else has."""
    wanted = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    return client.ask(INIT_PRODUCER_ID, 4, wanted).producer_id


def wait_for_group(client: RawClient, group: str) -> None:
    """Find the coordinator of a group and wait until it has loaded what it knows."""
    heartbeat = HeartbeatRequest(group_id=group, generation_id=0, member_id="nobody")
    deadline = time.monotonic() + ANSWER_S
    while (
        client.ask(FIND_COORDINATOR, 2, FindCoordinatorRequest(key=group)).error_code
        or client.ask(HEARTBEAT, 3, heartbeat).error_code != ErrorCode.UNKNOWN_MEMBER_ID
    ):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_for_producer(client: RawClient, transactional_id: str) -> None:
    """Find the coordinator of a transactional producer and have it give the producer its id."""
    coordinator = FindCoordinatorRequest(key=transactional_id, key_type=1)
    wanted = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    deadline = time.monotonic() + ANSWER_S
    while (
        client.ask(FIND_COORDINATOR, 2, coordinator).error_code
        or client.ask(INIT_PRODUCER_ID, 4, wanted).error_code
    ):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def produce_request(
    topic: str, records: Buffer | None, *, acks: int = -1, partition: int = 0
) -> ProduceRequest:
    """Return a request with one batch."""
    data = PartitionProduceData(index=partition, records=records)
    topic_data = TopicProduceData(name=topic, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[topic_data])


def produce(
    client: RawClient,
    topic: str,
    records: Buffer | None,
    *,
    acks: int = -1,
    version: int = PRODUCE_VERSION,
) -> PartitionProduceResponse:
    """Produce one batch and return the partition's answer."""
    answer = client.ask(PRODUCE, version, produce_request(topic, records, acks=acks))
    return answer.responses[0].partition_responses[0]


def fetch_request(
    topic: str,
    offset: int = 0,
    *,
    wait_ms: int = 0,
    max_bytes: int = 1 << 24,
    partition_max_bytes: int = 1 << 20,
    min_bytes: int = 1,
) -> FetchRequest:
    """Return a request for one partition."""
    wanted = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=partition_max_bytes
    )
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )


def fetch(client: RawClient, topic: str, offset: int = 0, **limits: int) -> PartitionData:
    """Fetch from one partition and return its answer."""
    answer = client.ask(FETCH, FETCH_VERSION, fetch_request(topic, offset, **limits))
    assert answer.error_code == 0
    return answer.responses[0].partitions[0]


def values(found: PartitionData) -> list[bytes | None]:
    """Return the values of the records in an answer."""
    assert found.error_code == 0, ErrorCode(found.error_code)
    data = found.records or b""
    assert isinstance(data, bytes | memoryview)
    return [
        record.value
        for start, end in split_batches(data)
        for record in iter_records(memoryview(data)[start:end])
    ]


def all_values(client: RawClient, topic: str) -> list[bytes | None]:
    """Return every record's value of a topic, oldest first."""
    found: list[bytes | None] = []
    while more := values(fetch(client, topic, len(found))):
        found += more
    return found


def ask_api_versions(broker: TailraceProcess) -> ApiVersionsResponse:
    """Ask what every client asks first, on a connection of its own."""
    with RawClient(broker) as client:
        return client.ask(API_VERSIONS, 0, ApiVersionsRequest())
