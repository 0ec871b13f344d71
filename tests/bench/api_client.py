"""What clients do beside records: `python -m tests.bench.api_client JOB JSON`, a process.

Transactions come from librdkafka. The others are plain sockets with our own codec, so that the load
costs little and is the same for everybody: members of a group, a consumer of many partitions with a
fetch session, look-ups by time.
"""

import asyncio
import json
import random
import socket
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from confluent_kafka import Producer

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import (
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    SYNC_GROUP,
)
from tailrace.protocol.kafka.codec import decode_response, encode_request
from tailrace.protocol.kafka.header import RequestHeader, decode_response_header, request_frame
from tailrace.protocol.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest
from tailrace.protocol.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tailrace.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tailrace.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tailrace.protocol.records.batch import read_header, split_batches
from tests.bench.client import create_topic

R = TypeVar("R")
Q = TypeVar("Q")

_HEARTBEAT_S: Final = 0.1
_GROUP_WITHIN_S: Final = 120


class Connection:
    """One connection to a broker, a request at a time."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(",", 1)[0].rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def ask(self, api: Api[Q, R], version: int, message: Q) -> R:
        """Send a request and return its answer."""
        self._socket.sendall(_frame(api, version, message))
        size = int.from_bytes(self._file.read(4), "big")
        return _answer(api, version, self._file.read(size))


def _frame(api: Api[Any, Any], version: int, message: Any) -> bytes:
    header = RequestHeader(api.key, version, 1, "bench")
    return request_frame(api, header, encode_request(api, version, message))


def _answer(api: Api[Any, R], version: int, frame: bytes) -> R:
    _, at = decode_response_header(api, version, memoryview(frame))
    return decode_response(api, version, memoryview(frame)[at:])


# Transactions


def transactions(*, bootstrap: str, topic: str, partitions: int, seconds: float) -> dict[str, Any]:
    """Commit transactions of 100 records of 100 bytes over all partitions, one after the other."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "bench",
            "linger.ms": 0,
            "batch.num.messages": 1000,
        }
    )
    producer.init_transactions(60)
    committed = 0
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        producer.begin_transaction()
        for number in range(100):
            producer.produce(topic, bytes(100), partition=number % partitions)
        producer.commit_transaction(60)
        committed += 1
    return {"per_s": committed / (time.perf_counter() - started)}


# A group


@dataclass(slots=True)
class _Group:
    """What the members of one group know of each other: who is where."""

    size: int
    settled: dict[int, int] = field(default_factory=dict)
    """Generation by member, of those whose last heartbeat was answered with none other."""
    done: asyncio.Event = field(default_factory=asyncio.Event)

    def settle(self, member: int, generation: int) -> None:
        self.settled[member] = generation
        if len(self.settled) == self.size and len(set(self.settled.values())) == 1:
            self.done.set()


class _Member:
    """One member of a group: joins, syncs, keeps its heart beating, joins again when told."""

    def __init__(self, number: int, group: _Group, bootstrap: str) -> None:
        self._number = number
        self._group = group
        self._bootstrap = bootstrap
        self._id = ""
        self._generation = -1

    async def run(self) -> None:
        host, port = self._bootstrap.split(",", 1)[0].rsplit(":", 1)
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        while True:
            await self._join()
            while True:
                if not await self._heartbeat():
                    break
                await asyncio.sleep(_HEARTBEAT_S)
            self._group.settled.pop(self._number, None)

    async def _join(self) -> None:
        while True:
            request = JoinGroupRequest(
                group_id="bench",
                session_timeout_ms=30_000,
                rebalance_timeout_ms=60_000,
                member_id=self._id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(10))],
            )
            joined = await self._ask(JOIN_GROUP, 5, request)
            self._id = joined.member_id
            if joined.error_code:
                continue
            self._generation = joined.generation_id
            assignments = [
                SyncGroupRequestAssignment(member_id=each.member_id, assignment=bytes(20))
                for each in joined.members
            ]
            sync = SyncGroupRequest(
                group_id="bench",
                generation_id=self._generation,
                member_id=self._id,
                assignments=assignments,
            )
            if not (await self._ask(SYNC_GROUP, 3, sync)).error_code:
                return

    async def _heartbeat(self) -> bool:
        request = HeartbeatRequest(
            group_id="bench", generation_id=self._generation, member_id=self._id
        )
        if (await self._ask(HEARTBEAT, 3, request)).error_code:
            return False
        self._group.settle(self._number, self._generation)
        return True

    async def _ask(self, api: Api[Q, R], version: int, message: Q) -> R:
        self._writer.write(_frame(api, version, message))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return _answer(api, version, await self._reader.readexactly(size))


def group(*, bootstrap: str, members: int) -> dict[str, Any]:
    """Let all members join at once; return when all are in one generation that beats."""
    _find_coordinator(bootstrap)
    return {"seconds": asyncio.run(_until_stable(bootstrap, members))}


def _find_coordinator(bootstrap: str) -> None:
    """Wait for the coordinator: what makes its topic is nobody's rebalance."""
    connection = Connection(bootstrap)
    heartbeat = HeartbeatRequest(group_id="bench", generation_id=0, member_id="nobody")
    deadline = time.perf_counter() + _GROUP_WITHIN_S
    while (
        connection.ask(FIND_COORDINATOR, 2, FindCoordinatorRequest(key="bench")).error_code
        or connection.ask(HEARTBEAT, 3, heartbeat).error_code != ErrorCode.UNKNOWN_MEMBER_ID
    ):
        if time.perf_counter() > deadline:
            raise TimeoutError("no coordinator")
        time.sleep(0.05)


async def _until_stable(bootstrap: str, size: int) -> float:
    found = _Group(size)
    started = time.perf_counter()
    async with asyncio.timeout(_GROUP_WITHIN_S), asyncio.TaskGroup() as tasks:
        members = [tasks.create_task(_Member(each, found, bootstrap).run()) for each in range(size)]
        await found.done.wait()
        took = time.perf_counter() - started
        for member in members:
            member.cancel()
    return took


# A consumer of many partitions


def polls(*, bootstrap: str, topic: str, partitions: int, seconds: float) -> dict[str, Any]:
    """Poll within a fetch session at the end of every partition: nothing new, answered at once."""
    consumer = _SessionConsumer(bootstrap, topic, partitions)
    consumer.begin(at_end=True)
    return {"polls": consumer.poll_for(seconds)}


def polls_with_data(
    *, bootstrap: str, topic: str, partitions: int, seconds: float
) -> dict[str, Any]:
    """Poll within a fetch session through what is there, 64 KiB of each partition at a time."""
    consumer = _SessionConsumer(bootstrap, topic, partitions)
    consumer.begin(at_end=False)
    return {"polls": consumer.poll_for(seconds), "bytes": consumer.bytes}


class _SessionConsumer:
    """Fetches as Java's consumer does: by topic id, in a session that names what has changed."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._connection = Connection(bootstrap)
        self._topic = topic
        self._partitions = partitions
        self._session, self._epoch = 0, 0
        self._offsets = [0] * partitions
        self.bytes = 0

    def begin(self, *, at_end: bool) -> None:
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=self._topic)])
        self._topic_id = self._connection.ask(METADATA, 12, wanted).topics[0].topic_id
        if at_end:
            self._offsets = self._ends()
        opened = self._ask(list(range(self._partitions)))
        self._session, self._epoch = opened.session_id, 1
        if not self._session:
            raise RuntimeError("no fetch session was granted")

    def _ends(self) -> list[int]:
        partitions = [
            ListOffsetsPartition(partition_index=each, timestamp=-1)
            for each in range(self._partitions)
        ]
        topics = [ListOffsetsTopic(name=self._topic, partitions=partitions)]
        answer = self._connection.ask(LIST_OFFSETS, 5, ListOffsetsRequest(topics=topics))
        found = {each.partition_index: each.offset for each in answer.topics[0].partitions}
        return [found[each] for each in range(self._partitions)]

    def poll_for(self, seconds: float) -> int:
        """Return how many polls there were, until one had nothing after one that had."""
        count = 0
        moved: list[int] = []
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            before, moved = moved, self._take(self._ask(moved))
            self._epoch += 1
            count += 1
            if before and not moved:
                break
        return count

    def _ask(self, partitions: list[int]) -> FetchResponse:
        changed = [
            FetchPartition(
                partition=each, fetch_offset=self._offsets[each], partition_max_bytes=1 << 16
            )
            for each in partitions
        ]
        topics = [FetchTopic(topic_id=self._topic_id, partitions=changed)] if changed else []
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self._session,
            session_epoch=self._epoch,
            topics=topics,
        )
        answer = self._connection.ask(FETCH, 16, request)
        if answer.error_code:
            raise RuntimeError(f"fetch: {ErrorCode(answer.error_code).name}")
        return answer

    def _take(self, answer: FetchResponse) -> list[int]:
        moved = []
        for topic in answer.responses:
            for each in topic.partitions:
                if each.error_code:
                    raise RuntimeError(f"fetch: {ErrorCode(each.error_code).name}")
                records = memoryview(each.records or b"")
                last = None
                for start, stop in split_batches(records):
                    last = records[start:stop]
                if last is not None:
                    self._offsets[each.partition_index] = read_header(last).last_offset + 1
                    self.bytes += len(records)
                    moved.append(each.partition_index)
        return moved


# Look-ups by time


def by_time(*, bootstrap: str, topic: str, lookups: int) -> dict[str, Any]:
    """Ask for the first offset at a random time between the first record and the last."""
    connection = Connection(bootstrap)

    def at(timestamp: int) -> tuple[int, int]:
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topics = [ListOffsetsTopic(name=topic, partitions=[partition])]
        answer = connection.ask(LIST_OFFSETS, 7, ListOffsetsRequest(topics=topics))
        found = answer.topics[0].partitions[0]
        if found.error_code:
            raise RuntimeError(f"ListOffsets: {ErrorCode(found.error_code).name}")
        return found.offset, found.timestamp

    _, first_ms = at(0)
    _, last_ms = at(-3)
    moments = random.Random(1)
    took = []
    for number in range(lookups + 20):
        wanted = moments.randint(first_ms, last_ms)
        before = time.perf_counter()
        _, found_ms = at(wanted)
        if number >= 20:
            took.append((time.perf_counter() - before) * 1e3)
        if found_ms < wanted:
            raise RuntimeError(f"asked for {wanted}, got {found_ms}")
    took.sort()
    return {"p50_ms": statistics.median(took), "p99_ms": took[int(len(took) * 0.99)]}


_JOBS = {
    "transactions": transactions,
    "group": group,
    "polls": polls,
    "polls_with_data": polls_with_data,
    "by_time": by_time,
}


def main() -> None:
    """Run one job."""
    arguments = json.loads(sys.argv[2])
    if arguments.pop("create", False):
        create_topic(arguments["bootstrap"], arguments["topic"], arguments.get("partitions", 1))
    print(json.dumps(_JOBS[sys.argv[1]](**arguments)))


if __name__ == "__main__":
    main()
