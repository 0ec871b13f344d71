"""Two brokers in racks of their own, and clients that say where they are (KIP-392)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias
from urllib.request import urlopen

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.several_brokers import CLIENT, seen, until
from tests.cluster.three_bookies import ClusterBroker, ThreeBookies
from tests.ports import free_port

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER: Final = 1
FOLLOWER: Final = 2
RACKS: Final = {LEADER: "a", FOLLOWER: "b"}
FAR: Final = RACKS[FOLLOWER]
"""The rack that is not the leader's."""
SIZE: Final = 1000
_WITHIN_S: Final = 60
_QUIET: Final = {
    "log_level": 0,  # a broker that is away is what some tests are about
    "reconnect.backoff.max.ms": 200,
    **CLIENT,
}


class Racked:
    """A broker with a rack, and its numbers."""

    def __init__(self, cluster: ThreeBookies, node_id: int, rack: str, **more: str) -> None:
        self._admin = free_port()
        settings = {
            "node.id": str(node_id),
            "broker.rack": rack,
            "replica.selector.class": RACK_AWARE,
            "admin.http.enable": "true",
            "admin.http.port": str(self._admin),
            **more,
        }
        arguments = [part for each in settings.items() for part in ("--set", "=".join(each))]
        self.process: ClusterBroker = cluster.broker(*arguments)

    def number(self, name: str) -> float:
        """Return one of its metrics."""
        with urlopen(f"http://127.0.0.1:{self._admin}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        (line,) = [each for each in text.splitlines() if each.startswith(f"{name} ")]
        return float(line.rpartition(" ")[2])

    @property
    def fetched(self) -> float:
        """Bytes that consumers fetched from it as a follower."""
        return self.number("broker_following_fetched_bytes_total")


Pair: TypeAlias = Mapping[int, Racked]
"""The two by id."""


@contextmanager
def racked_pair(cluster: ThreeBookies, **settings: str) -> Iterator[Pair]:
    """Start both; each sees the other."""
    made = {node_id: Racked(cluster, node_id, rack, **settings) for node_id, rack in RACKS.items()}
    for each in made.values():
        each.process.start()
    meet(made)
    yield made


def meet(pair: Pair) -> None:
    """Return once each sees the other."""
    for each in pair.values():
        until(lambda at=each: len(seen(at.process).brokers) == len(pair))


def bootstrap(pair: Pair) -> str:
    return ",".join(each.process.bootstrap for each in pair.values())


def create(pair: Pair, topic: str, partitions: int = 1, *, copies: int = 1, **configs: str) -> None:
    """Make a topic that the leader owns."""
    admin = AdminClient({"bootstrap.servers": bootstrap(pair), **CLIENT})
    preferred = [LEADER, FOLLOWER][:copies]
    places = [preferred] * partitions
    made = NewTopic(topic, partitions, replica_assignment=places, config=configs)
    admin.create_topics([made])[topic].result(30)
    until(lambda: topic in seen(pair[FOLLOWER].process).topics)


@contextmanager
def consumer(pair: Pair, topic: str, rack: str = "", **more: Any) -> Iterator[Consumer]:
    made = Consumer(
        {
            "bootstrap.servers": bootstrap(pair),
            "group.id": "readers",
            "enable.auto.commit": False,
            "client.rack": rack,
            **_QUIET,
            **more,
        }
    )
    made.assign([TopicPartition(topic, 0, 0)])
    try:
        yield made
    finally:
        made.close()


def read(reader: Consumer, count: int) -> list[tuple[int, bytes]]:
    """Return offsets and values of the next records."""
    found: list[tuple[int, bytes]] = []
    while len(found) < count:
        some = reader.consume(count - len(found), timeout=_WITHIN_S)
        assert some, f"nothing after {len(found)} of {count}"
        for message in some:
            assert not message.error(), message.error()
            found.append((message.offset(), message.value()))
    return found


class Stream:
    """Produces numbered records; keeps what was acknowledged."""

    def __init__(self, pair: Pair, topic: str, *, size: int = SIZE, **more: Any) -> None:
        self.topic = topic
        self._rest = b"." * size
        self.count = 0
        settings = {"enable.idempotence": True, "linger.ms": 0, **_QUIET, **more}
        self.producer = Producer({"bootstrap.servers": bootstrap(pair), **settings})

    def write(self, count: int = 1) -> None:
        for _ in range(count):
            self.producer.produce(self.topic, self.value(self.count), partition=0)
            self.count += 1
        assert self.producer.flush(_WITHIN_S) == 0

    def expected(self, first: int = 0) -> list[tuple[int, bytes]]:
        return [(at, self.value(at)) for at in range(first, self.count)]

    def value(self, number: int) -> bytes:
        return b"%d" % number + self._rest
