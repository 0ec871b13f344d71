"""Kafka Connect in distributed mode: a file into a topic into a file, three internal topics."""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interop.kafka.clients import Kafka
from tests.java.peers import JavaClient
from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.java]

STRINGS = "org.apache.kafka.connect.storage.StringConverter"
DEADLINE_S = 60


class Worker:
    """A worker that runs, through its REST interface."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Do a request and return its JSON. Errors: HTTPError."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
            return json.loads(answer.read() or b"null")

    def run(self, name: str, config: dict[str, object]) -> None:
        """Make a connector and wait until its task runs."""
        self.ask("PUT", f"/connectors/{name}/config", {"tasks.max": 1, **config})
        self.await_running(name)

    def await_running(self, name: str) -> None:
        """Wait until a connector and its task run."""
        until(lambda: self._states(name) == ["RUNNING", "RUNNING"])

    def _states(self, name: str) -> list[str]:
        known = self.ask("GET", "/connectors?expand=status")  # a 404 would be an error
        if name not in known:
            return []
        status = known[name]["status"]
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)  # the worker is another program: it is asked, it does not tell


@contextmanager
def worker(peer: JavaClient, broker: TailraceProcess, topic: str) -> Iterator[Worker]:
    config = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": topic,
        "key.converter": STRINGS,
        "value.converter": STRINGS,
        "listeners": "http://127.0.0.1:0",
        "plugin.discovery": "SERVICE_LOAD",
        "offset.flush.interval.ms": 300,
        "heartbeat.interval.ms": 300,
        "scheduled.rebalance.max.delay.ms": 0,
        "offset.storage.partitions": 2,
        "status.storage.partitions": 2,
    }
    for kind in ("config", "offset", "status"):
        config |= {f"{kind}.storage.topic": f"{topic}-{kind}"}
        config |= {f"{kind}.storage.replication.factor": 1}
    url = peer.call("connect.start", name=topic, config=config)["url"]
    try:
        yield Worker(url)
    finally:
        peer.call("connect.stop", name=topic)


def test_a_file_goes_into_a_topic_and_into_a_file_and_goes_on_after_a_restart(
    kafka_4: JavaClient, broker: TailraceProcess, topic: str, tmp_path: Path
) -> None:
    clients = Kafka(kafka_4, broker)
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    source.write_text("one\ntwo\nthree\n")
    with worker(kafka_4, broker, topic) as first:
        first.run(
            "source", {"connector.class": "FileStreamSource", "file": str(source), "topic": topic}
        )
        first.run(
            "sink",
            {
                "connector.class": "FileStreamSink",
                "file": str(sink),
                "topics": topic,
                "consumer.override.heartbeat.interval.ms": 300,
            },
        )
        until(lambda: sink.exists() and sink.read_text() == "one\ntwo\nthree\n")
        until(lambda: first.ask("GET", "/connectors/source/offsets")["offsets"] != [])
        assert clients.admin("groups.list")["connect-sink"] == "Stable"
    for kind in ("config", "offset", "status"):
        configs = clients.admin("topics.configs", topic=f"{topic}-{kind}")
        assert configs["cleanup.policy"]["value"] == "compact"
    with source.open("a") as more:
        more.write("four\n")
    with worker(kafka_4, broker, topic) as second:
        second.await_running("source")
        second.await_running("sink")
        until(lambda: sink.read_text() == "one\ntwo\nthree\nfour\n")
        (at,) = second.ask("GET", "/connectors/sink/offsets")["offsets"]
        assert at["partition"] == {"kafka_topic": topic, "kafka_partition": 0}
        second.ask("DELETE", "/connectors/source")
        until(lambda: second.ask("GET", "/connectors") == ["sink"])
    ends = clients.admin("topics.offsets", at=f"{topic}-0")
    assert (ends["earliest"], ends["latest"]) == (0, 4)
