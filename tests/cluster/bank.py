"""Accounts between which transactions move money: what a broker's death must not tear.

Orders lie in a topic, a teller for each of its partitions. A teller reads some orders, writes both
sides of each (the payer's and the payee's, in different partitions) and commits its place in the
orders within the same transaction; now and then it aborts, and begins the same orders again. So at
the end each order below the committed place has both sides, once, and no other has any.
"""

import random
import struct
import threading
import time
from collections import Counter
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

ORDERS: Final = "orders"
LEDGER: Final = "ledger"
TELLERS: Final = 2
PARTITIONS: Final = 4
GROUP: Final = "tellers"
_SIDE: Final = struct.Struct(">iiq")  # teller, order, amount
_WITHIN_S: Final = 120
_QUICK: Final = {
    "log_level": 0,  # a broker that is away is what the tests are about
    # librdkafka 2.16 forgets a broker when all are down, but its cache of coordinators keeps it: a
    # TxnOffsetCommit then waits for ever for a broker that it has given up (of Kafka, too).
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 20,
}


def open_bank(bootstrap: str) -> None:
    """Create the ledger, and the topic that stands for the orders' places."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(LEDGER, PARTITIONS, 1), NewTopic(ORDERS, TELLERS, 1)]
    for future in admin.create_topics(topics).values():
        future.result(30)


class Teller:
    """Works on the orders of one partition, whatever happens to the broker."""

    def __init__(self, bootstrap: str, number: int, seed: int, *, rest_s: float = 0) -> None:
        """`rest_s`: how long it rests after each transaction, where waiting is what takes time."""
        self.number = number
        self.committed = 0
        """Place behind the last order whose transaction was committed for sure."""
        self.transactions = 0
        self.errors: list[str] = []
        self._bootstrap = bootstrap
        self._rest_s = rest_s
        self._random = random.Random(seed + number)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._at = TopicPartition(ORDERS, number)
        self._consumer = _consumer(bootstrap)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let it finish the transaction that it is in."""
        self._stop.set()
        self._thread.join(_WITHIN_S)
        assert not self._thread.is_alive(), f"teller {self.number} hangs"
        self._consumer.close()
        assert self.errors == []

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - told to the test, which fails
            self.errors.append(repr(error))

    def _work(self) -> None:
        while not self._stop.is_set():
            producer = self._producer()
            producer.init_transactions(_WITHIN_S)
            place = self._place()
            while not self._stop.is_set():
                try:
                    place = self._transaction(producer, place)
                    time.sleep(self._rest_s)
                except KafkaException as error:
                    fault: KafkaError = error.args[0]
                    if fault.fatal():
                        break  # with a new producer, which fences this one
                    if fault.txn_requires_abort():
                        producer.abort_transaction(_WITHIN_S)
                    elif not fault.retriable():
                        raise
                    place = self._place()

    def _transaction(self, producer: Producer, place: int) -> int:
        """Move the money of a few orders; return the place behind them."""
        behind = place + self._random.randint(1, 8)
        producer.begin_transaction()
        for order in range(place, behind):
            amount = self._random.randint(1, 1000)
            payer = self._random.randrange(PARTITIONS)
            payee = (payer + self._random.randrange(1, PARTITIONS)) % PARTITIONS
            for partition, signed in ((payer, -amount), (payee, amount)):
                side = _SIDE.pack(self.number, order, signed)
                producer.produce(LEDGER, side, partition=partition)
        self._at.offset = behind
        producer.send_offsets_to_transaction(
            [self._at], self._consumer.consumer_group_metadata(), _WITHIN_S
        )
        if self._random.random() < 0.1:
            producer.abort_transaction(_WITHIN_S)
            return place
        producer.commit_transaction(_WITHIN_S)
        self.committed = behind
        self.transactions += 1
        return behind

    def _place(self) -> int:
        """Ask where the orders begin that nobody has worked on."""
        return _place(self._consumer, self.number)

    def _producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": f"teller-{self.number}",
                "transaction.timeout.ms": 60_000,
                "message.timeout.ms": 60_000,
                "linger.ms": 1,
                **_QUICK,
            }
        )


def check(bootstrap: str, tellers: list[Teller], what: str) -> None:
    """Compare the ledger, as readers of committed records see it, with the committed places."""
    sides: Counter[tuple[int, int]] = Counter()
    sums: Counter[tuple[int, int]] = Counter()
    for partition in range(PARTITIONS):
        for value in read_committed(bootstrap, LEDGER, partition):
            teller, order, amount = _SIDE.unpack(value)
            sides[teller, order] += 1
            sums[teller, order] += amount
    consumer = _consumer(bootstrap)
    for teller in tellers:
        place = _place(consumer, teller.number)
        assert place >= teller.committed, f"{what}: a committed place went back"
        done = {order: n for (number, order), n in sides.items() if number == teller.number}
        assert done == dict.fromkeys(range(place), 2), f"{what}: torn, lost or doubled"
    assert not any(sums.values()), f"{what}: money came or went"
    consumer.close()


def read_committed(bootstrap: str, topic: str, partition: int) -> list[bytes]:
    """Return all committed values of a partition up to its end, which all transactions reached."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "auditor",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **_QUICK,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + _WITHIN_S
    while time.monotonic() < deadline:
        for message in consumer.consume(1000, timeout=1):
            fault = message.error()
            if fault is None:
                found.append(message.value() or b"")
            elif fault.code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return found
            else:
                raise KafkaException(fault)
    raise AssertionError(f"{topic}-{partition} has no end: a transaction hangs")


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False, **_QUICK}
    )


def _place(consumer: Consumer, teller: int) -> int:
    """Return the committed place, once no transaction is about to move it."""
    found = consumer.committed([TopicPartition(ORDERS, teller)], timeout=_WITHIN_S)[0]
    if found.error is not None:
        raise KafkaException(found.error)
    return max(found.offset, 0)
