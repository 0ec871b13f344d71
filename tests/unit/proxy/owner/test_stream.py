"""One stream of a proxy: claimed by its first request, written in order, given up when it fails."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tailrace.proxy.owner.codes import StatusCode
from tests.unit.proxy.owner.world import Proxy, ProxyWorld, new_stream, payloads_of
from tests.unit.proxy.owner.world import run as run_in_virtual_time

Run = Callable[[Callable[[ProxyWorld], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return lambda story: run_in_virtual_time(tmp_path, story)


def test_the_first_write_claims_the_stream(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        answer = await proxy.streams.write("s", b"a")
        assert answer.code is StatusCode.SUCCESS
        assert answer.dlsn is not None
        assert proxy.streams.owned == ["s"]
        assert proxy.events.seen == [("acquired", "s")]
        assert proxy.streams.owner_of("s").location == "1;1;host:4001"
        await proxy.streams.close()
        assert proxy.events.seen == [("acquired", "s"), ("released", "s")]
        assert await payloads_of(world) == [b"a"]

    run(story)


def test_what_waits_for_the_claim_is_written_in_order(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        done: list[int] = []
        writes = [proxy.streams.write("s", b"%d" % number) for number in range(20)]
        for number, write in enumerate(writes):
            write.add_done_callback(lambda _, number=number: done.append(number))
        answers = [await write for write in writes]
        positions = [answer.dlsn for answer in answers if answer.dlsn is not None]
        assert positions == sorted(set(positions))
        assert len(positions) == 20
        assert done == list(range(20))
        await proxy.streams.close()
        assert await payloads_of(world) == [b"%d" % number for number in range(20)]

    run(story)
