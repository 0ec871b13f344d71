"""Makes the samples of `old-data`: what the code of some commit leaves on disk at a kill -9.

    git worktree add ../old d8029f3c
    .venv/bin/python -m tests.golden.make_old_data ../old d8029f3c

The servers, the owner of the log and the commands that change a log are those of that checkout (its
modules come first on the path, as `python -m` has it); the clients are of this one. Needs Java, for
ZooKeeper. What must be found is written down before the kill, and is compared with what had been
acknowledged. Contents are the same at each run; ids, the times of what the servers write themselves
and the number of records of the logs are not.
"""

import gzip
import json
import random
import re
import subprocess
import sys
import tarfile
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.protocol.kafka.apis import ALTER_CLIENT_QUOTAS, INCREMENTAL_ALTER_CONFIGS
from tailrace.protocol.kafka.messages import alter_client_quotas as alter
from tailrace.protocol.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.cluster.old_data import (
    BOOKIE_SETTINGS,
    FIRST_MS,
    NOTHING_EXPIRES,
    SAMPLES,
    WITHIN_S,
    ConfigKind,
    Headers,
    IdempotentProducer,
    OldCluster,
    Row,
    member,
    row,
    served,
    settings,
    wait_until,
)
from tests.cluster.raw import RawClient
from tests.failover import first_owner
from tests.ports import free_port
from tests.process import TailraceProcess

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Of partitions 0, 1, ... of the topic `codecs`."""
SMALL_SEGMENTS: Final = {"internal.segment.bytes": "6000", "retention.ms": "-1"}
SERVER_SETTINGS: Final = (
    *NOTHING_EXPIRES,
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
)
_SET: Final = 0
_FLAT_LIST: Final = re.compile(r"\[\s+([^\[\]{}]*?)\s+\]")


class Maker:
    """A broker of the old code, and what it has acknowledged."""

    def __init__(self, broker: TailraceProcess, copies: int) -> None:
        self.broker = broker
        self.copies = copies
        self.acknowledged: dict[tuple[str, int], list[Row]] = {}
        self._random = random.Random(7)
        self._admin: tuple[str, AdminClient] | None = None
        self._numbers: dict[tuple[str, int], int] = {}

    @property
    def admin(self) -> AdminClient:
        """A client of the broker as it runs now."""
        if self._admin is None or self._admin[0] != self.broker.bootstrap:
            client = AdminClient({"bootstrap.servers": self.broker.bootstrap})
            self._admin = (self.broker.bootstrap, client)
        return self._admin[1]

    def create(self, name: str, partitions: int, **configs: str) -> None:
        """Create a topic with small segments."""
        wanted = SMALL_SEGMENTS | {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name, partitions, self.copies, config=wanted)
        self.admin.create_topics([topic])[name].result(WITHIN_S)

    def producer(self, **given: Any) -> Producer:
        """Return a producer of batches of ten records."""
        return Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "enable.idempotence": True,
                "batch.num.messages": 10,
                "linger.ms": 1000,
                **{key.replace("_", "."): value for key, value in given.items()},
            }
        )

    def write(self, producer: Producer, topic: str, partition: int, count: int) -> None:
        """Write some records, a batch at a time: with and without keys, values and headers."""
        for _ in range(count):
            number = self._numbers.get((topic, partition), 0)
            self._numbers[topic, partition] = number + 1
            drawn = self._random.randbytes(40).hex()
            headers: Headers = []
            if number % 5 == 0:
                headers = [("n", str(number).encode()), ("none", None)]
            producer.produce(
                topic,
                key=None if number % 7 == 3 else f"key-{self._random.randrange(20)}",
                value=f"{topic} {partition} {number} {drawn}" * 2,
                partition=partition,
                timestamp=FIRST_MS + number * 1000,
                headers=headers,
                on_delivery=partial(self._on_delivery, headers),
            )
            if number % 10 == 9:
                assert producer.flush(WITHIN_S) == 0
        assert producer.flush(WITHIN_S) == 0

    def write_table(self, count: int) -> None:
        """Write keys again and again, and take some away."""
        producer = self.producer(compression_type="lz4")
        for _ in range(count):
            number = self._numbers.get(("table", 0), 0)
            self._numbers["table", 0] = number + 1
            producer.produce(
                "table",
                key=f"key-{self._random.randrange(30)}",
                value=None if number % 10 == 0 else f"row {number} {self._random.randbytes(30)!r}",
                partition=0,
                timestamp=FIRST_MS + number * 1000,
                on_delivery=partial(self._on_delivery, []),
            )
            if number % 10 == 9:
                assert producer.flush(WITHIN_S) == 0
        assert producer.flush(WITHIN_S) == 0

    def _on_delivery(self, headers: Headers, error: Any, message: Message) -> None:
        assert error is None, error
        topic, partition = message.topic(), message.partition()
        self.acknowledged.setdefault((topic, partition), []).append(row(message, headers))

    def transaction(self, producer: Producer, *, committed: bool) -> None:
        """Write to both partitions of `accounts`, and have a group's offset go along."""
        producer.begin_transaction()
        for partition in range(2):
            self.write(producer, "accounts", partition, 8)
        if not committed:
            producer.abort_transaction(WITHIN_S)
            return
        with member(self.broker, "in-transactions") as consumer:
            position = TopicPartition("codecs", 3, 11 + self._numbers["accounts", 0])
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([position], metadata, WITHIN_S)
        producer.commit_transaction(WITHIN_S)

    def commit(self, group: str, **offsets: int) -> None:
        """Commit offsets of partitions of `codecs`, each with a word about it."""
        places = [
            TopicPartition("codecs", CODECS.index(codec), offset, metadata=f"at {codec}")
            for codec, offset in offsets.items()
        ]
        with member(self.broker, group) as consumer:
            consumer.commit(offsets=places, asynchronous=False)

    def consume(self, group: str, count: int, **given: Any) -> None:
        """Read as a member that joins the group, commit, and leave it."""
        with member(self.broker, group, **given) as consumer:
            consumer.subscribe(["accounts"])
            for _ in range(count):
                message = consumer.poll(WITHIN_S)
                assert message is not None
                assert message.error() is None
            consumer.commit(asynchronous=False)

    def alter(self, kind: ConfigKind, name: str, **configs: str) -> None:
        """Set dynamic configs."""
        resource = AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                AlterableConfig(name=key.replace("_", "."), config_operation=_SET, value=value)
                for key, value in configs.items()
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        with RawClient(self.broker) as client:
            answer = client.ask(INCREMENTAL_ALTER_CONFIGS, 1, request)
        assert [each.error_code for each in answer.responses] == [0], answer

    def limit(self, *entity: tuple[str, str | None], **values: float) -> None:
        """Set quotas that nothing here reaches."""
        entry = alter.EntryData(
            entity=[alter.EntityData(entity_type=k, entity_name=name) for k, name in entity],
            ops=[alter.OpData(key=k, value=v, remove=False) for k, v in values.items()],
        )
        request = alter.AlterClientQuotasRequest(entries=[entry])
        with RawClient(self.broker) as client:
            answer = client.ask(ALTER_CLIENT_QUOTAS, 1, request)
        assert [each.error_code for each in answer.entries] == [0]

    def check(self, found: dict[str, Any]) -> None:
        """Hold what is served against what was acknowledged."""
        for (topic, partition), rows in self.acknowledged.items():
            if topic in found["topics"]:
                start = found["topics"][topic]["start"][partition]
                there = [each[:-1] for each in found["topics"][topic]["records"][partition]]
                wanted = [each for each in sorted(rows) if each[0] >= start]
                if topic == "table":
                    assert all(each in wanted for each in there)
                    assert len(there) < len(wanted), "it was not cleaned"
                else:
                    assert [each for each in there if each[1] != "in-turn"] == wanted, topic


def first_life(maker: Maker) -> IdempotentProducer:
    """Write what the first process writes; return who goes on in the second one."""
    maker.create("codecs", len(CODECS))
    maker.create("accounts", 2)
    maker.create("gone", 1)
    maker.create("again", 1)
    plain = maker.producer()
    for topic in ("gone", "again"):
        maker.write(plain, topic, 0, 15)
        maker.admin.delete_topics([topic])[topic].result(WITHIN_S)
        del maker.acknowledged[topic, 0]
    maker.create("again", 1, message_timestamp_type="LogAppendTime")
    for partition, codec in enumerate(CODECS):
        maker.write(maker.producer(compression_type=codec), "codecs", partition, 80)
    in_turn = IdempotentProducer.new(maker.broker, "codecs", 0)
    for number in range(3):
        in_turn.send(maker.broker, number)
    steady = maker.producer(transactional_id="steady", compression_type="lz4")
    steady.init_transactions(WITHIN_S)
    maker.transaction(steady, committed=True)
    maker.transaction(steady, committed=False)
    maker.commit("readers", none=17, gzip=40)
    return in_turn


def second_life(maker: Maker, in_turn: IdempotentProducer) -> tuple[dict[str, Any], Producer]:
    """Write the rest, up to an open transaction; return what must be found, and its producer."""
    for number in range(3, 5):
        in_turn.send(maker.broker, number)
    for partition, codec in enumerate(CODECS):
        maker.write(maker.producer(compression_type=codec), "codecs", partition, 30)
    maker.write(maker.producer(), "again", 0, 12)
    cut = TopicPartition("codecs", 1, 25)
    maker.admin.delete_records([cut])[TopicPartition("codecs", 1)].result(WITHIN_S)
    steady = maker.producer(transactional_id="steady")
    steady.init_transactions(WITHIN_S)
    for committed in (True, False, True):
        maker.transaction(steady, committed=committed)
    maker.consume("classic", 20)
    maker.consume("next", 10, group_protocol="consumer")
    maker.commit("readers", gzip=42, zstd=99)
    maker.alter(ConfigKind.TOPIC, "codecs", max_message_bytes="900000", retention_bytes="-1")
    maker.alter(ConfigKind.BROKER, "1", log_cleaner_threads="2")
    maker.alter(ConfigKind.BROKER, "", message_max_bytes="1200000")
    maker.alter(ConfigKind.GROUP, "next", consumer_session_timeout_ms="50000")
    maker.limit(("client-id", "busy"), producer_byte_rate=1e9, consumer_byte_rate=2e9)
    maker.limit(("user", None), request_percentage=5000.0)
    opened = maker.producer(transactional_id="cut-short")
    opened.init_transactions(WITHIN_S)
    opened.begin_transaction()
    maker.write(opened, "accounts", 1, 5)
    maker.write(maker.producer(), "accounts", 1, 4)
    found = served(maker.broker)
    maker.check(found)
    return {"in_turn": in_turn.at, "next_batch": 5, **found}, opened


def standalone(folder: Path, command: Path) -> dict[str, Any]:
    """Make a data directory: a clean end between two lives, and a kill."""
    admin = f"127.0.0.1:{free_port()}"
    http = ("admin.http.enable=true", f"admin.http.port={admin.rpartition(':')[2]}")
    given = settings(*SERVER_SETTINGS, *BOOKIE_SETTINGS, *http, "log.cleaner.backoff.ms=50")
    broker = TailraceProcess(folder / "data", *given, command=command)
    try:
        maker = Maker(broker.start(), 1)
        in_turn = first_life(maker)
        compacted = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.1"}
        maker.create("table", 1, **compacted)
        maker.write_table(400)
        wait_until(lambda: _is_clean(command, admin))
        assert broker.stop() == 0
        given = settings(*SERVER_SETTINGS, *BOOKIE_SETTINGS, "log.cleaner.enable=false")
        broker.arguments = tuple(given)
        broker.restart()
        maker.write_table(100)
        found, _opened = second_life(maker, in_turn)
        broker.kill()
    finally:
        broker.close()
    return found


def _is_clean(command: Path, admin: str) -> bool:
    shown = json.loads(_run(command, "cleaner", "plan", "-a", admin, "--json"))
    return [each["cleanable_bytes"] for each in shown if each["name"] == "table-0"] == [0]


def _run(command: Path, *arguments: str) -> bytes:
    done = subprocess.run([command, *arguments], check=True, capture_output=True, timeout=WITHIN_S)
    return done.stdout


def _succeeds(command: list[str | Path]) -> bool:
    done = subprocess.run(command, check=False, capture_output=True, timeout=WITHIN_S)
    return done.returncode == 0


def cluster(folder: Path, command: Path, checkout: Path) -> dict[str, Any]:
    """Make a cluster with topics and logs, and kill all of it."""
    old = OldCluster(folder, command=command)
    try:
        old.zookeeper.start()
        _run(command, "cluster", "init", "--metadata", old.metadata)
        old.zookeeper.restart()  # a snapshot holds what is there so far
        old.start_bookies()
        maker = Maker(old.start_broker(*settings(*SERVER_SETTINGS)), 3)
        in_turn = first_life(maker)
        maker.broker.kill()
        old.bookies[2].stop()  # it has a checkpoint, the others have none
        old.bookies[2].start()
        maker.broker.start()
        found, _opened = second_life(maker, in_turn)
        with first_owner(old.namespace, "before", checkout) as owner:
            owner.write_some()
            owner.kill()
            renamed = owner.confirmed
        recover: list[str | Path] = [
            command,
            "log",
            "recover",
            "before",
            "--namespace",
            old.namespace,
        ]
        wait_until(lambda: _succeeds(recover))  # the owner's lock goes with its session
        _run(command, "log", "rename", "before", "renamed", "--namespace", old.namespace)
        with first_owner(old.namespace, "unfinished", checkout) as owner:
            owner.write_some()
            owner.kill()
            old.kill()
            return {"logs": {"renamed": renamed, "unfinished": owner.confirmed}, **found}
    finally:
        old.kill()


def _pack(folder: Path, members: list[str], into: Path) -> None:
    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info

    with (
        into.open("wb") as file,
        gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for member in members:
            archive.add(folder / member, member, filter=plain)


def _write_down(found: dict[str, Any], into: Path) -> None:
    """Write JSON, with a record on each line."""
    text = json.dumps(found, indent=1, sort_keys=True)
    text = _FLAT_LIST.sub(lambda match: f"[{' '.join(match[1].split())}]", text)
    into.write_text(text + "\n", encoding="utf-8")


def main(checkout: Path, commit: str) -> None:
    """Make both samples."""
    sample = SAMPLES / commit
    sample.mkdir(parents=True, exist_ok=True)
    (sample / "made-by.txt").write_text(f"{commit}\n")
    with TemporaryDirectory(prefix="old-data-") as name:
        folder = Path(name)
        command = folder / "old-tailrace"
        command.write_text(
            f'#!/bin/sh\ncd "{checkout}" && exec "{sys.executable}" -m tailrace "$@"\n'
        )
        command.chmod(0o755)
        _write_down(standalone(folder / "standalone", command), sample / "standalone.json")
        _pack(folder / "standalone", ["data"], sample / "standalone.tar.gz")
        made = folder / "cluster"
        _write_down(cluster(made, command, checkout), sample / "cluster.json")
        bookies = [f"bookie-{number}" for number in range(3)]
        _pack(made, ["zookeeper/data", *bookies], sample / "cluster.tar.gz")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2])
