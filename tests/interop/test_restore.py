"""A restore against a broker that runs: what it reads, how it ends, what it says when it cannot."""

import json
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow.dataset
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tailrace.compaction.restoring.cluster import bounds, find_topic, parse_bootstrap
from tailrace.compaction.restoring.digest import live_state
from tailrace.restore import (
    DictSink,
    LogTruncated,
    Options,
    Report,
    Sink,
    SqliteSink,
    Step,
    TopicGone,
    Unreachable,
    WrongCheckpoint,
    restore,
    verify,
)
from tests.process import TailraceProcess
from tests.server_process import TAILRACE

Values = dict[int, dict[bytes, bytes]]

PARTITIONS = 3
_SMALL = Options(timeout_s=20, answer_bytes=64 * 1024, save_bytes=16 * 1024)
_KILLS = 6


class Enough(Exception):
    """Ends a restore in the middle."""


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)


def fill(bootstrap: str, topic: str, *, records: int = 3000, seed: int = 1) -> Values:
    """Write keys over and over, delete some, with every codec; return what is alive."""
    values: Values = {partition: {} for partition in range(PARTITIONS)}
    drawn = random.Random(seed)
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    for number, codec in enumerate(codecs):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec})
        for _ in range(records // len(codecs)):
            partition = drawn.randrange(PARTITIONS)
            key = b"key-%d" % drawn.randrange(200)
            value = None if drawn.random() < 0.2 else drawn.randbytes(drawn.choice([0, 10, 300]))
            producer.produce(topic, value, key, partition, headers={"n": b"%d" % number})
            values[partition].pop(key, None)
            if value is not None:
                values[partition][key] = value
        assert producer.flush(60) == 0
    return values


@contextmanager
def transaction(bootstrap: str, name: str) -> Iterator[Producer]:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    yield producer
    assert producer.flush(30) == 0


def await_stable(bootstrap: str, topic: str, end: int) -> None:
    """Wait until all partitions together are stable up to `end`: markers come after the answer."""
    deadline = time.monotonic() + 30
    found = find_topic(parse_bootstrap(bootstrap), topic, 10)
    while sum(each.end for each in bounds(found, range(PARTITIONS), 10).values()) < end:
        assert time.monotonic() < deadline


def check(report: Report, values: Values) -> None:
    for each in report.partitions:
        live = live_state(values[each.partition].items())
        assert (each.live_keys, each.live_bytes, each.hash) == (live.keys, live.bytes, live.hash)
        passed = each.records + each.aborted + each.markers + each.gaps
        assert each.end - each.start == passed


def interrupted(topic: str, bootstrap: str, sink: Sink) -> None:
    """Run a restore until it has saved something and is not at its end."""

    def stop(step: Step) -> None:
        saved = sink.load()
        if saved is not None and saved.saves:
            assert step.offsets < step.offsets_total
            raise Enough

    with pytest.raises(Enough):
        restore(topic, bootstrap=bootstrap, sink=sink, options=_SMALL, watch=stop)


def test_it_ends_at_the_last_stable_offset(broker: TailraceProcess, topic: str) -> None:
    """A committed and an aborted transaction, markers last; then one that stays open."""
    create(broker.bootstrap, topic)
    values = fill(broker.bootstrap, topic)
    with transaction(broker.bootstrap, f"{topic}-1") as producer:
        producer.produce(topic, b"committed", b"key-1", 0)
        producer.produce(topic, b"committed", b"new", 1)
        assert producer.flush(30) == 0
        producer.commit_transaction(30)
    values[0].pop(b"key-1", None)
    values[0][b"key-1"] = values[1][b"new"] = b"committed"
    with transaction(broker.bootstrap, f"{topic}-2") as producer:
        producer.produce(topic, b"aborted", b"key-1", 0)
        producer.produce(topic, None, b"new", 1)
        assert producer.flush(30) == 0
        producer.abort_transaction(30)
    await_stable(broker.bootstrap, topic, 3000 + 8)
    sink = DictSink()
    report = restore(topic, bootstrap=broker.bootstrap, sink=sink, options=_SMALL)
    assert sink.values == values
    check(report, values)
    assert sum(each.records for each in report.partitions) == 3002
    assert [(each.aborted, each.markers) for each in report.partitions] == [(1, 2), (1, 2), (0, 0)]
    assert verify(report, bootstrap=broker.bootstrap, timeout_s=20).hash == report.hash

    with transaction(broker.bootstrap, f"{topic}-3") as producer:
        producer.produce(topic, b"open", b"key-1", 0)
        assert producer.flush(30) == 0
        open_one = restore(topic, bootstrap=broker.bootstrap, sink=DictSink(), options=_SMALL)
        assert open_one == report
        assert verify(open_one, bootstrap=broker.bootstrap, timeout_s=20).hash == report.hash
        producer.abort_transaction(30)


def test_an_empty_topic_and_chosen_partitions(broker: TailraceProcess, topic: str) -> None:
    create(broker.bootstrap, topic)
    empty = restore(topic, bootstrap=broker.bootstrap, sink=DictSink())
    assert [(each.start, each.end, each.live_keys) for each in empty.partitions] == [(0, 0, 0)] * 3
    assert verify(empty, bootstrap=broker.bootstrap, timeout_s=20).hash == "0" * 32
    values = fill(broker.bootstrap, topic)
    sink = DictSink()
    report = restore(topic, bootstrap=broker.bootstrap, sink=sink, partitions=[2, 0])
    assert [each.partition for each in report.partitions] == [0, 2]
    check(report, values)
    with pytest.raises(TopicGone, match="no partition 3, 9") as caught:
        restore(topic, bootstrap=broker.bootstrap, sink=DictSink(), partitions=[3, 0, 9])
    assert caught.value.remedy == "it has 0 to 2"
    with pytest.raises(WrongCheckpoint, match=r"of partitions \[0, 2\], not \[0\]"):
        restore(topic, bootstrap=broker.bootstrap, sink=sink, partitions=[0])


def test_what_is_written_meanwhile_is_behind_the_end(
    broker: TailraceProcess, topic: str, tmp_path: Path
) -> None:
    create(broker.bootstrap, topic)
    values = fill(broker.bootstrap, topic)
    with closing(SqliteSink(tmp_path / "values.db")) as sink:
        interrupted(topic, broker.bootstrap, sink)
        fill(broker.bootstrap, topic, records=100, seed=2)
        report = restore(topic, bootstrap=broker.bootstrap, sink=sink, options=_SMALL)
    assert sum(each.records for each in report.partitions) == 3000
    check(report, values)


def test_a_log_that_lost_its_beginning(broker: TailraceProcess, topic: str, tmp_path: Path) -> None:
    create(broker.bootstrap, topic)
    fill(broker.bootstrap, topic)
    with closing(SqliteSink(tmp_path / "values.db")) as sink:
        interrupted(topic, broker.bootstrap, sink)
        saved = sink.load()
        assert saved is not None
        partition = next(each for each, at in saved.partitions.items() if not at.is_done)
        end = saved.partitions[partition].end
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        (deleted,) = admin.delete_records([TopicPartition(topic, partition, end - 1)]).values()
        deleted.result(30)
        with pytest.raises(LogTruncated, match=f"the log begins at {end - 1} now") as caught:
            restore(topic, bootstrap=broker.bootstrap, sink=sink, options=_SMALL)
        assert caught.value.place == f"{topic}-{partition} at {broker.bootstrap}"
        assert "--fresh" in caught.value.remedy
        after = sink.load()
        assert after is not None
        assert after.partitions[partition] == saved.partitions[partition]
        fresh = Options(fresh=True)
        report = restore(topic, bootstrap=broker.bootstrap, sink=sink, options=fresh)
    assert report.partitions[partition].start == end - 1


def test_a_log_that_loses_its_beginning_meanwhile(
    broker: TailraceProcess, topic: str, tmp_path: Path
) -> None:
    create(broker.bootstrap, topic)
    fill(broker.bootstrap, topic, records=9000)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    ends = bounds(find_topic(parse_bootstrap(broker.bootstrap), topic, 10), range(PARTITIONS), 10)
    deleted = []

    def truncate(_: Step) -> None:
        if not deleted:
            places = [TopicPartition(topic, each, at.end - 1) for each, at in ends.items()]
            deleted.extend(done.result(30) for done in admin.delete_records(places).values())

    with closing(SqliteSink(tmp_path / "values.db")) as sink:
        with pytest.raises(LogTruncated, match="after the next offset"):
            restore(topic, bootstrap=broker.bootstrap, sink=sink, options=_SMALL, watch=truncate)
        saved = sink.load()
        assert saved is not None
        assert any(each.records for each in saved.partitions.values())
        with pytest.raises(LogTruncated):  # it can be gone on from, to the same end
            restore(topic, bootstrap=broker.bootstrap, sink=sink, options=_SMALL)
        assert sink.load() == saved
        fresh = restore(topic, bootstrap=broker.bootstrap, sink=sink, options=Options(fresh=True))
    assert [each.start for each in fresh.partitions] == [at.end - 1 for at in ends.values()]


def test_a_topic_that_is_deleted_and_made_again(
    broker: TailraceProcess, topic: str, tmp_path: Path
) -> None:
    create(broker.bootstrap, topic)
    fill(broker.bootstrap, topic)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    with closing(SqliteSink(tmp_path / "values.db")) as sink:
        deleted = []

        def delete(_: Step) -> None:
            if not deleted:
                deleted.append(admin.delete_topics([topic])[topic].result(30))

        with pytest.raises(TopicGone, match=f"there is no topic {topic}"):
            restore(topic, bootstrap=broker.bootstrap, sink=sink, options=_SMALL, watch=delete)
        saved = sink.load()
        assert saved is not None
        assert any(each.records for each in saved.partitions.values())
        create(broker.bootstrap, topic)
        with pytest.raises(WrongCheckpoint, match="it was deleted and created again"):
            restore(topic, bootstrap=broker.bootstrap, sink=sink, options=_SMALL)
        assert sink.load() == saved


def test_a_broker_that_dies_meanwhile(topic: str, tmp_path: Path) -> None:
    with TailraceProcess(tmp_path / "data") as broker, closing(DictSink()) as sink:
        create(broker.bootstrap, topic)
        values = fill(broker.bootstrap, topic)
        died = []

        def die(_: Step) -> None:
            if not died:
                died.append(broker.kill())
                broker.restart()

        report = restore(topic, bootstrap=broker.bootstrap, sink=sink, options=_SMALL, watch=die)
        assert died
        check(report, values)
        broker.kill()
        with pytest.raises(Unreachable, match=r"no progress for 0\.5 s"):
            restore(topic, bootstrap=broker.bootstrap, sink=sink, options=Options(timeout_s=0.5))
        broker.restart()


_CHILD = """
import sys
import time
from pathlib import Path
from tailrace.restore import Options, SqliteSink, parquet_sink, restore

kind, path, bootstrap, topic = sys.argv[1:]
sink = SqliteSink(Path(path)) if kind == "sqlite" else parquet_sink(Path(path))
options = Options(timeout_s=20, answer_bytes=16 * 1024, save_bytes=16 * 1024)
restore(topic, bootstrap=bootstrap, sink=sink, options=options,
        watch=lambda step: print(step.offsets, flush=True))
print("finishing", flush=True)
"""


def killed(arguments: list[str], after: int) -> bool:
    """Run a restore and kill it after so many answers; say whether it ended before."""
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, *arguments],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert child.stdout is not None
    with child.stdout:
        for _ in range(after):
            if not child.stdout.readline():
                break
        child.kill()
        return child.wait(30) == 0


@pytest.mark.crash
@pytest.mark.parametrize("kind", ["sqlite", "parquet"])
def test_killed_at_any_moment_it_goes_on(
    broker: TailraceProcess, topic: str, tmp_path: Path, kind: str
) -> None:
    create(broker.bootstrap, topic)
    values = fill(broker.bootstrap, topic)
    path = tmp_path / "out"
    arguments = [kind, str(path), broker.bootstrap, topic]
    drawn = random.Random(kind)
    for _ in range(_KILLS):
        killed(arguments, drawn.randrange(1, 5))
    assert killed(arguments, 1000)
    output = ["--sqlite", str(path)] if kind == "sqlite" else ["--parquet", str(path)]
    done = _tailrace("restore", topic, *output, "--json", "--verify", "-b", broker.bootstrap)
    assert done.returncode == 0, done.stderr
    assert f"nothing was read: {path} is finished" in done.stderr
    shown = json.loads(done.stdout)
    assert sum(each["records"] for each in shown["partitions"]) == 3000
    assert "verified: 3,000 records folded again give the same hash" in done.stderr
    for each in shown["partitions"]:
        live = live_state(values[each["partition"]].items())
        assert (each["live_keys"], each["hash"]) == (live.keys, live.hash)
    assert _read(path) == values


def _read(path: Path) -> Values:
    values: Values = {partition: {} for partition in range(PARTITIONS)}
    if path.is_dir():
        table = pyarrow.dataset.dataset(path, partitioning="hive").to_table().to_pylist()
        rows = [(row["partition"], row["key"], row["value"]) for row in table]
    else:
        with closing(sqlite3.connect(path)) as database:
            rows = database.execute("SELECT partition, key, value FROM restored").fetchall()
    for partition, key, value in rows:
        values[partition][key] = value
    return values


def _tailrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(TAILRACE), *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_command_says_what_is_wrong(broker: TailraceProcess, tmp_path: Path) -> None:
    done = _tailrace("restore", "nowhere", "-b", broker.bootstrap)
    assert done.returncode == 1
    assert done.stderr.startswith("error: there is no topic nowhere\n   at: ")
    both = ["--sqlite", str(tmp_path / "a"), "--parquet", str(tmp_path / "b")]
    for wrong in (both, ["--partitions", "x"]):
        done = _tailrace("restore", "nowhere", *wrong, "-b", broker.bootstrap)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
    done = _tailrace("restore", "nowhere", "-b", "127.0.0.1:1", "--timeout", "0.2")
    assert done.returncode == 3
    assert done.stderr.startswith("error: no broker answers: 127.0.0.1:1: Connection refused\n")
