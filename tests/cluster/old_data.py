"""What older code left on disk: where samples of it lie, and how all that they hold is read.

`served` reads everything of a broker through real clients, as values that JSON can hold. So the
program that makes a sample (`tests/golden/make_old_data.py`) and the test that opens it compare the
same things. In a sample's folder:

    made-by.txt                   the commit whose code wrote it
    standalone.tar.gz, .json      a data directory, and what must be found in it
    cluster.tar.gz, .json         a ZooKeeper's data, three bookies' directories; the same
"""

import hashlib
import json
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import ConsumerGroupTopicPartitions as GroupPartitions
from confluent_kafka.admin import AdminClient, OffsetSpec

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import (
    DESCRIBE_CLIENT_QUOTAS,
    DESCRIBE_CONFIGS,
    INIT_PRODUCER_ID,
    PRODUCE,
)
from tailrace.protocol.kafka.messages.describe_client_quotas import DescribeClientQuotasRequest
from tailrace.protocol.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tailrace.protocol.kafka.messages.init_producer_id import InitProducerIdRequest
from tailrace.protocol.records.record import Producer, Record, build_batch
from tests.bookie_process import BookieUnderTest
from tests.cluster.cli import parsed
from tests.cluster.raw import RawClient, produce_request
from tests.cluster.three_bookies import SESSION_MS, ClusterBroker
from tests.golden import GOLDEN
from tests.process import TailraceProcess
from tests.server_process import TAILRACE
from tests.zookeeper import ZooKeeperServer

SAMPLES: Final = GOLDEN / "old-data"
WITHIN_S: Final = 60
FIRST_MS: Final = 1_700_000_000_000
"""The time of the first record of each partition; the next ones are a second apart each."""
_YEARS_MS: Final = 9_000_000_000_000_000
NOTHING_EXPIRES: Final = (
    f"producer.id.expiration.ms={_YEARS_MS}",
    f"transactional.id.expiration.ms={_YEARS_MS}",
    "offsets.retention.minutes=2147483647",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=2147483647",
    "log.retention.ms=-1",
    "log.message.timestamp.before.max.ms=9223372036854775807",
)
"""Samples grow old."""


class ConfigKind(IntEnum):
    """What has configs, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


_SOURCES: Final = {ConfigKind.TOPIC: 1, ConfigKind.BROKER: 2, ConfigKind.GROUP: 8}
_ALL_BROKERS: Final = 3

BOOKIE_SETTINGS: Final = ("journalPreAllocSizeMB=1", "logSizeLimit=200000")
"""Small files."""

Headers = Sequence[tuple[str, bytes | None]]
Row = list[Any]
"""A record: offset, key, hash of value and headers or None, timestamp, whether it is committed."""
Rows = list[Row]


def settings(*pairs: str) -> list[str]:
    """Return the command's arguments for some settings."""
    return [word for pair in pairs for word in ("--set", pair)]


def samples() -> list[Path]:
    """Return the folders of the samples there are."""
    return sorted(path.parent for path in SAMPLES.glob("*/made-by.txt"))


def expected(sample: Path, kind: str) -> dict[str, Any]:
    """Return what must be found in a sample."""
    found: dict[str, Any] = json.loads((sample / f"{kind}.json").read_text(encoding="utf-8"))
    return found


def unpack(sample: Path, kind: str, into: Path) -> Path:
    """Lay a sample down in a folder and return it."""
    with tarfile.open(sample / f"{kind}.tar.gz") as archive:
        archive.extractall(into, filter="data")
    return into


def wait_until(what: Callable[[], Any]) -> None:
    """Return once it is so."""
    deadline = time.monotonic() + WITHIN_S
    while not what():
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(0.02)  # the pace of the attempts


@contextmanager
def member(broker: TailraceProcess, group: str, **given: Any) -> Iterator[Consumer]:
    """A consumer of a group, that commits when it is told to; it leaves at the end of the block."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
            **{key.replace("_", "."): value for key, value in given.items()},
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def served(broker: TailraceProcess) -> dict[str, Any]:
    """Return all that a broker serves: topics with records, groups, configs, quotas, ids."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    listed = admin.list_topics(timeout=WITHIN_S).topics
    names = sorted(name for name in listed if not name.startswith("__"))
    counts = {name: len(listed[name].partitions) for name in names}
    records = _read(broker.bootstrap, counts)
    return {
        "topics": {
            name: {**_topic(admin, broker, name, counts[name]), "records": records[name]}
            for name in names
        },
        "groups": _groups(admin),
        "broker_configs": {name: _dynamic(broker, ConfigKind.BROKER, name) for name in ("", "1")},
        "group_configs": {"next": _dynamic(broker, ConfigKind.GROUP, "next")},
        "quotas": _quotas(broker),
        "transactional_ids": sorted(
            [each["transactional_id"], each["producer_id"], each["state"]]
            for each in parsed("txn", "list", bootstrap=broker.bootstrap)
        ),
    }


def _topic(admin: AdminClient, broker: TailraceProcess, name: str, count: int) -> dict[str, Any]:
    (described,) = _results(admin.describe_topics(TopicCollection([name])))
    return {
        "id": str(described.topic_id),
        "configs": _dynamic(broker, ConfigKind.TOPIC, name),
        "start": _offsets(admin, name, count, OffsetSpec.earliest()),
        "end": _offsets(admin, name, count, OffsetSpec.latest()),
        "stable": _offsets(admin, name, count, OffsetSpec.latest(), is_committed=True),
    }


def _results(futures: Mapping[Any, Any]) -> list[Any]:
    return [each.result(WITHIN_S) for each in futures.values()]


def _offsets(
    admin: AdminClient, name: str, count: int, spec: OffsetSpec, *, is_committed: bool = False
) -> list[int]:
    level = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
    asked = {TopicPartition(name, n): spec for n in range(count)}
    return [each.offset for each in _results(admin.list_offsets(asked, isolation_level=level))]


def _dynamic(broker: TailraceProcess, kind: ConfigKind, name: str) -> dict[str, str | None]:
    """Return the configs that were set of something; of all brokers if a broker has no name."""
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    asked = DescribeConfigsRequest(
        resources=[resource], include_synonyms=False, include_documentation=False
    )
    with RawClient(broker) as client:
        (found,) = client.ask(DESCRIBE_CONFIGS, 4, asked).results
    assert found.error_code == 0, found
    source = _SOURCES[kind] if name else _ALL_BROKERS
    return {
        each.name: each.value
        for each in sorted(found.configs, key=lambda config: config.name)
        if each.config_source == source
    }


def _groups(admin: AdminClient) -> dict[str, dict[str, list[Any]]]:
    listed = admin.list_consumer_groups().result(WITHIN_S).valid
    found = {}
    for group in sorted(each.group_id for each in listed):
        asked = admin.list_consumer_group_offsets([GroupPartitions(group)])
        (answer,) = _results(asked)
        found[group] = {
            f"{each.topic}/{each.partition}": [each.offset, each.metadata or ""]
            for each in sorted(answer.topic_partitions, key=lambda at: (at.topic, at.partition))
        }
    return found


def _quotas(broker: TailraceProcess) -> list[Any]:
    asked = DescribeClientQuotasRequest(components=[], strict=False)
    with RawClient(broker) as client:
        answer = client.ask(DESCRIBE_CLIENT_QUOTAS, 1, asked)
    assert answer.error_code == 0
    return sorted(
        [
            sorted([part.entity_type, part.entity_name or ""] for part in entry.entity),
            sorted([value.key, value.value] for value in entry.values),
        ]
        for entry in answer.entries or ()
    )


def _read(bootstrap: str, counts: Mapping[str, int]) -> dict[str, list[Rows]]:
    """Return the records of each partition, and which of them readers of committed ones get."""
    committed = {_place(each) for each in _messages(bootstrap, counts, "read_committed")}
    found: dict[str, list[Rows]] = {name: [[] for _ in range(n)] for name, n in counts.items()}
    for message in _messages(bootstrap, counts, "read_uncommitted"):
        topic, partition, _ = place = _place(message)
        known = [*row(message, message.headers() or ()), int(place in committed)]
        found[topic][partition].append(known)
        committed.discard(place)
    assert not committed
    return found


def _place(message: Message) -> tuple[str, int, int]:
    return message.topic(), message.partition(), message.offset()


def row(message: Message, headers: Headers) -> Row:
    """Return an acknowledged or read record as a description has it, but for the last field."""
    key, value = message.key(), message.value()
    return [
        message.offset(),
        None if key is None else key.decode(),
        None if value is None else digest(value, headers),
        message.timestamp()[1],
    ]


def digest(value: bytes, headers: Headers = ()) -> str:
    """Return what stands for a value with its headers in a description."""
    shown = b"".join(b"%s=%r;" % (name.encode(), header) for name, header in headers)
    return hashlib.sha256(shown + value).hexdigest()[:12]


def _messages(bootstrap: str, counts: Mapping[str, int], level: str) -> Iterator[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-everything",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": level,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
        }
    )
    everything = [(name, at) for name, count in counts.items() for at in range(count)]
    consumer.assign([TopicPartition(*each, OFFSET_BEGINNING) for each in everything])
    not_ended = set(everything)
    try:
        while not_ended:
            message = consumer.poll(WITHIN_S)
            assert message is not None, f"{not_ended}: neither a record nor the end"
            if message.error() is None:
                yield message
            else:
                not_ended.discard((message.topic(), message.partition()))
    finally:
        consumer.close()


class IdempotentProducer:
    """A producer that never says farewell, by raw requests: it may go on from a description."""

    def __init__(self, topic: str, partition: int, at: Mapping[str, int]) -> None:
        self._topic = topic
        self._partition = partition
        self.at = dict(at)

    @classmethod
    def new(cls, broker: TailraceProcess, topic: str, partition: int) -> "IdempotentProducer":
        """Return one with an id of its own."""
        asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        with RawClient(broker) as client:
            answer = client.ask(INIT_PRODUCER_ID, 4, asked)
        assert answer.error_code == 0
        at = {"producer_id": answer.producer_id, "epoch": answer.producer_epoch}
        return cls(topic, partition, at)

    def send(self, broker: TailraceProcess, number: int) -> int:
        """Write batch `number` of five records; return its first offset."""
        code, offset = self.try_send(broker, number)
        assert code is ErrorCode.NONE, code
        return offset

    def try_send(self, broker: TailraceProcess, number: int) -> tuple[ErrorCode, int]:
        """Write a batch, also out of turn; return what it is answered."""
        first = number * 5
        records = [
            Record(
                offset=at,
                timestamp=FIRST_MS + first + at,
                key=b"in-turn",
                value=b"idempotent %d" % (first + at),
            )
            for at in range(5)
        ]
        producer = Producer(self.at["producer_id"], self.at["epoch"], first)
        batch = build_batch(records, producer=producer)
        request = produce_request(self._topic, batch, partition=self._partition)
        deadline = time.monotonic() + WITHIN_S
        with RawClient(broker) as client:
            while True:
                answer = client.ask(PRODUCE, 9, request).responses[0].partition_responses[0]
                code = ErrorCode(answer.error_code)
                if code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    return code, answer.base_offset
                assert time.monotonic() < deadline
                time.sleep(0.02)  # it is being opened


class OldCluster:
    """A ZooKeeper, three bookies with ids that are no addresses, and a broker over a folder."""

    METADATA_PATH: Final = "/ledgers"
    NAMESPACE_PATH: Final = "/messaging/old"

    def __init__(self, folder: Path, *, command: Path = TAILRACE) -> None:
        self.folder = folder
        self.zookeeper = ZooKeeperServer(folder / "zookeeper")
        self.bookies: list[BookieUnderTest] = []
        self.broker: ClusterBroker | None = None
        self._command = command

    @property
    def metadata(self) -> str:
        return f"zk://{self.zookeeper.hosts}{self.METADATA_PATH}"

    @property
    def namespace(self) -> str:
        return f"distributedlog://{self.zookeeper.hosts}{self.NAMESPACE_PATH}"

    @property
    def at(self) -> tuple[str, ...]:
        """Arguments of commands about logs."""
        return ("--namespace", self.namespace, "--metadata", self.metadata)

    def start_bookies(self) -> None:
        """Start three; one of them writes entries to its journal too."""
        for number in range(3):
            given = [f"zkTimeout={SESSION_MS}", *BOOKIE_SETTINGS]
            given += ["journalWriteData=true"] if number == 1 else []
            bookie = BookieUnderTest(
                self.metadata,
                self.folder / f"bookie-{number}",
                *settings(*given),
                bookie_id=f"bookie-{number}",
                command=self._command,
            )
            self.bookies.append(bookie)
            bookie.start()

    def start_broker(self, *arguments: str) -> ClusterBroker:
        """Start a broker, the first one or the next."""
        self.broker = ClusterBroker(self.metadata, self.namespace, *arguments)
        self.broker.command = self._command
        self.broker.start()
        return self.broker

    def kill(self) -> None:
        """Pull all plugs, ZooKeeper's last: it keeps what the others never gave back."""
        for process in (self.broker, *self.bookies):
            if process is not None and process.is_running:
                process.kill()
        if self.zookeeper.is_running:
            self.zookeeper.kill()
