"""Fixtures of the tests with hostile clients."""

import re
from collections.abc import Iterator
from itertools import count

import pytest

from tests.cluster.raw import ask_api_versions
from tests.cluster.watching import Bystander, peak_memory, reset_peak_memory
from tests.process import TailraceProcess

_numbers = count()

MEBIBYTE = 1 << 20
SETTINGS = {
    "tail.cache.bytes": 8 * MEBIBYTE,
    "queued.max.request.bytes": 64 * MEBIBYTE,
    "queued.max.response.bytes": 32 * MEBIBYTE,
    "fetch.max.bytes": 8 * MEBIBYTE,
    "fetch.max.open.readers": 4,
    "log.read.ahead.bytes": MEBIBYTE,
}
"""Small budgets, so that what is unbounded shows early."""


@pytest.fixture(scope="module")
def small_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TailraceProcess]:
    """A broker with small budgets, for one module."""
    arguments = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
    broker = TailraceProcess(tmp_path_factory.mktemp("broker") / "data", *arguments)
    broker.may_fork = False  # its memory is measured
    with broker:
        yield broker


@pytest.fixture(scope="module")
def bystander(small_broker: TailraceProcess) -> Iterator[Bystander]:
    """Somebody who goes on producing and fetching all the time."""
    with Bystander(small_broker, "bystander") as other:
        yield other


@pytest.fixture
def memory_allowed() -> int:
    """How far the broker's memory may grow at any moment of a test; override it. Unit: bytes."""
    return 96 * MEBIBYTE


@pytest.fixture
def hostile(
    small_broker: TailraceProcess, bystander: Bystander, memory_allowed: int
) -> Iterator[TailraceProcess]:
    """A broker that is attacked: nobody else notices, nothing fails inside, memory is bounded."""
    before, lines = reset_peak_memory(small_broker), len(small_broker.lines)
    yield small_broker
    bystander.wait_for_rounds(1)
    assert ask_api_versions(small_broker).error_code == 0
    traceback = "\n".join(small_broker.lines[lines:]).partition("Traceback")
    assert not traceback[1], traceback[2][:5000]
    assert peak_memory(small_broker) - before < memory_allowed


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that nobody else uses, whatever the parameters of the test are."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)
    return f"{name[:80]}-{next(_numbers)}"
