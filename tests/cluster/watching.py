"""What a broker and its other clients do while somebody misbehaves: progress, memory, log lines."""

import re
import threading
import time
from pathlib import Path
from typing import Self

import psutil

from tailrace.protocol.errors import ErrorCode
from tests.cluster.raw import (
    ANSWER_S,
    Closed,
    RawClient,
    batch,
    create_topic,
    fetch,
    produce,
    values,
)
from tests.process import TailraceProcess


class Bystander:
    """Another client that produces and reads back one record after the other, all the time."""

    def __init__(self, broker: TailraceProcess, topic: str) -> None:
        self.rounds = 0
        self._client = RawClient(broker)
        self._topic = create_topic(broker, topic)
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def wait_for_rounds(self, count: int = 3) -> None:
        """Return when it has gone `count` rounds more."""
        target = self.rounds + count
        deadline = time.monotonic() + ANSWER_S
        while self.rounds < target and self._thread.is_alive():
            assert time.monotonic() < deadline, f"disturbed after {self.rounds} rounds"
            time.sleep(0.01)
        assert self._failure is None, self._failure

    def __enter__(self) -> Self:
        self._thread.start()
        self.wait_for_rounds(1)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.wait_for_rounds()
        finally:
            self._stop.set()
            self._thread.join(ANSWER_S)
            self._client.close()

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.005):
                self._go_round()
        except (Closed, OSError, AssertionError) as error:
            self._failure = error

    def _go_round(self) -> None:
        value = b"round %d" % self.rounds
        written = produce(self._client, self._topic, batch(value))
        assert written.error_code == 0, ErrorCode(written.error_code)
        assert written.base_offset == self.rounds
        found = fetch(self._client, self._topic, self.rounds, wait_ms=30_000)
        assert values(found) == [value]
        self.rounds += 1


def reset_peak_memory(broker: TailraceProcess) -> int:
    """Let `peak_memory` begin anew; return the memory in use now. Unit: bytes."""
    process = Path("/proc") / str(broker.pid)
    if process.exists():
        (process / "clear_refs").write_text("5")
    return memory(broker)


def peak_memory(broker: TailraceProcess) -> int:
    """Return the most memory in use since the reset; where Linux is not, what is in use now."""
    status = Path("/proc") / str(broker.pid) / "status"
    if not status.exists():
        return memory(broker)
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
    assert found is not None
    return int(found[1]) * 1024


def memory(broker: TailraceProcess) -> int:
    """Return the memory in use now: what is resident. Unit: bytes."""
    size: int = psutil.Process(broker.pid).memory_info().rss
    return size


def settle(broker: TailraceProcess) -> int:
    """Return how many lines there are, once all that were logged until now are among them."""
    with RawClient(broker) as marker:  # what it logs comes after everything that was logged
        marker.send_bytes(b"\xff\xff\xff\xff")
        assert marker.is_closed_by_broker()
        wait_for_line(broker, marker, "")
        own = f"peer={marker.peer} "
        return next(
            at for at in range(marker.first_line, len(broker.lines)) if own in broker.lines[at]
        )


def lines_about(broker: TailraceProcess, client: RawClient) -> list[str]:
    """Return the log lines about a connection that is over, once all of them are here."""
    end = settle(broker)
    own = f"peer={client.peer} "
    return [line for line in broker.lines[client.first_line : end] if own in line]


def wait_for_line(broker: TailraceProcess, client: RawClient, text: str) -> str:
    """Wait until the broker has printed a line with `text` about a connection; return it."""
    deadline = time.monotonic() + ANSWER_S
    own = f"peer={client.peer} "
    while time.monotonic() < deadline:
        for line in broker.lines[client.first_line :]:
            if own in line and text in line:
                return line
        time.sleep(0.005)
    raise AssertionError(f"no line with {text!r} about {client.peer} in:\n{broker.output}")
