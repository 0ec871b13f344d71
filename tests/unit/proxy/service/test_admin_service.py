"""What operators ask a proxy: its streams in parts, and moves; hostile requests."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tailrace.protocol.proxy import common_pb2
from tailrace.protocol.proxy.proxy_admin_pb2 import ListStreamsRequest, ReleaseToRequest
from tailrace.proxy.service.admin_service import AdminService
from tailrace.proxy.service.invalid import InvalidRequest
from tailrace.proxy.service.write_service import NAMES_A_TURN
from tests.unit.proxy.owner.world import Proxy, ProxyWorld, new_stream
from tests.unit.proxy.owner.world import run as run_in_virtual_time
from tests.unit.proxy.service.world import service_of

Run = Callable[[Callable[[ProxyWorld], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return lambda story: run_in_virtual_time(tmp_path, story)


def admin_of(proxy: Proxy) -> AdminService:
    async def reserved(stream: str) -> str | None:
        return "it is a partition" if stream == "orders-0" else None

    return AdminService(proxy.streams, service_of(proxy, reserved))


async def listed(admin: AdminService, regex: str = "") -> list[list[str]]:
    request = ListStreamsRequest(stream_name_regex=regex)
    return [[each.stream for each in part.streams] async for part in admin.list_streams(request)]


def test_streams_come_in_parts_and_others_have_turns(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        proxy = Proxy(world, 1)
        names = [f"s{n:03}" for n in range(NAMES_A_TURN + 5)]
        for name in names:
            await new_stream(world, name)
            await proxy.streams.heartbeat(name)
        admin, turns = admin_of(proxy), 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.ensure_future(count_turns())
        parts = await listed(admin)
        assert turns >= len(parts)
        counting.cancel()
        assert [len(part) for part in parts] == [NAMES_A_TURN, 5]
        assert [name for part in parts for name in part] == names
        assert await listed(admin, "s00[12]") == [["s001", "s002"]]
        assert await listed(admin, "s") == []  # the whole name matches
        await proxy.streams.close()

    run(story)


def test_a_move_names_a_location(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        await one.streams.heartbeat("s")
        admin = admin_of(one)
        request = ReleaseToRequest(stream="s", location=two.location.text)
        assert (await admin.release_to(request)).header.code == common_pb2.SUCCESS
        assert one.streams.owner_of("s").location == two.location.text
        for stream, code in (
            ("", common_pb2.INVALID_STREAM_NAME),
            ("x" * 5_000, common_pb2.INVALID_STREAM_NAME),
            ("orders-0", common_pb2.REQUEST_DENIED),
        ):
            request.stream = stream
            assert (await admin.release_to(request)).header.code == code
        for location in ("", "host:1", "1;1;host", "2;1;host:1", "1;1;host:99999", "x" * 1_000_000):
            with pytest.raises(InvalidRequest, match="is not 1;SHARD;HOST:PORT"):
                await admin.release_to(ReleaseToRequest(stream="s", location=location))
        await one.streams.close()

    run(story)


@pytest.mark.parametrize("regex", ["(", "a{1000}{1000}", "x" * 100_000])
def test_an_expression_that_is_refused(run: Run, regex: str) -> None:
    async def story(world: ProxyWorld) -> None:
        proxy = Proxy(world, 1)
        with pytest.raises(InvalidRequest):
            await listed(admin_of(proxy), regex)
        await proxy.streams.close()

    run(story)
