"""The ways of a Produce and of a Fetch in docs/internals.md are those that requests take.

A broker of everything runs in this process (tests/cluster/in_process.py), and Python reports each
call of a function of the project, in the event loop's thread and in those of the bookie. The same
request is sent 20 times, one after the other. Then, in at least 15 of them,

- all modules that the page names for it are called, each for the first time after the one that the
  page names before it;
- every module of which at least five different functions are called is on the page: that is what a
  request clearly goes through. A module that it asks one thing may be left out.

The others may differ: the first of a kind opens what it needs, and the broker's own work comes
between, such as a control record after a pause. The second list of a Fetch names what comes when
the tail cache has nothing; what is before that is in the first. Calls are compared, never times.
Compiled modules are not seen, and not named.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tailrace.broker.broker import Broker
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import FETCH, PRODUCE
from tests.cluster.in_process import running_broker
from tests.cluster.raw import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    RawClient,
    batch,
    create_topic,
    fetch_request,
    produce,
    produce_request,
)
from tests.docs.pages import prose
from tests.docs.tracing import Call, Calls, heard_calls
from tests.rooms import ROOT

PAGE: Final = ROOT / "docs" / "internals.md"
REQUESTS: Final = 20
ALIKE_MIN: Final = 15
FUNCTIONS_MIN: Final = 5
PRODUCE_WAY: Final = "One Produce"
FETCH_WAY: Final = "One Fetch at the tail"
STORED_WAY: Final = "One Fetch of what only the bookie has"

Traces = Sequence[Sequence[Call]]


@cache
def traces() -> dict[str, Traces]:
    """Send all requests; return the calls of each, by the heading of the page."""
    with TemporaryDirectory() as folder, heard_calls() as calls:
        return asyncio.run(_send_all(Path(folder), calls))


async def _send_all(folder: Path, calls: Calls) -> dict[str, Traces]:
    async with running_broker(folder / "data") as broker:
        port = int(str(broker.advertised.first).rpartition(":")[2])
        at: Any = SimpleNamespace(port=port, lines=[])
        await asyncio.to_thread(create_topic, at, "t")
        client = await asyncio.to_thread(RawClient, at)
        with client:
            await asyncio.to_thread(produce, client, "t", batch(b"first"))

            async def trace(make: Callable[[], bytes], *, is_stored: bool = False) -> Traces:
                return [
                    await _one(broker, client, make(), calls, is_stored) for _ in range(REQUESTS)
                ]

            def a_produce() -> bytes:
                return client.frame(PRODUCE, PRODUCE_VERSION, produce_request("t", batch(b"x")))

            def a_fetch() -> bytes:
                return client.frame(FETCH, FETCH_VERSION, fetch_request("t"))

            return {
                PRODUCE_WAY: await trace(a_produce),
                FETCH_WAY: await trace(a_fetch),
                STORED_WAY: await trace(a_fetch, is_stored=True),
            }


async def _one(
    broker: Broker, client: RawClient, frame: bytes, calls: Calls, is_stored: bool
) -> list[Call]:
    """Send one request, and return the calls until it is answered and the broker is at rest."""
    if is_stored:
        (await broker.partitions.open(TopicPartition("t", 0))).tail.clear()

    def ask() -> None:
        client.send_bytes(frame)
        client.receive()

    calls.begin()
    await asyncio.to_thread(ask)
    for _ in range(3):  # what the loop still does of it
        await asyncio.sleep(0)
    return calls.end()


def named(heading: str) -> list[str]:
    """Return the modules of a way in the page's order: the items of the list below its heading."""
    _, _, behind = prose(PAGE).partition(f"# {heading}\n")
    section = re.split(r"^#", behind, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^\d+\. `([^`]+)`", section, re.MULTILINE)


def passed(trace: Sequence[Call], modules: Sequence[str]) -> list[str]:
    """Return those of the modules that a request calls, in the order of their first calls."""
    return [each for each in dict.fromkeys(call.module for call in trace) if each in modules]


def gone_through(ways: Traces) -> set[str]:
    """Return the modules of which requests call several functions."""
    counted: Counter[str] = Counter()
    for trace in ways:
        functions = Counter(module for module, _ in set(trace))
        counted.update(module for module, count in functions.items() if count >= FUNCTIONS_MIN)
    return {module for module, count in counted.items() if count >= ALIKE_MIN}


@pytest.mark.parametrize("heading", [PRODUCE_WAY, FETCH_WAY, STORED_WAY])
def test_a_request_passes_the_modules_in_the_pages_order(heading: str) -> None:
    modules = named(heading)
    assert len(modules) > FUNCTIONS_MIN, "the page has no list below this heading"
    ways = Counter(tuple(passed(trace, modules)) for trace in traces()[heading])
    (way, count), *_ = ways.most_common(1)
    assert list(way) == modules
    assert count >= ALIKE_MIN


@pytest.mark.parametrize(
    ("heading", "before"), [(PRODUCE_WAY, None), (FETCH_WAY, None), (STORED_WAY, FETCH_WAY)]
)
def test_what_a_request_goes_through_is_named(heading: str, before: str | None) -> None:
    on_page = {*named(heading), *(named(before) if before else ())}
    assert gone_through(traces()[heading]) - on_page == set()
