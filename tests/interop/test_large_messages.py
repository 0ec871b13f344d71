"""Messages above BookKeeper's default frame of 5 MiB, with librdkafka, as far as 64 MiB.

A batch is one entry of a ledger; a topic with such a `max.message.bytes` is kept on bookies whose
frames are as large, and refused where there are too few of them.
"""

import hashlib
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tailrace.core.log.config import RECORD_BYTES_LIMIT, RECORD_BYTES_MAX
from tests.cluster.three_bookies import ThreeBookies
from tests.process import TailraceProcess
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("large_messages")]

MIB = 1 << 20
LARGEST = RECORD_BYTES_LIMIT
AROUND = 200
"""More than a batch has beside the value of its only record."""
WITHIN_S = 120


@pytest.fixture(scope="module")
def three(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreeBookies]:
    with ThreeBookies(zookeeper, tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def create(bootstrap: str, topic: str, max_bytes: int, copies: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, 1, copies, config={"max.message.bytes": str(max_bytes)})
    admin.create_topics([new])[topic].result(WITHIN_S)


def set_max_bytes(bootstrap: str, topic: str, max_bytes: int) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entry = ConfigEntry("max.message.bytes", str(max_bytes))
    entry.incremental_operation = AlterConfigOpType.SET
    resource.add_incremental_config(entry)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = admin.incremental_alter_configs([resource]).values()
    future.result(WITHIN_S)


def value_of(number: int, size: int) -> bytes:
    return random.Random(number).randbytes(size)


def producer_of(bootstrap: str, **options: object) -> Producer:
    settings = {
        "bootstrap.servers": bootstrap,
        "message.max.bytes": 100 * MIB,
        "queue.buffering.max.kbytes": 512 * 1024,
        "enable.idempotence": True,
        "linger.ms": 0,
    }
    return Producer({**settings, **options})


def produce(bootstrap: str, topic: str, *values: bytes) -> list[KafkaError | None]:
    """Return what became of each value, in order."""
    outcomes: list[KafkaError | None] = []
    producer = producer_of(bootstrap)
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error))
        assert producer.flush(WITHIN_S) == 0
    return outcomes


def consume(bootstrap: str, topic: str, count: int, **options: object) -> list[bytes]:
    """Read from the beginning with librdkafka's default limits of a fetch: 1 and 50 MiB."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "large", **options})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages: list[Message] = []
    try:
        while len(messages) < count:
            message = consumer.poll(WITHIN_S)
            assert message is not None, f"{len(messages)} of {count}"
            assert message.error() is None, message.error()
            messages.append(message)
    finally:
        consumer.close()
    return [message.value() for message in messages]


def digests(values: list[bytes]) -> list[str]:
    return [hashlib.sha256(value).hexdigest() for value in values]


SIZES = (10, 6 * MIB, 10 * MIB, 100, 64 * MIB, 1000)


def test_a_standalone_broker_keeps_messages_of_64_mib(broker: TailraceProcess, topic: str) -> None:
    create(broker.bootstrap, topic, 64 * MIB + AROUND)
    values = [value_of(number, size) for number, size in enumerate(SIZES)]
    assert produce(broker.bootstrap, topic, *values) == [None] * len(values)
    assert digests(consume(broker.bootstrap, topic, len(values))) == digests(values)


def test_each_size_that_a_topic_may_ask_for_is_stored(broker: TailraceProcess, topic: str) -> None:
    """What a topic's config says is what fits: a batch is refused by that, and by nothing else."""
    for number, most in enumerate((RECORD_BYTES_MAX, RECORD_BYTES_MAX + 1, 5 * MIB, LARGEST)):
        name = f"{topic}-{number}"
        create(broker.bootstrap, name, most)
        overhead = 61 + 16  # of a batch; of its record, with the length and four varints
        for less in range(overhead - 10, overhead + 1):
            (error,) = produce(broker.bootstrap, name, bytes(most - less))
            if error is None:
                break
            assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
        else:
            raise AssertionError(f"nothing of about {most} bytes is taken")
    with pytest.raises(KafkaException, match=str(LARGEST)):
        create(broker.bootstrap, f"{topic}-more", LARGEST + 1)


def test_a_topic_whose_limit_is_raised_takes_larger_messages_at_once(
    broker: TailraceProcess, topic: str
) -> None:
    create(broker.bootstrap, topic, 1_048_588)
    values = [b"small", value_of(1, 8 * MIB), b"small again"]
    assert produce(broker.bootstrap, topic, values[0]) == [None]
    (error,) = produce(broker.bootstrap, topic, values[1])
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    set_max_bytes(broker.bootstrap, topic, 10 * MIB)
    assert produce(broker.bootstrap, topic, *values[1:]) == [None, None]
    assert digests(consume(broker.bootstrap, topic, 3)) == digests(values)


def test_a_killed_broker_has_the_large_messages_that_it_acknowledged(
    tmp_path: Path, topic: str
) -> None:
    with TailraceProcess(tmp_path / "data") as broker:
        create(broker.bootstrap, topic, 64 * MIB + AROUND)
        acknowledged: list[int] = []
        in_the_middle = threading.Event()

        def note(number: int, error: KafkaError | None) -> None:
            if error is None:
                acknowledged.append(number)
            if len(acknowledged) == 3:
                in_the_middle.set()

        producer = producer_of(broker.bootstrap)
        values = [value_of(number, 20 * MIB) for number in range(6)]
        values[4] = value_of(4, 64 * MIB)
        for number, value in enumerate(values):
            producer.produce(topic, value, on_delivery=lambda e, _, n=number: note(n, e))
        while not in_the_middle.is_set():
            producer.poll(0.05)
        broker.kill()
        broker.restart()
        assert producer.flush(WITHIN_S) == 0
        assert sorted(acknowledged) == list(range(6))
        assert digests(consume(broker.bootstrap, topic, 6)) == digests(values)


def test_three_copies_of_64_mib_survive_a_bookie_and_the_broker(
    three: ThreeBookies, topic: str
) -> None:
    """Written to three bookies, the broker killed while it writes, one bookie too."""
    with three.another_namespace() as cluster:
        broker = cluster.broker().start()
        create(broker.bootstrap, topic, 64 * MIB + AROUND, copies=3)
        values = [value_of(number, size) for number, size in enumerate(SIZES)]
        assert produce(broker.bootstrap, topic, *values) == [None] * len(values)
        producer = producer_of(broker.bootstrap)
        more = [value_of(100 + number, 10 * MIB) for number in range(4)]
        outcomes: list[KafkaError | None] = []
        for value in more:
            producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error))
        while not outcomes:
            producer.poll(0.05)
        cluster.bookies[0].kill()
        broker.kill()
        cluster.wait_until_gone()
        broker.start()
        found = consume(broker.bootstrap, topic, len(values) + len(outcomes))
        assert digests(found) == digests((values + more)[: len(found)]), "read from two copies"
        cluster.bookies[0].start()  # a new segment needs as many bookies as copies
        assert producer.flush(WITHIN_S) == 0
        assert outcomes == [None] * len(more)
        found = consume(broker.bootstrap, topic, len(values) + len(more))
        assert digests(found) == digests(values + more)


def test_a_cluster_whose_bookies_have_small_frames_says_so(
    zookeeper: ZooKeeperServer, tmp_path: Path, topic: str
) -> None:
    """BookKeeper's default, as Java's bookies have it: such a topic is refused, others are not."""
    cluster = ThreeBookies(zookeeper, tmp_path)
    for bookie in cluster.bookies[1:]:
        bookie.arguments = (*bookie.arguments, "--set", "nettyMaxFrameSizeBytes=5242880")
    with cluster:
        broker = cluster.broker().start()
        small = cluster.bookies[1].bookie_id
        with pytest.raises(KafkaException, match=f"max.message.bytes.*{small} {RECORD_BYTES_MAX}"):
            create(broker.bootstrap, f"{topic}-3", 10 * MIB, copies=3)
        create(broker.bootstrap, topic, RECORD_BYTES_MAX, copies=3)
        with pytest.raises(KafkaException, match="nettyMaxFrameSizeBytes"):
            set_max_bytes(broker.bootstrap, topic, 5 * MIB)
        assert produce(broker.bootstrap, topic, b"x" * (5 * MIB - 2000)) == [None]
        create(broker.bootstrap, f"{topic}-1", 10 * MIB)  # one bookie is enough for one copy
        large = value_of(1, 9 * MIB)
        assert produce(broker.bootstrap, f"{topic}-1", large) == [None]
        assert digests(consume(broker.bootstrap, f"{topic}-1", 1)) == digests([large])
