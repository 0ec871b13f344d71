"""What older code left behind at a kill -9 is opened, served whole, and written on.

The samples are `tests/golden/old-data`; `tests/golden/make_old_data.py` makes them.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, Producer, TopicPartition

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.records.record import iter_records
from tests.cluster.cli import output, parsed, tailrace
from tests.cluster.old_data import (
    BOOKIE_SETTINGS,
    FIRST_MS,
    NOTHING_EXPIRES,
    WITHIN_S,
    IdempotentProducer,
    OldCluster,
    Row,
    digest,
    expected,
    member,
    samples,
    served,
    settings,
    unpack,
    wait_until,
)
from tests.failover import first_owner
from tests.ports import free_port
from tests.process import TailraceProcess

pytestmark = [pytest.mark.crash, pytest.mark.slow]
Factory = Callable[..., TailraceProcess]
Found = dict[str, Any]
CUT_SHORT = 5
"""Records in the transaction that was open at the kill."""


@pytest.fixture(params=samples(), ids=lambda path: path.name)
def sample(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


@pytest.fixture
def cluster(sample: Path, tmp_path: Path) -> Iterator[OldCluster]:
    old = OldCluster(unpack(sample, "cluster", tmp_path))
    try:
        yield old
    finally:
        old.kill()


def test_there_are_samples() -> None:
    assert samples()


def test_a_data_directory_is_served_and_written_on(
    sample: Path, tmp_path: Path, broker_factory: Factory
) -> None:
    wanted = expected(sample, "standalone")
    data = unpack(sample, "standalone", tmp_path) / "data"
    check_files(data, wanted)
    given = settings(*NOTHING_EXPIRES, *BOOKIE_SETTINGS, "log.cleaner.enable=false")
    broker = broker_factory(*given, data=data).start()
    check_served(broker, wanted)
    for name, topic in wanted["topics"].items():
        check_place(data, f"{name}/0", topic["records"][0][0])
    later = go_on(broker, wanted)
    broker.kill()
    admin = f"127.0.0.1:{free_port()}"
    http = ("admin.http.enable=true", f"admin.http.port={admin.rpartition(':')[2]}")
    given = settings(*NOTHING_EXPIRES, *BOOKIE_SETTINGS, *http, "log.cleaner.backoff.ms=50")
    broker = broker_factory(*given, data=data).start()
    wait_until(lambda: is_clean(admin))
    found = served(broker)
    check_cleaned(later["topics"].pop("table"), found["topics"].pop("table"))
    assert found == later


@pytest.mark.java
def test_a_cluster_is_served_and_written_on(sample: Path, cluster: OldCluster) -> None:
    wanted = expected(sample, "cluster")
    confirmed = wanted.pop("logs")
    cluster.zookeeper.start()
    cluster.start_bookies()
    broker = cluster.start_broker(*settings(*NOTHING_EXPIRES))
    check_served(broker, wanted)
    later = go_on(broker, wanted)
    broker.kill()
    broker.start()
    assert served(broker) == later
    check_logs(cluster, confirmed)


def check_served(broker: TailraceProcess, wanted: Found) -> None:
    assert served(broker) == {k: v for k, v in wanted.items() if k not in ("in_turn", "next_batch")}


def go_on(broker: TailraceProcess, wanted: Found) -> Found:
    """Take over what was under way, write everywhere; return what is served from now on."""
    go_on_in_turn(broker, wanted)
    end_cut_short_transaction(broker, wanted)
    go_on_in_transactions(broker, wanted)
    go_on_in_group(broker, wanted)
    if "table" in wanted["topics"]:
        write_table(broker)
    found = served(broker)
    for name, before in wanted["topics"].items():
        after = found["topics"][name]
        assert after["stable"] == after["end"]
        for partition, old in enumerate(before["records"]):
            decided_to = before["stable"][partition]
            assert after["records"][partition][: len(old)] == decided(old, decided_to), name
    return found


def decided(rows: list[Row], decided_to: int) -> list[Row]:
    """Return rows as they are once the transaction at the end of `accounts/1` is aborted.

    Behind what it had written are records of no transaction, which its readers had to wait for.
    """
    known = [row for row in rows if row[0] < decided_to]
    waiting = [row[:-1] for row in rows if row[0] >= decided_to]
    aborted, plain = waiting[:CUT_SHORT], waiting[CUT_SHORT:]
    assert not waiting or plain
    return [*known, *([*row, 0] for row in aborted), *([*row, 1] for row in plain)]


def go_on_in_turn(broker: TailraceProcess, wanted: Found) -> None:
    """An idempotent producer whose last batch is sent again, and then the next ones."""
    number, (end, *_) = wanted["next_batch"], wanted["topics"]["codecs"]["end"]
    rows = wanted["topics"]["codecs"]["records"][0]
    last = [row[0] for row in rows if row[1] == "in-turn"][-5]
    producer = IdempotentProducer("codecs", 0, wanted["in_turn"])
    assert producer.send(broker, number - 1) == last
    assert producer.try_send(broker, number + 1)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(broker, number) == end
    assert producer.send(broker, number + 1) == end + 5


def end_cut_short_transaction(broker: TailraceProcess, wanted: Found) -> None:
    """The producer comes back: what it had begun is aborted, and readers go on."""
    (state,) = (each for each in wanted["transactional_ids"] if each[0] == "cut-short")
    assert state[2] == "Ongoing"
    producer = transactional(broker, "cut-short")
    before = wanted["topics"]["accounts"]
    assert before["stable"][1] < before["end"][1]
    producer.begin_transaction()
    write(producer, "accounts", 1, 3)
    producer.commit_transaction(WITHIN_S)


def go_on_in_transactions(broker: TailraceProcess, wanted: Found) -> None:
    """One aborted, one committed, with a group's offset in both."""
    producer = transactional(broker, "steady")
    for word, offset in (("abort", 1), ("commit", 77)):
        producer.begin_transaction()
        write(producer, "accounts", 0, 4)
        with member(broker, "in-transactions") as consumer:
            place, metadata = (
                TopicPartition("codecs", 3, offset),
                consumer.consumer_group_metadata(),
            )
            producer.send_offsets_to_transaction([place], metadata, WITHIN_S)
        end = producer.abort_transaction if word == "abort" else producer.commit_transaction
        end(WITHIN_S)
    with member(broker, "in-transactions") as consumer:
        (found,) = consumer.committed([TopicPartition("codecs", 3)], WITHIN_S)
    assert found.offset == 77


def go_on_in_group(broker: TailraceProcess, wanted: Found) -> None:
    """Members of groups of both kinds begin where the last ones stopped; others commit."""
    plain = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4"})
    for partition in range(len(wanted["topics"]["codecs"]["end"])):
        write(plain, "codecs", partition, 4)
    write(plain, "again", 0, 4)
    for group, protocol in (("classic", "classic"), ("next", "consumer")):
        with member(broker, group, group_protocol=protocol) as consumer:
            consumer.subscribe(["accounts"])
            first: dict[int, Message] = {}
            while len(first) < 2:
                message = consumer.poll(WITHIN_S)
                assert message is not None
                assert message.error() is None
                first.setdefault(message.partition(), message)
            for partition, message in first.items():
                old, _ = wanted["groups"][group].get(f"accounts/{partition}", (0, ""))
                seen = [message.offset(), digest(message.value(), message.headers() or ())]
                assert seen == next_committed(wanted, partition, old)
            consumer.commit(asynchronous=False)
    with member(broker, "readers") as consumer:
        place = TopicPartition("codecs", 1, 50, metadata="later")
        consumer.commit(offsets=[place], asynchronous=False)


def next_committed(wanted: Found, partition: int, at: int) -> list[Any]:
    """Return offset and digest of the first record that a member gets that begins at `at`."""
    rows: list[Row] = wanted["topics"]["accounts"]["records"][partition]
    return next([row[0], row[2]] for row in rows if row[0] >= at and row[4])


def write_table(broker: TailraceProcess) -> None:
    """Change some of its rows again and again."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for number in range(40):
        producer.produce("table", key=f"key-{number % 4}", value=f"later {number}", partition=0)
    assert producer.flush(WITHIN_S) == 0


def check_cleaned(before: Found, after: Found) -> None:
    """Hold a cleaned table against what it was: less of it, and the same rows."""
    assert {k: before[k] for k in ("id", "configs", "end")} == {
        k: after[k] for k in ("id", "configs", "end")
    }
    (old,), (new,) = before["records"], after["records"]
    assert all(row in old for row in new)
    assert len(new) < len(old)
    assert table(new) == table(old)


def table(rows: list[Row]) -> dict[str, str]:
    latest = {row[1]: row[2] for row in rows}
    return {key: value for key, value in latest.items() if value is not None}


def is_clean(admin: str) -> bool:
    """Whether the table's log is open, and nothing of it waits for the cleaner."""
    looks = parsed("cleaner", "plan", "-a", admin)
    return [each["cleanable_bytes"] for each in looks if each["name"] == "table-0"] == [0]


def check_files(data: Path, wanted: Found) -> None:
    """Find the segments, and the newest record, of each partition by commands that read files."""
    for name, topic in wanted["topics"].items():
        for partition, rows in enumerate(topic["records"]):
            log = f"{name}/{partition}"
            segments = parsed("log", "show", log, "--data", str(data))
            states = [each["state"].partition(",")[0] for each in segments]
            assert set(states[:-1]) <= {"completed"}
            ends = [each["last_offset"] for each in segments if each["last_offset"] is not None]
            assert ends == sorted(ends)
            assert ends[-1] == topic["end"][partition] - 1
            check_place(data, log, rows[-1])


def check_place(data: Path, log: str, row: Row) -> None:
    """Find a record in the file at the place that `where` names."""
    found = parsed("where", f"{log}@{row[0]}", "--data", str(data))
    batch = found["batch"]
    with Path(found["file"]).open("rb") as file:
        file.seek(found["batch_position"])
        records = {each.offset: each for each in iter_records(file.read(batch["bytes"]))}
    record = records[row[0]]
    assert (None if record.value is None else digest(record.value, record.headers)) == row[2]
    assert (None if record.key is None else record.key.decode()) == row[1]


def check_logs(cluster: OldCluster, confirmed: dict[str, int]) -> None:
    """Logs without topics: all that was confirmed is there, and another owner goes on."""
    names = set(parsed("log", "list", *cluster.at))
    assert confirmed.keys() <= names
    assert "before" not in names
    for name in confirmed:
        assert parsed("log", "show", name, *cluster.at)
    assert len(dumped(cluster, "renamed")) > confirmed["renamed"]
    output("namespace", "bind", *cluster.at, "--force")  # ZooKeeper has another address
    with first_owner(cluster.namespace, "unfinished") as owner:
        owner.write_some()
    assert owner.confirmed > confirmed["unfinished"]
    recover = ("log", "recover", "unfinished", *cluster.at)
    wait_until(lambda: tailrace(*recover).returncode == 0)  # the owner's lock goes with its session
    assert len(dumped(cluster, "unfinished")) > owner.confirmed


def dumped(cluster: OldCluster, name: str) -> list[int]:
    """Return the numbers that a log's owners wrote, which leave none out."""
    lines = output("log", "dump", name, *cluster.at, "--json", "--hex").splitlines()
    numbers = [int(bytes.fromhex(each["payload"])) for each in map(json.loads, lines)]
    assert numbers == list(range(len(numbers)))
    return numbers


def transactional(broker: TailraceProcess, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
    producer.init_transactions(WITHIN_S)
    return producer


def write(producer: Producer, topic: str, partition: int, count: int) -> None:
    def heard(error: Any, _message: Message) -> None:
        assert error is None, error

    for number in range(count):
        producer.produce(
            topic,
            key=f"key-{number}",
            value=f"later {number}",
            partition=partition,
            timestamp=FIRST_MS,
            on_delivery=heard,
        )
    assert producer.flush(WITHIN_S) == 0
