"""How soon a test has a broker: from asking for one to its first acknowledged record.

Both kinds are asked by the same client, for a topic that the first record creates; the second
broker starts while the first one runs, as in a test that breaks one of its own.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from confluent_kafka import Producer

from tailrace.testing import Broker
from tests.bench.brokers import KAFKA, started

Figures = dict[str, float]
_FIRST = "asked for to first record, s"
_SECOND = "a second broker beside it, s"
_PUBLISHED_S = (8.0, 15.0)
"""A container of Kafka until it is ready, as others have published it."""
_ACKNOWLEDGED_S = 60.0


class _Started(Protocol):
    @property
    def bootstrap(self) -> str: ...


def measure(folder: Path, step: Callable[[str], None]) -> Iterator[tuple[str, Figures]]:
    """Start two brokers of each kind, and add what is published of a third."""
    step("tailrace.testing")
    yield "tailrace", _two(Broker)
    step(KAFKA.name)
    yield KAFKA.name, _two(lambda: started(KAFKA, folder))
    for seconds in _PUBLISHED_S:
        yield "kafka container, published", {_FIRST: seconds, _SECOND: seconds}


def _two(make: Callable[[], AbstractContextManager[_Started]]) -> Figures:
    asked = time.perf_counter()
    with make() as first:
        first_s = _acknowledged(first) - asked
        asked = time.perf_counter()
        with make() as second:
            return {_FIRST: first_s, _SECOND: _acknowledged(second) - asked}


def _acknowledged(broker: _Started) -> float:
    """Return when the first record of a new producer was acknowledged."""
    at: list[float] = []

    def delivered(error: object, _: object) -> None:
        if error is None:
            at.append(time.perf_counter())

    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "log_level": 0})
    producer.produce("first", b"record", on_delivery=delivered)
    producer.flush(_ACKNOWLEDGED_S)
    if not at:
        raise RuntimeError(f"{broker.bootstrap} did not acknowledge in {_ACKNOWLEDGED_S:g} s")
    return at[0]
