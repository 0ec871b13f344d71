"""Pull the plug at random moments, start again, and find everything that was acknowledged."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, TopicPartition

from tailrace.core.runtime.loop_work import REQUEST_WORK_MAX
from tests.cluster.load import PARTITIONS, TOPIC, Load, create_topic, read_all
from tests.ports import free_port
from tests.process import TailraceProcess

pytestmark = [pytest.mark.crash, pytest.mark.slow]

_KILLS = 20


def test_nothing_acknowledged_is_lost_or_doubled(
    broker_factory: Callable[..., TailraceProcess],
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    broker = broker_factory().start()
    create_topic(broker.bootstrap)
    load = Load(broker.bootstrap)
    load.start()
    commits = Commits()
    for _ in range(_KILLS):
        load.wait_for_progress(200)
        commits.commit(broker, load)
        time.sleep(moments.random() * 0.15)  # the random moment itself, not a synchronisation
        broker.kill()
        broker.restart()
        commits.check(broker)
    load.finish()
    load.check(broker.bootstrap, f"seed {seed}")


def test_batches_that_wait_in_the_lane_are_lost_unacknowledged_and_never_doubled(
    broker_factory: Callable[..., TailraceProcess],
) -> None:
    """Cheap batches stand behind heavy ones of their partition when the broker is killed."""
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    port = free_port()
    http = ("admin.http.enable=true", f"admin.http.port={port}")
    broker = broker_factory(*(part for each in http for part in ("--set", each))).start()
    create_topic(broker.bootstrap)
    load = Load(broker.bootstrap, heavy_bytes=2 * REQUEST_WORK_MAX)
    load.start()
    for _ in range(5):
        load.wait_for_progress(30)
        assert _went_through_the_lane(port) > 0
        time.sleep(moments.random() * 0.05)  # the random moment itself, not a synchronisation
        broker.kill()
        broker.restart()
    load.finish()
    load.check(broker.bootstrap, f"seed {seed}")


def _went_through_the_lane(port: int) -> float:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    (line,) = [each for each in text.splitlines() if each.startswith("broker_lane_pieces_total ")]
    return float(line.rpartition(" ")[2])


class Commits:
    """Offsets that a group committed, and that must still be committed."""

    def __init__(self) -> None:
        self._offset: int | None = None

    def commit(self, broker: TailraceProcess, load: Load) -> None:
        offset = max(load.acknowledged[0], default=0)
        with _Group(broker) as consumer:
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        self._offset = offset

    def check(self, broker: TailraceProcess) -> None:
        with _Group(broker) as consumer:
            found = consumer.committed([TopicPartition(TOPIC, 0)], timeout=60)
        assert found[0].offset == self._offset


class _Group:
    def __init__(self, broker: TailraceProcess) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "watcher",
                "enable.auto.commit": False,
                "reconnect.backoff.ms": 20,
                "retry.backoff.ms": 20,
            }
        )

    def __enter__(self) -> Consumer:
        return self._consumer

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


@pytest.mark.parametrize("damage", ["torn", "zeroed"])
def test_a_damaged_tail_costs_nothing_that_was_acknowledged(
    broker_factory: Callable[..., TailraceProcess], damage: str
) -> None:
    broker = broker_factory().start()
    create_topic(broker.bootstrap)
    for _ in range(3):
        load = Load(broker.bootstrap)
        load.start()
        load.wait_for_progress(300)
        broker.kill()
        _append_unfinished_write(broker.data, damage)
        broker.restart()
        load.finish()
        assert load.failed == []
    stored = {p: read_all(broker.bootstrap, p) for p in range(PARTITIONS)}
    for partition, acknowledged in enumerate(load.acknowledged):
        there = dict(stored[partition])
        assert {o: v for o, v in acknowledged.items() if there.get(o) != v} == {}
        assert [o for o, _ in stored[partition]] == list(range(len(stored[partition])))


def _append_unfinished_write(data: Path, damage: str) -> None:
    """Leave what a power cut leaves of a group that was being written and never acknowledged.

    The start of an earlier group is written again behind the last whole one: cut short, or with its
    last 512-byte block zeroed.
    """
    for pattern in ("*.log", "*.txn"):
        files = sorted(data.rglob(pattern), key=lambda path: path.stat().st_mtime)
        if not files:
            continue
        newest = files[-1]
        content = newest.read_bytes()
        header = 1024 if pattern == "*.log" else 512
        again = content[header : header + 4096 + 300]
        if damage == "torn":
            again = again[: max(1, len(again) - 137)]
        else:
            again = again[:-512] + bytes(512)
        with newest.open("ab") as file:
            file.write(again)
