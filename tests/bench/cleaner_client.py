"""Jobs of the cleaner suite, each in a process of its own: `cleaner_client JOB {arguments}`."""

import json
import os
import random
import select
import sys
import time
from typing import Any

import psutil
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

NEVER_DUE = "1.0"
"""A min.cleanable.dirty.ratio that no log is above."""
_POOL_BYTES = 4 * 1024 * 1024
_BLOCK_KEYS = 1000
"""Put at once: records of 1 KiB in a block that is read."""


def fill(
    *,
    bootstrap: str,
    topic: str,
    partitions: int,
    records: int,
    record_bytes: int,
    codec: str,
    keys: int,
    segment_bytes: int,
) -> dict[str, Any]:
    """Write a compacted topic that is not due yet: keys at random, the same for every broker.

    `records`: of each partition. Values compress to about half, each by itself: they are slices of
    random bytes from places so far apart that a codec hardly ever meets two that overlap.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": NEVER_DUE,
        "segment.bytes": str(segment_bytes),
        "compression.type": "producer",
    }
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(60)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "compression.type": codec,
            "batch.size": 16_384,
        }
    )
    zeros = bytes(record_bytes // 2)
    size = record_bytes - len(zeros)
    pool = random.Random(1).randbytes(_POOL_BYTES)
    for partition in range(partitions):
        chosen = random.Random(partition)
        for _ in range(records):
            key = b"key-%08d" % chosen.randrange(keys)
            at = chosen.randrange(_POOL_BYTES - size)
            value = pool[at : at + size] + zeros
            while True:
                try:
                    producer.produce(topic, value, key, partition=partition)
                except BufferError:
                    producer.poll(0.1)
                else:
                    break
    if producer.flush(120):
        raise TimeoutError("records were not acknowledged in 120 s")
    return {}


def make_due(*, bootstrap: str, topic: str) -> dict[str, Any]:
    """Let the topic be cleaned; return when that was said. Unit: s since 1970."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entry = ConfigEntry(
        "min.cleanable.dirty.ratio", "0.01", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    began = time.time()
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
    return {"at_s": began}


def acknowledged(
    *, bootstrap: str, topic: str, record_bytes: int, records_s: int
) -> dict[str, Any]:
    """Send `records_s` records a second, each alone, until stdin ends; says `ready` first.

    Return when each was sent (s since 1970) and how long its answer took (s).
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    value = os.urandom(record_bytes)
    took: list[tuple[float, float]] = []

    def send() -> None:
        sent = time.time()

        def answered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            took.append((sent, time.time() - sent))

        producer.produce(topic, value, on_delivery=answered)

    send()
    _flush(producer)
    print("ready", flush=True)
    began = time.perf_counter()
    number = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        while (left_s := began + number / records_s - time.perf_counter()) > 0:
            producer.poll(left_s)
        send()
        number += 1
    _flush(producer)
    return {"took": took}


def _flush(producer: Producer) -> None:
    if producer.flush(60):
        raise TimeoutError("records were not acknowledged in 60 s")


def summary_memory(*, size_bytes: int, keys: int, records: int) -> dict[str, Any]:
    """Fill a key summary as for a head of so many records; return the memory that it took.

    Unit: resident bytes a key.
    """
    import numpy as np

    from tailrace.compaction.cleaner.key_summary import KeySummary

    digests = np.frombuffer(random.Random(2).randbytes(16 * keys), np.uint64).reshape(-1, 2)
    offsets = np.arange(keys)
    process = psutil.Process()
    before = process.memory_info().rss
    summary = KeySummary(size_bytes)
    summary.clear(records)
    for first in range(0, keys, _BLOCK_KEYS):
        put = slice(first, first + _BLOCK_KEYS)
        if summary.put(digests[put], offsets[put]) != len(offsets[put]):
            raise RuntimeError(f"{keys} keys do not fit {size_bytes} bytes")
    after = process.memory_info().rss
    return {"bytes_a_key": (after - before) / keys}


_JOBS = {
    "fill": fill,
    "make_due": make_due,
    "acknowledged": acknowledged,
    "summary_memory": summary_memory,
}


def main() -> None:
    """Run one job."""
    print(json.dumps(_JOBS[sys.argv[1]](**json.loads(sys.argv[2]))))


if __name__ == "__main__":
    main()
