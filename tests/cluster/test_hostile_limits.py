"""Limits in time and number, and what a stop in the middle of everything does."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tailrace.protocol.kafka.apis import API_VERSIONS, FETCH, METADATA, PRODUCE
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.kafka.messages.metadata import MetadataRequest
from tests.cluster.raw import (
    Closed,
    RawClient,
    all_values,
    ask_api_versions,
    batch,
    create_topic,
    fetch_request,
    produce,
    produce_request,
    values,
)
from tests.cluster.watching import Bystander, lines_about, wait_for_line
from tests.process import TailraceProcess

ANY = ApiVersionsRequest()
CONNECTIONS = 40


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TailraceProcess]:
    """A broker with little patience."""
    settings = (
        "connection.stall.timeout.ms=2000",
        "connections.max.idle.ms=2500",
        f"max.connections.per.ip={CONNECTIONS}",
        "socket.request.max.bytes=3000000",
    )
    arguments = [part for each in settings for part in ("--set", each)]
    with TailraceProcess(tmp_path_factory.mktemp("broker") / "data", *arguments) as running:
        yield running
        assert "Traceback" not in running.output


@pytest.fixture(scope="module")
def strict_bystander(strict: TailraceProcess) -> Iterator[Bystander]:
    with Bystander(strict, "bystander") as other:
        yield other


def test_who_stalls_or_drips_is_cut_with_one_line(
    strict: TailraceProcess, strict_bystander: Bystander
) -> None:
    with RawClient(strict) as stalled, RawClient(strict) as dripping:
        stalled.send_bytes(b"\x00\x00\x10\x00half a request")
        dripping.send_bytes(b"\x00\x00\x10\x00")
        with pytest.raises(Closed):
            _drip(dripping)
        assert stalled.is_closed_by_broker()
    for client in (stalled, dripping):
        lines = lines_about(strict, client)
        assert len(lines) == 1
        assert "no progress" in lines[0]
    strict_bystander.wait_for_rounds()


def _drip(client: RawClient) -> None:
    for _ in range(4000):
        client.send_bytes(b"d")
        client.wait(0.05)


def test_who_takes_no_answer_is_cut_with_one_line(
    strict: TailraceProcess, strict_bystander: Bystander, topic: str
) -> None:
    create_topic(strict, topic)
    with RawClient(strict) as client:
        for _ in range(8):
            assert produce(client, topic, batch(bytes(1_000_000))).error_code == 0
    with RawClient(strict, receive_buffer=4096) as slow, RawClient(strict) as quick:
        wanted = fetch_request(topic, partition_max_bytes=1 << 30)
        for _ in range(3):
            slow.send(FETCH, 11, wanted)
        wait_for_line(strict, slow, "reason=no progress")
        answer = quick.ask(FETCH, 11, wanted).responses[0].partitions[0]
        assert len(values(answer)) == 8
    assert len(lines_about(strict, slow)) == 1
    strict_bystander.wait_for_rounds()


def test_who_is_idle_is_closed_and_who_waits_for_an_answer_is_not(
    strict: TailraceProcess, topic: str
) -> None:
    create_topic(strict, topic)
    with RawClient(strict) as idle, RawClient(strict) as waiting:
        idle.ask(API_VERSIONS, 0, ANY)
        waiting.send(FETCH, 11, fetch_request(topic, wait_ms=4000))
        assert idle.is_closed_by_broker()
        assert not waiting.has_answer()
        assert values(waiting.receive_as(FETCH, 11)[1].responses[0].partitions[0]) == []


def test_one_connection_too_many(strict: TailraceProcess, strict_bystander: Bystander) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(strict)) for _ in range(CONNECTIONS + 10)]
        closed = [client for client in clients if not _answers(client)]
        assert len(closed) >= 11  # the bystander has one
        for client in closed:
            assert client.is_closed_by_broker()
        strict_bystander.wait_for_rounds()
    wait_for_line(strict, closed[-1], "too many connections")


def _answers(client: RawClient) -> bool:
    try:
        return client.ask(API_VERSIONS, 0, ANY).error_code == 0
    except Closed:
        return False


def test_a_request_above_the_setting(strict: TailraceProcess, topic: str) -> None:
    _wait_until_accepted(strict)
    create_topic(strict, topic)
    with RawClient(strict) as client:
        assert produce(client, topic, batch(bytes(2_900_000))).error_code == 10
        try:
            client.send(PRODUCE, 9, produce_request(topic, batch(bytes(3_000_000))))
        except Closed:
            pass
        else:
            assert client.is_closed_by_broker()
    assert "limit 3000000" in lines_about(strict, client)[0]


def _wait_until_accepted(broker: TailraceProcess) -> None:
    """The connections of the test before may still be on their way out."""
    while True:
        with RawClient(broker) as client:
            if _answers(client):
                return


# ---- the stop


def test_a_stop_in_the_middle_of_everything(
    broker_factory: Callable[..., TailraceProcess], topic: str
) -> None:
    """It ends soon and cleanly, and what was acknowledged until the end is there afterwards."""
    broker = broker_factory("--set", "shutdown.drain.ms=5000").start()
    create_topic(broker, topic)
    create_topic(broker, "large")
    with ExitStack() as stack:
        _misbehave(broker, stack, topic)
        writers = [Writer(broker, topic, name) for name in "abc"]
        for writer in writers:
            writer.wait_for(20)
        started = time.monotonic()
        code = broker.stop()
        assert time.monotonic() - started < 25
    assert code == 0
    assert "Traceback" not in broker.output
    for writer in writers:
        writer.join()
    broker.restart()
    assert ask_api_versions(broker).error_code == 0
    with RawClient(broker) as client:
        stored = all_values(client, topic)
    assert len(set(stored)) == len(stored)
    for writer in writers:
        for offset, value in writer.acknowledged.items():
            assert stored[offset] == value


def _misbehave(broker: TailraceProcess, stack: ExitStack, topic: str) -> None:
    """Leave connections in every state that there is."""

    def connect(receive_buffer: int | None = None) -> RawClient:
        return stack.enter_context(RawClient(broker, receive_buffer=receive_buffer))

    connect()
    connect().send_bytes(b"\x00")
    connect().send_bytes(b"\x06\x00\x00\x00half")
    waiting = connect()
    waiting.send(FETCH, 11, fetch_request("large", 4, wait_ms=200_000))
    for _ in range(300):
        waiting.send(METADATA, 4, MetadataRequest(topics=None))
    with RawClient(broker) as client:
        for _ in range(4):
            assert produce(client, "large", batch(bytes(1_000_000))).error_code == 0
    for _ in range(5):
        connect(4096).send(FETCH, 11, fetch_request("large", partition_max_bytes=1 << 30))
    pipelined = connect()
    for _ in range(200):
        pipelined.send(PRODUCE, 9, produce_request("large", batch(b"p"), acks=0))
        pipelined.send(METADATA, 4, MetadataRequest(topics=None))


class Writer:
    """Produces one record after the other until the connection ends."""

    def __init__(self, broker: TailraceProcess, topic: str, name: str) -> None:
        self.acknowledged: dict[int, bytes] = {}
        self._client = RawClient(broker)
        self._topic = topic
        self._name = name
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def wait_for(self, count: int) -> None:
        """Wait for acknowledged records."""
        deadline = time.monotonic() + 60
        while len(self.acknowledged) < count:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def join(self) -> None:
        """Wait for the end of the connection."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._client.close()

    def _write(self) -> None:
        number = 0
        while True:
            value = f"{self._name}{number}".encode()
            try:
                answer = produce(self._client, self._topic, batch(value))
            except Closed:
                return
            if answer.error_code == 0:
                self.acknowledged[answer.base_offset] = value
            number += 1
