"""Faults of `tailrace.testing.Broker`, as real clients see them."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.testing import Broker, BrokerError
from tests.testing.clients import TIMEOUT_S, outcome, settings, values


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker(settings={"num.partitions": 2}) as running:
        yield running


@pytest.fixture
def broker(shared: Broker) -> Iterator[Broker]:
    yield shared
    shared.undo_faults()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_dropped_produce_is_tried_again_and_lands_once(broker: Broker, when: str) -> None:
    topic = f"dropped-{when}"
    producer = Producer(settings(broker, enable_idempotence=True))
    assert outcome(producer, topic, b"0") is None
    with broker.drop_next("Produce", 2, when=when) as fault:  # type: ignore[arg-type]
        assert outcome(producer, topic, b"1") is None
        assert fault.hits == 2
    assert values(broker, topic, 2) == [b"0", b"1"]


def test_without_idempotence_what_was_dropped_after_its_effect_lands_twice(broker: Broker) -> None:
    producer = Producer(settings(broker, enable_idempotence=False))
    assert outcome(producer, "twice", b"0") is None
    broker.drop_next("Produce", when="after")
    assert outcome(producer, "twice", b"1") is None
    assert values(broker, "twice", 3) == [b"0", b"1", b"1"]


def test_a_failed_produce_of_one_partition_leaves_the_other_alone(broker: Broker) -> None:
    producer = Producer(settings(broker, message_timeout_ms=TIMEOUT_S * 1000))
    assert outcome(producer, "failed", b"0", partition=0) is None
    assert outcome(producer, "failed", b"0", partition=1) is None
    fault = broker.fail_next("Produce", "MESSAGE_TOO_LARGE", topic="failed", partition=1)
    assert outcome(producer, "failed", b"1", partition=0) is None
    assert fault.hits == 0
    error = outcome(producer, "failed", b"1", partition=1)
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert fault.hits == 1
    assert outcome(producer, "failed", b"2", partition=1) is None, "it was one request"


def test_aiokafka_writes_and_reads_through_faults(broker: Broker) -> None:
    async def run() -> list[bytes | None]:
        async with AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, enable_idempotence=True
        ) as producer:
            await producer.send_and_wait("async", b"0", partition=0)
            drop = await asyncio.to_thread(broker.drop_next, "Produce")
            fail = await asyncio.to_thread(
                broker.fail_next, "Produce", "NOT_LEADER_OR_FOLLOWER", topic="async"
            )
            await producer.send_and_wait("async", b"1", partition=0)
            assert drop.hits == fail.hits == 1
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap)
        consumer.assign([AioPartition("async", 0)])
        drop = await asyncio.to_thread(broker.drop_next, "Fetch")
        fail = await asyncio.to_thread(
            broker.fail_next, "Fetch", "NOT_LEADER_OR_FOLLOWER", topic="async", partition=0
        )
        async with consumer:
            consumer.seek(AioPartition("async", 0), 0)
            found = [(await consumer.getone()).value for _ in range(2)]
            assert drop.hits == fail.hits == 1
        return found

    assert asyncio.run(run()) == [b"0", b"1"]


def test_a_failed_partition_of_a_fetch_is_read_by_the_next(broker: Broker) -> None:
    producer = Producer(settings(broker))
    for partition in (0, 1):
        assert outcome(producer, "fetched", b"0", partition) is None
    fault = broker.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="fetched", partition=1)
    consumer = Consumer(settings(broker, group_id="fetched", auto_offset_reset="earliest"))
    consumer.assign([TopicPartition("fetched", 0, 0), TopicPartition("fetched", 1, 0)])
    found = consumer.consume(2, TIMEOUT_S)
    consumer.close()
    assert {message.partition() for message in found} == {0, 1}
    assert fault.hits == 1


def test_late_answers_are_late_until_that_is_undone(broker: Broker) -> None:
    producer = Producer(settings(broker, socket_timeout_ms=TIMEOUT_S * 1000))
    assert outcome(producer, "late") is None
    fault = broker.delay("Produce", 600_000)
    errors: list[KafkaError | None] = []
    producer.produce("late", b"1", partition=0, on_delivery=lambda e, _: errors.append(e))
    while not fault.hits:
        producer.poll(0.01)
    assert values(broker, "late", 2) == [b"x", b"1"], "it took effect"
    assert errors == []
    fault.undo()
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None]
    assert fault.hits == 1


def test_a_delay_ends_by_itself(broker: Broker) -> None:
    producer = Producer(settings(broker))
    assert outcome(producer, "slow") is None
    with broker.delay("Produce", 150):
        began = time.monotonic()
        assert outcome(producer, "slow") is None
        assert time.monotonic() - began >= 0.15


def test_cut_connections_come_again(broker: Broker) -> None:
    producer = Producer(settings(broker))
    assert outcome(producer, "cut") is None
    assert broker.cut_connections() >= 1
    assert outcome(producer, "cut") is None


def test_the_clock_is_ahead_and_then_right_again(broker: Broker) -> None:
    admin = AdminClient(settings(broker))
    topic = NewTopic("dated", 1, 1, config={"message.timestamp.type": "LogAppendTime"})
    admin.create_topics([topic])["dated"].result(TIMEOUT_S)
    producer = Producer(settings(broker))
    day_ms = 86_400_000
    with broker.skew_clock(2 * 86_400), broker.skew_clock(-86_400):
        assert outcome(producer, "dated") is None
    assert outcome(producer, "dated") is None
    consumer = Consumer(settings(broker, group_id="dated"))
    consumer.assign([TopicPartition("dated", 0, 0)])
    ahead, right = (message.timestamp()[1] for message in consumer.consume(2, TIMEOUT_S))
    consumer.close()
    assert 0 < ahead - right <= day_ms
    assert ahead - right > day_ms - TIMEOUT_S * 1000


def test_a_full_disk_takes_records_again_when_it_is_free(broker: Broker) -> None:
    producer = Producer(settings(broker))
    assert outcome(producer, "full", b"0") is None
    broker.fill_disk()
    error = outcome(Producer(settings(broker, message_timeout_ms=1500)), "full", b"lost")
    assert error is not None
    assert error.code() == KafkaError._MSG_TIMED_OUT
    broker.free_disk()
    assert outcome(producer, "full", b"1") is None
    with broker.fill_disk():
        pass
    assert outcome(producer, "full", b"2") is None
    found = values(broker, "full", 3)
    assert found in ([b"0", b"1", b"2"], [b"0", b"lost", b"1"]), "who timed out may have landed"


def test_what_was_acknowledged_outlives_a_power_cut(broker: Broker) -> None:
    producer = Producer(settings(broker))
    for number in range(20):
        assert outcome(producer, "power", b"%d" % number) is None
    broker.lose_unsynced()
    assert not broker.is_running
    broker.start()
    assert values(broker, "power", 20) == [b"%d" % number for number in range(20)]


def test_an_aborted_transaction_shuts_its_producer_out(broker: Broker) -> None:
    producer = Producer(settings(broker, transactional_id="t"))
    producer.init_transactions(TIMEOUT_S)
    with pytest.raises(BrokerError, match=r"t: INVALID_TXN_STATE(?s:.)*send a record of it first"):
        broker.abort_transaction("t")
    producer.begin_transaction()
    assert outcome(producer, "aborted", b"0") is None
    broker.abort_transaction("t")
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(TIMEOUT_S)
    assert caught.value.args[0].fatal() or caught.value.args[0].txn_requires_abort()
    assert outcome(Producer(settings(broker)), "aborted", b"1") is None
    assert values(broker, "aborted", 1, isolation_level="read_committed") == [b"1"]
    with pytest.raises(BrokerError, match="nobody: TRANSACTIONAL_ID_NOT_FOUND"):
        broker.abort_transaction("nobody")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_rebalanced_group_gives_up_its_partitions_and_has_them_again(
    broker: Broker, protocol: str
) -> None:
    assert outcome(Producer(settings(broker)), "shared") is None
    heard: list[str] = []
    more = (
        {"session_timeout_ms": 6000, "heartbeat_interval_ms": 100} if protocol == "classic" else {}
    )
    consumer = Consumer(settings(broker, group_id=protocol, group_protocol=protocol, **more))
    consumer.subscribe(
        ["shared"],
        on_assign=lambda *_: heard.append("assigned"),
        on_revoke=lambda *_: heard.append("revoked"),
        on_lost=lambda *_: heard.append("lost"),
    )
    until(consumer, lambda: len(heard) == 1)
    broker.rebalance(protocol)
    until(consumer, lambda: len(heard) == 3)
    assert heard in (["assigned", "revoked", "assigned"], ["assigned", "lost", "assigned"])
    consumer.close()
    with pytest.raises(BrokerError, match=r"none: GROUP_ID_NOT_FOUND(?s:.)*no consumer has joined"):
        broker.rebalance("none")


def test_a_fault_is_gone_with_the_process_that_had_it(broker: Broker) -> None:
    fault = broker.delay("Produce", 600_000)
    assert fault.hits == 0
    broker.restart()
    other = broker.skew_clock(1)
    fault.undo()
    assert fault.hits == 0
    with other:
        broker.undo_faults()
    other.undo()


def test_one_with_faults_ends_in_order(tmp_path: Path) -> None:
    with Broker(data_directory=tmp_path / "data") as first:
        producer = Producer(settings(first, message_timeout_ms=TIMEOUT_S * 1000))
        assert outcome(producer, "kept", b"0") is None
        first.delay("Produce", 600_000)
        first.fill_disk()
        first.pause()
    with Broker(data_directory=tmp_path / "data") as second:
        assert values(second, "kept", 1) == [b"0"]


def test_one_that_cannot_be_broken_says_so(broker: Broker) -> None:
    never = Broker()
    with pytest.raises(BrokerError, match=r"takes no faults\n  try: call start\(\) first"):
        never.fill_disk()
    broker.pause()
    with pytest.raises(BrokerError, match=r"paused, so it takes no faults\n  try: call resume"):
        broker.drop_next("Produce")
    broker.resume()
    with pytest.raises(
        BrokerError, match=r"api: the API 'Produec' .*\n  try: did you mean Produce"
    ):
        broker.drop_next("Produec")
    with pytest.raises(BrokerError, match=r"ms: .*<= 600000\D"):
        broker.delay("Produce", 10**7)


def until(consumer: Consumer, is_done: Callable[[], bool]) -> None:
    """Poll until it is done."""
    deadline = time.monotonic() + TIMEOUT_S
    while not is_done():
        assert time.monotonic() < deadline
        consumer.poll(0.05)
