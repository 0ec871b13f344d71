"""The broker's HTTP port: what it says of the cleaner and of topics, and what it refuses."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tailrace.broker.http_admin import BrokerHttp
from tailrace.broker.partition.cleanable_logs import CleanablePartitions
from tailrace.compaction.cleaner.config import CleanerConfig
from tailrace.compaction.cleaner.pool import CleanerPool
from tailrace.core.errors import Unavailable
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.http import HttpServer
from tailrace.core.runtime.metrics import Metrics
from tailrace.protocol.records.record import Record, build_batch
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.loops import in_loop
from tests.unit.compaction.cleaner.computing import InlineComputer


class Port:
    """A running port, and the world behind it."""

    def __init__(self, world: World, server: HttpServer) -> None:
        self.world = world
        self._server = server
        self.looks = 0
        """How often the cleaner asked for its logs."""

    async def ask(self, path: str, body: bytes | None = None) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self._server.port}{path}"
        method = "GET" if body is None else "PUT"
        request = urllib.request.Request(url, data=body, method=method)
        return await asyncio.to_thread(_answer, request)


def _answer(request: urllib.request.Request) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@asynccontextmanager
async def serving() -> AsyncIterator[Port]:
    world = make_world()
    broker = world.broker
    logs = CleanablePartitions(broker.partitions, broker.topics)

    async def look() -> AsyncIterator[Any]:
        port.looks += 1
        async for each in logs.round():
            yield each

    pool = CleanerPool(look, world.clock, CleanerConfig(), InlineComputer)
    handlers = BrokerHttp(broker, pool, Metrics())
    server = HttpServer("127.0.0.1", 0, handlers.routes())
    await server.start()
    port = Port(world, server)
    try:
        yield port
    finally:
        await server.close()
        await handlers.close()
        await pool.close()


@in_loop
async def test_a_topic_is_counted_partition_by_partition() -> None:
    async with serving() as port:
        port.world.topics.add("t", 2, {"cleanup.policy": "compact"})
        log = await port.world.open("t", 1)
        await log.append(batch(3))
        await log.roll()
        await log.append(batch(2))
        status, found = await port.ask("/topics/t/stats")
        assert status == 200
        empty, full = found["partitions"]
        assert (empty["records"], empty["size_bytes"], empty["last_clean_ms"]) == (0, 0, None)
        assert (full["records"], full["live_keys"], full["bound"]) == (5, 3, None)
        assert found["read_bytes"] == full["size_bytes"]
        assert (await port.ask("/topics/t/stats"))[1]["read_bytes"] == 0
        assert (full["tail_bytes"], full["head_bytes"]) == (0, full["size_bytes"])
        _, latest = await port.ask("/topics/t/latest?key=k1")
        assert [
            (p["is_whole"], [k["offset"] for k in p["keys"]]) for p in latest["partitions"]
        ] == [(True, []), (True, [4])]


_REFUSED = "t-1: NOT_LEADER_OR_FOLLOWER: partition t-1"


@in_loop
async def test_a_partition_that_cannot_be_asked_is_told_among_the_others() -> None:
    async with serving() as port:
        port.world.topics.add("t", 2)
        await (await port.world.open("t", 0)).append(batch(1))
        port.world.log("t", 1).open_error = Unavailable("no bookies")
        for question in ("stats", "latest"):
            status, found = await port.ask(f"/topics/t/{question}")
            assert status == 200
            assert [each.get("error") for each in found["partitions"]] == [None, _REFUSED]
        port.world.topics.add("broken")
        port.world.log("broken").open_error = Unavailable("no bookies")
        status, found = await port.ask("/topics/broken/stats")
        assert (status, "broken-0" in found["error"]) == (503, True)


@in_loop
async def test_keys_that_are_no_text_are_told_in_base64() -> None:
    async with serving() as port:
        port.world.topics.add("t")
        log = await port.world.open("t")
        data = memoryview(bytearray(build_batch([Record(key=b"\xff", value=b"\xfe")])))
        await log.append(data, log.check(data))
        _, found = await port.ask("/topics/t/latest")
        (key,) = found["partitions"][0]["keys"]
        assert (key["key_base64"], key["value_base64"]) == ("/w==", "/g==")
        assert not {"key", "value"} & key.keys()


@in_loop
async def test_the_cleaner_is_paused_and_told_to_run() -> None:
    async with serving() as port:
        port.world.topics.add("t", configs={"cleanup.policy": "compact"})
        await port.world.open("t")
        assert (await port.ask("/cleaner/pause", b'["t-0"]'))[1]["paused"] == ["t-0"]
        (row,) = (await port.ask("/cleaner/plan"))[1]
        assert (row["name"], row["state"], row["is_due"]) == ("t-0", "paused", False)
        assert (await port.ask("/cleaner/resume", b'["t-0"]'))[1]["paused"] == []
        await port.ask("/cleaner/pause", b"")
        assert (await port.ask("/cleaner/resume", b"[]"))[1]["paused"] == []
        assert (await port.ask("/cleaner/run", b""))[1]["wanted"] == ["t-0"]
        assert (await port.ask("/cleaner"))[0] == 200
        assert await port.ask("/health") == (200, {"status": "ok", "failed_tasks": []})


@in_loop
async def test_health_tells_which_background_task_fails() -> None:
    async with serving() as port:
        failed = asyncio.Event()

        async def step() -> None:
            if not failed.is_set():
                failed.set()
                raise ZeroDivisionError("a bug")
            await asyncio.Event().wait()

        task = asyncio.create_task(Forever("retention.round").run(step))
        await failed.wait()
        status, said = await port.ask("/health")
        (one,) = said["failed_tasks"]
        assert (status, said["status"]) == (200, "degraded"), "it serves: nobody is to restart it"
        assert (one["task"], one["failures"], one["failing"]) == ("retention.round", 1, True)
        assert one["error"] == "ZeroDivisionError: a bug"
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize(
    ("body", "status", "looks"),
    [(b"", 200, 0), (b"[]", 200, 0), (b"{}", 400, 0), (b"[" * 5000, 400, 0), (b'["t-0"]', 200, 1)],
)
@in_loop
async def test_a_brake_that_names_no_log_looks_at_none(
    body: bytes, status: int, looks: int
) -> None:
    async with serving() as port:
        port.world.topics.add("t", configs={"cleanup.policy": "compact"})
        await port.world.open("t")
        assert (await port.ask("/cleaner/pause", body))[0] == status
        assert port.looks == looks
        assert bool((await port.ask("/cleaner"))[1]["paused"]) == (status == 200)
        assert (await port.ask("/cleaner/resume", body))[0] == status
        assert port.looks == looks  # one that is paused may be taken up, known or not
        assert (await port.ask("/cleaner"))[1]["paused"] == []


@in_loop
async def test_a_paused_log_that_is_gone_can_be_taken_up_again() -> None:
    async with serving() as port:
        port.world.topics.add("t", configs={"cleanup.policy": "compact"})
        await port.world.open("t")
        await port.ask("/cleaner/pause", b'["t-0"]')
        await port.world.topics.delete("t")
        assert (await port.ask("/cleaner/resume", b'["t-0"]'))[1]["paused"] == []
        assert (await port.ask("/cleaner/pause", b'["t-0"]'))[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/topics/nobody/stats", None, 404, "no topic nobody"),
        ("/topics/t/latest?limit=0", None, 400, "limit must be"),
        ("/topics/t/latest?limit=x", None, 400, "limit must be"),
        ("/cleaner/run", b'["x-0"]', 404, "not compacted here: x-0"),
        ("/cleaner/pause", b'["x-0", "y-1"]', 404, "not compacted here: x-0, y-1"),
        ("/cleaner/resume", b'["x-0"]', 404, "not compacted here: x-0"),
        ("/cleaner/pause", b"{}", 400, "must be a JSON list"),
        ("/cleaner/pause", b"[1]", 400, "must be a JSON list"),
        ("/cleaner/run", b"\xff", 400, "must be a JSON list"),
    ],
)
@in_loop
async def test_what_is_refused(path: str, body: bytes | None, status: int, words: str) -> None:
    async with serving() as port:
        port.world.topics.add("t")
        found = await port.ask(path, body)
        assert found[0] == status
        assert words in found[1]["error"]
