"""A topic's partition is a log: Java's reader gives exactly the batches that producers sent."""

import asyncio
import base64
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.broker.cluster.names import stream_name
from tests.cluster.three_bookies import ClusterBroker
from tests.interop.bookkeeper.ours import run
from tests.interop.distributedlog.java import JavaLog
from tests.interop.distributedlog.ours import Place
from tests.interop.distributedlog.records import Seen, check_positions
from tests.java.peers import JavaClient

pytestmark = [pytest.mark.interop, pytest.mark.java, pytest.mark.crash]
TOPIC: Final = "orders"
COUNT: Final = 100
SEGMENT_BYTES: Final = 1_048_576
"""The smallest that a topic may ask for."""
VALUE_BYTES: Final = 3_000
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def uri(place: Place, name: str) -> str:
    return f"{place.uri}-{name}"


@pytest.fixture
def broker(place: Place, uri: str) -> Iterator[ClusterBroker]:
    """A broker over the bookies of the place; it makes its namespace."""
    with ClusterBroker(place.metadata, uri) as running:
        yield running


def value(number: int) -> bytes:
    return Random(number).randbytes(VALUE_BYTES)


def produce(bootstrap: str, first: int) -> None:
    """Produce records `first` ... to the one partition, in batches of each codec."""
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "batch.num.messages": 7,
                "enable.idempotence": True,
            }
        )
        for number in range(first, first + COUNT):
            producer.produce(TOPIC, value(number), key=b"%d" % number, partition=0)
        assert producer.flush(60) == 0
        first += COUNT


async def read_until(log: JavaLog, offset: int) -> list[list[Any]]:
    """Read what Java's reader gives until a batch ends with this offset."""
    opened = await log.ask("open_reader")
    found: list[list[Any]] = []
    while not found or found[-1][3] < offset:
        how = {"handle": opened["handle"], "count": 1, "payloads": True}
        answer = await log.ask("next", **how)
        assert "ended" not in answer, answer["ended"]
        found += answer["records"]
    await log.ask("close", handle=opened["handle"])
    return found


def check_batches(found: list[list[Any]], count: int) -> None:
    """Check that these are all batches of the topic: each offset once, txid the last of a batch."""
    offset = 0
    for *seen, encoded in found:
        batch = DefaultRecordBatch(bytearray(base64.b64decode(encoded)))
        assert batch.validate_crc()
        assert batch.base_offset == offset
        for record in batch:
            assert (record.offset, record.key) == (offset, b"%d" % offset)
            assert record.value == value(offset)
            offset += 1
        assert seen[3] == offset - 1
    assert offset == count
    assert [seen[5] for seen in found] == list(range(len(found))), "sequence ids"
    check_positions([Seen.by_java(seen[:8]) for seen in found])


def test_java_reads_the_batches_of_a_partition(
    java: JavaClient, broker: ClusterBroker, uri: str
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    small = {"segment.bytes": str(SEGMENT_BYTES)}
    topic = NewTopic(TOPIC, num_partitions=1, replication_factor=3, config=small)
    admin.create_topics([topic])[TOPIC].result(60)
    java.call("connect", client=uri, uri=uri)

    async def story() -> None:
        log = JavaLog(java, uri, stream_name(TOPIC, 0))
        each = COUNT * len(CODECS)
        await asyncio.to_thread(produce, broker.bootstrap, 0)
        check_batches(await read_until(log, each - 1), each)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.restart)
        await asyncio.to_thread(produce, broker.bootstrap, each)
        everything = await read_until(log, 2 * each - 1)
        check_batches(everything, 2 * each)
        assert await asyncio.to_thread(broker.stop) == 0
        assert await read_until(log, 2 * each - 1) == everything
        assert await log.count() == len(everything)
        assert len({seen[0] for seen in everything}) > 2, "segments"
        for offset in (0, 1, each // 2, each, 2 * each - 1):
            (found,) = await log.read(1, txid=offset)
            wanted = next(seen for seen in everything if seen[3] >= offset)
            assert found == Seen.by_java(wanted[:8])

    try:
        run(story)
    finally:
        java.call("disconnect", client=uri)
