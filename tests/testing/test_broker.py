"""`tailrace.testing.Broker`, in this process, with real clients."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tailrace.testing import Broker, BrokerError
from tailrace.testing.ports import reserve_port

_TIMEOUT_S = 30


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(settings={"num.partitions": 2, "auto.create.topics.enable": True}) as running:
        yield running


def produce(broker: Broker, topic: str, value: bytes, timeout_ms: int = 30_000) -> bool:
    """Send one record to partition 0 and tell whether it was acknowledged."""
    errors: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "message.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(_TIMEOUT_S) == 0
    (error,) = errors
    return error is None  # a KafkaError cannot be compared with None


def values(broker: Broker, topic: str, count: int) -> list[bytes | None]:
    """Return the first records of partition 0."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, _TIMEOUT_S)
    consumer.close()
    return [message.value() for message in found]


def test_it_is_ready_and_takes_settings(broker: Broker) -> None:
    assert broker.bootstrap == f"{broker.host}:{broker.port}"
    assert f"ready: bootstrap={broker.bootstrap}" in broker.log
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("settings", b"x")
    assert producer.flush(_TIMEOUT_S) == 0
    assert len(producer.list_topics("settings", _TIMEOUT_S).topics["settings"].partitions) == 2


def test_a_paused_broker_answers_nothing_and_goes_on(broker: Broker) -> None:
    assert produce(broker, "paused", b"1")
    broker.pause()
    broker.pause()
    assert psutil.Process(broker.pid).status() == psutil.STATUS_STOPPED
    assert not produce(broker, "paused", b"2", timeout_ms=300)
    broker.resume()
    assert produce(broker, "paused", b"3")
    assert values(broker, "paused", 1) == [b"1"]


def test_port_and_data_outlive_stop_kill_and_restart(broker: Broker) -> None:
    port, first = broker.port, broker.pid
    assert produce(broker, "kept", b"1")
    broker.pause()
    broker.kill()
    assert not psutil.pid_exists(first)
    assert not broker.is_running
    with pytest.raises(BrokerError, match=r"does not run, so it cannot be paused\n  try: call"):
        broker.pause()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((broker.host, port))  # nobody gets it while the broker is down
    assert broker.start().start().port == port
    assert produce(broker, "kept", b"2")
    second = broker.pid
    assert broker.restart().pid != second
    assert broker.port == port
    assert values(broker, "kept", 2) == [b"1", b"2"]


def test_two_side_by_side_and_a_directory_that_stays(broker: Broker, tmp_path: Path) -> None:
    data = tmp_path / "mine"
    other = Broker(data_directory=data)
    with other:
        assert other.port != broker.port
        assert produce(other, "mine", b"1")
        assert not other.log.count("error")
        pid = other.pid
    assert not psutil.pid_exists(pid)
    assert "ready: bootstrap=" in other.log, "the log outlives the broker"
    with Broker(data_directory=data) as again:
        assert values(again, "mine", 1) == [b"1"]
    assert (data / "tailrace.lock").exists()


def test_it_works_in_a_coroutine_and_a_start_can_be_cancelled() -> None:
    async def run() -> None:
        async with Broker() as broker:
            pid, folder = broker.pid, broker.data_directory.parent
            assert broker.is_running
        assert not psutil.pid_exists(pid)
        assert not folder.exists()

    asyncio.run(run())

    async def cancelled() -> None:
        broker = Broker()
        starting = asyncio.create_task(broker.__aenter__())
        while not (broker._guard and broker._guard.pid):  # noqa: ASYNC110 - state of a thread
            await asyncio.sleep(0)
        pid = broker.pid
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not psutil.pid_exists(pid)

    asyncio.run(cancelled())


def test_a_broker_dies_with_its_guardian() -> None:
    broker = Broker().start()
    running = psutil.Process(broker.pid)
    guardian = running.parent()
    assert guardian is not None
    folder = broker.data_directory.parent
    guardian.kill()
    _, alive = psutil.wait_procs([running], _TIMEOUT_S)
    for process in alive:
        process.kill()
    assert alive == []
    with pytest.raises(BrokerError, match="guardian of the broker"):
        broker.close()
    assert not folder.exists()
    broker.close()


def test_an_unknown_setting_is_named() -> None:
    broker = Broker(settings={"num.partitons": 3})
    with pytest.raises(BrokerError, match=r"num\.partitons(?s:.)*num\.partitions") as caught:
        broker.start()
    assert "ended with exit code 2 before it was ready" in caught.value.cause
    assert not broker.is_running


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(BrokerError, match="ended with exit code 1") as caught:
        Broker(data_directory=tmp_path / "file" / "data").start()
    assert "Not a directory" in caught.value.log
    assert str(tmp_path / "file") in str(caught.value)


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerError, match=rf"(?s)port {port} .*in use.*try: stop what"):
            Broker(port=port).start()
    with pytest.raises(BrokerError, match="port 70000"):
        reserve_port(70_000)


def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(BrokerError, match=r"No such file.*tailrace-none(?s:.)*pip install"):
        Broker(command=["tailrace-none"]).start()


def test_a_broker_that_is_late_is_ended() -> None:
    broker = Broker(start_timeout_s=0.01)
    with pytest.raises(BrokerError, match=r"did not answer on .* within 0\.01 s"):
        broker.start()
    assert not broker.is_running


def test_one_that_was_never_started_says_so() -> None:
    broker = Broker()
    assert not broker.is_running
    assert broker.log == ""
    broker.stop()
    broker.close()
    for ask in (lambda: broker.bootstrap, lambda: broker.pid, lambda: broker.data_directory):
        with pytest.raises(BrokerError, match=r"call start\(\) first"):
            ask()


def test_only_the_standard_library_is_imported() -> None:
    code = (
        "import sys; import tailrace.testing; "
        "print(*{n.split('.')[0] for n in sys.modules} - set(sys.stdlib_module_names))"
    )
    plain = [sys.executable, "-P", "-c"]
    ran = subprocess.run([*plain, code], check=True, capture_output=True, text=True, timeout=60)
    before = subprocess.run(
        [*plain, code.replace("import tailrace.testing; ", "")],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert set(ran.stdout.split()) - set(before.stdout.split()) == {"tailrace"}


def test_a_fork_of_the_users_process_does_not_end_the_broker(broker: Broker) -> None:
    child = os.fork()
    if child == 0:
        broker.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    os.kill(broker.pid, signal.SIGCONT)
    assert produce(broker, "forked", b"1")
