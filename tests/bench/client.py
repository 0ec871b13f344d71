"""The load, a process of its own: `python -m tests.bench.client JOB JSON` prints JSON."""

import json
import os
import select
import struct
import sys
import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

_MAX_QUEUED_KB = 131_072
_CHUNK_BYTES = 256 * 1024
_STAMP = struct.Struct(">d")
_CONSUMER = {
    "enable.auto.commit": False,
    "fetch.message.max.bytes": 1_048_576,
    "queued.max.messages.kbytes": 131_072,
    "fetch.queue.backoff.ms": 1,
}

_SECURITY: Final[dict[str, str]] = {}
"""How to log in, from a job's `client`; of the jobs that measure records."""


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create a topic, of as many replicas as the brokers say, and wait until it has leaders."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **_SECURITY})
    for future in admin.create_topics([NewTopic(topic, partitions, -1)]).values():
        future.result(30)
    deadline = time.perf_counter() + 30
    while time.perf_counter() < deadline:
        found = admin.list_topics(topic, timeout=10).topics[topic]
        if len(found.partitions) == partitions and all(
            p.error is None and p.leader >= 0 for p in found.partitions.values()
        ):
            return
        time.sleep(0.05)
    raise TimeoutError(f"{topic} has no leaders after 30 s")


def produce(
    *,
    bootstrap: str,
    topic: str,
    partitions: int,
    batch_bytes: int,
    record_bytes: int,
    seconds: float,
) -> dict[str, Any]:
    """Send for `seconds`, then flush. Return records, bytes, seconds and Produce requests."""
    requests = {"Produce": 0}
    errors: list[str] = []

    def on_stats(text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        requests["Produce"] = sum(b["req"].get("Produce", 0) for b in brokers)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "batch.size": batch_bytes,
            "batch.num.messages": 1_000_000,
            "linger.ms": 5 if batch_bytes < 100_000 else 50,
            "queue.buffering.max.kbytes": _MAX_QUEUED_KB,
            "queue.buffering.max.messages": 2_000_000,
            "message.max.bytes": max(1_000_000, batch_bytes),
            "statistics.interval.ms": 500,
            "stats_cb": on_stats,
            "error_cb": lambda error: errors.append(str(error)),
            **_SECURITY,
        }
    )
    value = os.urandom(record_bytes)
    chunk_records = max(1, min(_CHUNK_BYTES, batch_bytes) // record_bytes)
    chunk = [{"value": value} for _ in range(chunk_records)]
    sent = 0
    partition = 0
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        queued = producer.produce_batch(topic, chunk, partition=partition)
        sent += queued
        partition = (partition + 1) % partitions
        producer.poll(0.002 if queued < chunk_records else 0)
    left = producer.flush(120)
    elapsed = time.perf_counter() - started
    time.sleep(0.6)
    producer.poll(0)  # the last statistics
    if left or errors:
        raise RuntimeError(f"{left} records not acknowledged: {errors[:3]}")
    return {
        "records": sent,
        "bytes": sent * record_bytes,
        "seconds": elapsed,
        "requests": requests["Produce"],
        "mb_s": sent * record_bytes / elapsed / 1e6,
    }


_NOT_YET: Final = (KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)
"""What librdkafka does not call retriable when it is asked for offsets."""


def _watermarks(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """Ask until there is a leader: a Kafka that was just restarted says for a while it is none."""
    deadline = time.perf_counter() + 120
    while True:
        try:
            low, high = consumer.get_watermark_offsets(partition, timeout=30)
        except KafkaException as error:
            reason = error.args[0]
            is_early = reason.retriable() or reason.code() in _NOT_YET
            if not is_early or time.perf_counter() > deadline:
                raise
            time.sleep(0.2)
            consumer.list_topics(partition.topic, timeout=30)  # look who leads now
        else:
            return low, high


def consume(
    *,
    bootstrap: str,
    topic: str,
    partitions: int,
    record_bytes: int,
    newest_bytes: int = -1,
    rack: str = "",
) -> dict[str, Any]:
    """Read everything that is there, or so much of the newest. Return records, bytes, seconds.

    `rack`: where the consumer is.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "auto.offset.reset": "earliest",
            "client.rack": rack,
            **_CONSUMER,
            **_SECURITY,
        }
    )
    total = 0
    starts = []
    for partition in range(partitions):
        low, high = _watermarks(consumer, TopicPartition(topic, partition))
        if newest_bytes >= 0:
            low = max(low, high - newest_bytes // record_bytes // partitions)
        total += high - low
        starts.append(TopicPartition(topic, partition, low))
    started = time.perf_counter()
    consumer.assign(starts)
    records = 0
    while records < total:
        messages = consumer.consume(min(10_000, total - records), timeout=30)
        if not messages:
            raise TimeoutError(f"{records} of {total} records after 30 s without any")
        for message in messages:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise RuntimeError(str(error))
        records += len(messages)
    elapsed = time.perf_counter() - started
    consumer.close()
    return {
        "records": records,
        "bytes": records * record_bytes,
        "seconds": elapsed,
        "mb_s": records * record_bytes / elapsed / 1e6,
    }


def produce_paced(
    *,
    bootstrap: str,
    topic: str,
    partitions: int,
    record_bytes: int,
    records_s: int,
    seconds: float,
) -> dict[str, Any]:
    """Send records that carry the time at which they were sent, `records_s` of them a second."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    filler = os.urandom(record_bytes - _STAMP.size)
    started = time.time()
    total = int(records_s * seconds)
    for number in range(total):
        due_s = started + number / records_s
        while (left_s := due_s - time.time()) > 0:
            producer.poll(left_s)
        value = _STAMP.pack(time.time()) + filler
        producer.produce(topic, value, partition=number % partitions)
    _flush(producer)
    return {"records": total}


def follow(
    *, bootstrap: str, topic: str, partitions: int, record_bytes: int, stamped: bool = False
) -> dict[str, Any]:
    """Read what somebody writes meanwhile; says `ready`, ends at the count that stdin gives then.

    `stamped`: records begin with the time at which they were sent; return how old they came.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "tail", **_CONSUMER})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    print("ready", flush=True)
    records, total = 0, None
    ages: list[float] = []
    first = last = alive = time.perf_counter()
    while total is None or records < total:
        # It waits for all that it may return, or for the time-out: that must not count as age.
        messages = consumer.consume(1 if stamped else 2000, timeout=0.05)
        if messages:
            last = alive = time.perf_counter()
            first = first if records else last
            now = time.time()
        elif time.perf_counter() - alive > 60:
            raise TimeoutError(f"{records} of {total} records, none for 60 s")
        for message in messages:
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
            if stamped:
                ages.append(now - _STAMP.unpack_from(message.value())[0])
        records += len(messages)
        if total is None and select.select([sys.stdin], [], [], 0)[0]:
            total = int(sys.stdin.readline())
    consumer.close()
    found = {"records": records, "mb_s": records * record_bytes / max(last - first, 1e-9) / 1e6}
    return found | (_percentiles_ms(ages) if stamped else {})


def latency(*, bootstrap: str, topic: str, records: int, record_bytes: int) -> dict[str, Any]:
    """Send one record at a time, each after the last was acknowledged. Unit: ms."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    value = os.urandom(record_bytes)
    took: list[float] = []
    for number in range(records + 50):
        before = time.perf_counter()
        producer.produce(topic, value, partition=0)
        if producer.flush(30):
            raise TimeoutError("a record was not acknowledged in 30 s")
        if number >= 50:
            took.append(time.perf_counter() - before)
    return _percentiles_ms(took)


def first_of_each(*, bootstrap: str, topic: str, partitions: int, record_bytes: int) -> None:
    """Write a record to each partition: making a topic and opening it is not its produces' cost."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, **_SECURITY}
    )
    for partition in range(partitions):
        producer.produce(topic, os.urandom(record_bytes), partition=partition)
    _flush(producer)


def acknowledgements(
    *,
    bootstrap: str,
    topic: str,
    partitions: int,
    record_bytes: int,
    records_s: int,
    seconds: float,
) -> dict[str, Any]:
    """Send `records_s` records a second, each alone; return how long their answers took."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    value = os.urandom(record_bytes)
    took: list[float] = []

    def send(partition: int) -> None:
        sent = time.perf_counter()

        def answered(error: KafkaError | None, _message: object) -> None:
            if error is not None:
                raise KafkaException(error)
            took.append(time.perf_counter() - sent)

        producer.produce(topic, value, partition=partition, on_delivery=answered)

    for partition in range(partitions):  # opening a partition is nobody's latency
        send(partition)
    _flush(producer)
    took.clear()
    started = time.perf_counter()
    for number in range(int(records_s * seconds)):
        while (left_s := started + number / records_s - time.perf_counter()) > 0:
            producer.poll(left_s)
        send(number % partitions)
    _flush(producer)
    return _percentiles_ms(took)


def _flush(producer: Producer) -> None:
    if producer.flush(60):
        raise TimeoutError("records were not acknowledged in 60 s")


def _percentiles_ms(took_s: list[float]) -> dict[str, float]:
    took_s.sort()
    return {
        "p50_ms": took_s[len(took_s) // 2] * 1e3,
        "p99_ms": took_s[int(len(took_s) * 0.99)] * 1e3,
        "max_ms": took_s[-1] * 1e3,
    }


def first_record(*, bootstrap: str, topic: str) -> dict[str, Any]:
    """Write one record and read it back, as soon as anybody answers."""
    common = {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.ms": 5,
        "reconnect.backoff.max.ms": 20,
        "topic.metadata.refresh.fast.interval.ms": 10,
        "retry.backoff.ms": 10,
    }
    producer = Producer({**common, "acks": "all", "linger.ms": 0})
    producer.produce(topic, b"first")
    if producer.flush(60):
        raise TimeoutError("the first record was not acknowledged in 60 s")
    acknowledged = time.time()
    consumer = Consumer({**common, "group.id": "first", "fetch.wait.max.ms": 10})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(60)
    if message is None or message.value() != b"first":
        raise RuntimeError(f"read back {message and (message.error() or message.value())}")
    read = time.time()
    consumer.close()
    return {"acknowledged_at": acknowledged, "read_at": read}


def log_ins(*, bootstrap: str, count: int) -> dict[str, Any]:
    """Open connections one after the other, each with a client of its own; return the seconds."""
    started = time.perf_counter()
    for _ in range(count):
        AdminClient({"bootstrap.servers": bootstrap, **_SECURITY}).list_topics(timeout=30)
    return {"seconds": time.perf_counter() - started}


_JOBS = {
    "produce": produce,
    "produce_paced": produce_paced,
    "consume": consume,
    "follow": follow,
    "latency": latency,
    "first_of_each": first_of_each,
    "acknowledgements": acknowledgements,
    "first_record": first_record,
    "log_ins": log_ins,
}


def main() -> None:
    """Run one job."""
    arguments = json.loads(sys.argv[2])
    _SECURITY.update(arguments.pop("client", {}))
    if arguments.pop("create", False):
        create_topic(arguments["bootstrap"], arguments["topic"], arguments.get("partitions", 1))
    print(json.dumps(_JOBS[sys.argv[1]](**arguments)))


if __name__ == "__main__":
    main()
