"""Kafka Streams: a word count, its repartition topic and its changelog on this broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interop.kafka.clients import Kafka
from tests.java.peers import JavaClient
from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.java]

LINES = ["to be or not", "to be", "that is"]
COUNTS = {"to": 2, "be": 2, "or": 1, "not": 1, "that": 1, "is": 1}


class Application:
    """A word count that runs, its state below one folder."""

    def __init__(self, peer: JavaClient, broker: TailraceProcess, topic: str, folder: Path) -> None:
        self._peer = peer
        self._topic = topic
        self._config: dict[str, object] = {
            "application.id": f"{topic}-app",
            "bootstrap.servers": broker.bootstrap,
            "state.dir": str(folder),
            "commit.interval.ms": 100,
            "num.stream.threads": 1,
            "heartbeat.interval.ms": 300,
        }

    @contextmanager
    def running(self, *, wipe: bool = False, **config: object) -> Iterator[dict[str, Any]]:
        """Start it, with what it restored its table from, and stop it."""
        started = self._peer.call(
            "streams.start",
            name=self._topic,
            input=f"{self._topic}-in",
            output=f"{self._topic}-out",
            config={**self._config, **config},
            wipe=wipe,
        )
        try:
            assert started["state"] == "RUNNING"
            yield started
        finally:
            assert self._peer.call("streams.close", name=self._topic)["closed"]

    def count(self, word: str) -> int:
        """Ask the running application's table."""
        count: int = self._peer.call("streams.count", name=self._topic, word=word)["count"]
        return count


def await_counts(clients: Kafka, topic: str, wanted: dict[str, int], **config: object) -> None:
    """Read updates until the last of each word make what is wanted; how many there are varies."""
    seen: dict[str, int] = {}
    with clients.consumer(**config) as consumer:
        consumer("assign", partitions=[f"{topic}-out-0"])
        while seen != wanted:
            updates = consumer.poll(1)
            assert updates, f"no more than {seen}"
            seen |= {update["key"]: int(update["value"]) for update in updates}


@pytest.fixture
def clients(kafka_4: JavaClient, broker: TailraceProcess, topic: str) -> Kafka:
    clients = Kafka(kafka_4, broker)
    for name in (f"{topic}-in", f"{topic}-out"):
        clients.admin("topics.create", topic=name, partitions=1)
    return clients


def send(clients: Kafka, topic: str, lines: list[str]) -> None:
    with clients.producer() as producer:
        producer.send(f"{topic}-in", lines)


def test_a_table_is_restored_from_its_changelog_when_its_local_state_is_wiped(
    clients: Kafka, kafka_4: JavaClient, broker: TailraceProcess, topic: str, tmp_path: Path
) -> None:
    application = Application(kafka_4, broker, topic, tmp_path)
    send(clients, topic, LINES)
    with application.running() as started:
        assert started["restored"] == 0
        await_counts(clients, topic, COUNTS)
    changelog = f"{topic}-app-counts-changelog"
    configs = clients.admin("topics.configs", topic=changelog)
    assert configs["cleanup.policy"]["value"] == "compact"
    with application.running() as started:
        assert started["restored"] == 0  # what is on its disk is up to date
        assert application.count("be") == 2
    with application.running(wipe=True) as started:
        assert started["restored"] >= len(COUNTS)
        assert {word: application.count(word) for word in COUNTS} == COUNTS
        send(clients, topic, ["to that"])
        await_counts(clients, topic, {**COUNTS, "to": 3, "that": 2})


def test_exactly_once(
    clients: Kafka, kafka_4: JavaClient, broker: TailraceProcess, topic: str, tmp_path: Path
) -> None:
    application = Application(kafka_4, broker, topic, tmp_path)
    committed = {"isolation.level": "read_committed"}
    once = {"processing.guarantee": "exactly_once_v2"}
    send(clients, topic, LINES)
    with application.running(**once):
        await_counts(clients, topic, COUNTS, **committed)
    with application.running(wipe=True, **once) as started:
        assert started["restored"] >= len(COUNTS)
        send(clients, topic, ["to that"])
        await_counts(clients, topic, {**COUNTS, "to": 3, "that": 2}, **committed)
    states = clients.admin("transactions.list")
    assert {state for name, state in states.items() if topic in name} == {"CompleteCommit"}
