"""Jobs of the restore suite, each in a process of its own: `restore_client JOB {arguments}`.

Every reader folds the same records into one dict; ours takes its hash too, and its time counts.
"""

import asyncio
import json
import os
import sys
import time
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.restore import DictSink
from tailrace.restore import restore as run_restore


def fill(
    *, bootstrap: str, topic: str, records: int, record_bytes: int, codec: str, keys: int
) -> dict[str, Any]:
    """Write a changelog of one partition: keys in turn, values that compress to about half."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "compression.type": codec})
    half = record_bytes // 2
    value = os.urandom(record_bytes - half) + bytes(half)
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, b"key-%08d" % (number % keys))
            except BufferError:
                producer.poll(0.1)
            else:
                break
    if producer.flush(120):
        raise TimeoutError("records were not acknowledged in 120 s")
    return {}


def restore(*, bootstrap: str, topic: str, records: int) -> dict[str, Any]:
    """Read by `tailrace.restore`."""
    sink = DictSink()
    began = time.perf_counter()
    report = run_restore(topic, bootstrap=bootstrap, sink=sink)
    took = time.perf_counter() - began
    (only,) = report.partitions
    if only.records != records:
        raise RuntimeError(f"{only.records} of {records} records")
    return {"seconds": took, "keys": len(sink.values[0])}


def confluent(*, bootstrap: str, topic: str, records: int) -> dict[str, Any]:
    """Read by confluent-kafka, in portions, which is its fastest way."""
    values: dict[bytes, bytes] = {}
    left = records
    began = time.perf_counter()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "restore",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    while left:
        messages = consumer.consume(min(left, 10_000), timeout=60)
        if not messages:
            raise TimeoutError(f"{left} records did not come in 60 s")
        for message in messages:
            values[message.key()] = message.value()
        left -= len(messages)
    took = time.perf_counter() - began
    consumer.close()
    return {"seconds": took, "keys": len(values)}


def aiokafka(*, bootstrap: str, topic: str, records: int) -> dict[str, Any]:
    """Read by aiokafka's own loop."""
    return asyncio.run(_aiokafka(bootstrap, topic, records))


async def _aiokafka(bootstrap: str, topic: str, records: int) -> dict[str, Any]:
    values: dict[bytes, bytes] = {}
    left = records
    at = AiokafkaPartition(topic, 0)
    began = time.perf_counter()
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    await consumer.start()
    try:
        consumer.assign([at])
        consumer.seek(at, 0)
        async for message in consumer:
            values[message.key] = message.value
            left -= 1
            if not left:
                break
        took = time.perf_counter() - began
    finally:
        await consumer.stop()
    return {"seconds": took, "keys": len(values)}


_JOBS = {"fill": fill, "restore": restore, "confluent": confluent, "aiokafka": aiokafka}


def main() -> None:
    """Run one job."""
    print(json.dumps(_JOBS[sys.argv[1]](**json.loads(sys.argv[2]))))


if __name__ == "__main__":
    main()
