"""Consumer groups of kafka-python against a broker from the command line."""

import gc
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaConnectionError

from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

PARTITIONS = 4
DEADLINE_S = 60


@pytest.fixture(autouse=True)
def _sockets_that_the_client_forgets() -> Iterator[None]:
    """Collect them here: kafka-python does not close a socket whose connect was refused."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class Member:
    """One consumer in a thread of its own: kafka-python rebalances inside of `poll`.

    A poll that times out while its SyncGroup is under way loses the answer (3.0.12): the member
    then believes in no assignment and sends no heartbeats. So polls are long.
    """

    def __init__(self, broker: TailraceProcess, topic: str, **options: Any) -> None:
        self.values: list[bytes] = []
        self.partitions: set[int] = set()
        self.commit_asked = threading.Event()
        self.commit_done = threading.Event()
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        defaults: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap,
            "group_id": topic,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 300,
        }
        self._consumer = KafkaConsumer(topic, **{**defaults, **options})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure

    def commit(self) -> None:
        self.commit_done.clear()
        self.commit_asked.set()
        assert self.commit_done.wait(DEADLINE_S), self.failure

    def _poll(self) -> Any:
        """Poll; a broker that is away for a moment is asked again, as programs do."""
        try:
            return self._consumer.poll(timeout_ms=1_000)
        except KafkaConnectionError:
            return {}

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                for records in self._poll().values():
                    self.values += [record.value for record in records]
                self.partitions = {p.partition for p in self._consumer.assignment()}
                if self.commit_asked.is_set():
                    self.commit_asked.clear()
                    self._consumer.commit()
                    self.commit_done.set()
            self.partitions = set()
            self._consumer.close()
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            self.failure = error


@contextmanager
def members(broker: TailraceProcess, topic: str, count: int) -> Iterator[list[Member]]:
    made = [Member(broker, topic) for _ in range(count)]
    try:
        yield made
    finally:
        for member in made:
            member.stop()


def shared_out(made: Sequence[Member]) -> bool:
    owned = [partition for member in made for partition in member.partitions]
    return sorted(owned) == list(range(PARTITIONS)) and all(m.partitions for m in made)


def wait_until(made: Sequence[Member], done: Callable[[], bool]) -> None:
    until = time.monotonic() + DEADLINE_S
    while not done():
        seen = [(m.partitions, len(m.values), m.failure) for m in made]
        assert time.monotonic() < until, seen
        time.sleep(0.02)  # the members run in threads of their own


def create(broker: TailraceProcess, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    admin.close()


def produce(broker: TailraceProcess, topic: str, values: Sequence[str]) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    for number, value in enumerate(values):
        producer.send(topic, value.encode(), partition=number % PARTITIONS)
    producer.flush(30)
    producer.close()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_partitions_are_shared_out(broker: TailraceProcess, topic: str, count: int) -> None:
    create(broker, topic)
    with members(broker, topic, count) as made:
        wait_until(made, lambda: shared_out(made))
        produce(broker, topic, [f"v{n}" for n in range(24)])
        wait_until(made, lambda: sum(len(m.values) for m in made) >= 24)
        values = sorted(value for member in made for value in member.values)
        assert values == sorted(f"v{n}".encode() for n in range(24))


def test_when_one_leaves_the_others_take_over(broker: TailraceProcess, topic: str) -> None:
    create(broker, topic)
    with members(broker, topic, 2) as made:
        wait_until(made, lambda: shared_out(made))
        made.pop().stop()
        wait_until(made, lambda: made[0].partitions == set(range(PARTITIONS)))


def test_a_group_resumes_where_it_committed(broker: TailraceProcess, topic: str) -> None:
    create(broker, topic)
    produce(broker, topic, [f"a{n}" for n in range(20)])
    with members(broker, topic, 1) as made:
        wait_until(made, lambda: len(made[0].values) == 20)
        made[0].commit()
    produce(broker, topic, ["b"])
    with members(broker, topic, 1) as made:
        wait_until(made, lambda: len(made[0].values) >= 1)
        assert made[0].values == [b"b"]


def test_offsets_survive_a_killed_broker(broker_factory: type[TailraceProcess], topic: str) -> None:
    broker = broker_factory().start()
    create(broker, topic)
    produce(broker, topic, [f"a{n}" for n in range(20)])
    with members(broker, topic, 1) as made:
        wait_until(made, lambda: len(made[0].values) == 20)
        made[0].commit()
        broker.kill()
        broker.restart()
        produce(broker, topic, [f"b{n}" for n in range(4)])
        wait_until(made, lambda: len(made[0].values) >= 24)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=topic)
    committed = [consumer.committed(TopicPartition(topic, p)) for p in range(PARTITIONS)]
    assert committed == [5] * PARTITIONS
    consumer.close()


def test_the_admin_sees_the_group(broker: TailraceProcess, topic: str) -> None:
    create(broker, topic)
    with members(broker, topic, 2) as made:
        wait_until(made, lambda: shared_out(made))
        made[0].commit()
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        assert topic in str(admin.list_groups())
        described = str(admin.describe_groups([topic]))
        assert "Stable" in described
        assert "range" in described
        admin.close()
