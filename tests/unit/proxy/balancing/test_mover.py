"""Moves between proxies over a real namespace, in virtual time; and what operators see of them."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tailrace.proxy.balancing.mover import (
    ATTEMPTS_MAX,
    PAUSE_S_MAX,
    Moved,
    Mover,
    due_s,
    pause_s,
)
from tailrace.proxy.balancing.plan import Move
from tailrace.proxy.balancing.proxies import ProxyOperator
from tailrace.proxy.owner.codes import ServerStatus, StatusCode
from tailrace.proxy.routing.ring import Host
from tests.unit.proxy.balancing.world import Direct, registered
from tests.unit.proxy.owner.world import Proxy, ProxyWorld, new_stream, payloads_of
from tests.unit.proxy.owner.world import run as run_in_virtual_time

Run = Callable[[Callable[[ProxyWorld], Coroutine[Any, Any, None]]], None]
TIMEOUT_S = 5.0


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return lambda story: run_in_virtual_time(tmp_path, story)


class Cluster:
    """Three proxies; the first owns some streams."""

    def __init__(self, world: ProxyWorld) -> None:
        self.world = world
        self.one, self.two, self.three = self.proxies = [Proxy(world, n) for n in (1, 2, 3)]
        self.transport = Direct(*self.proxies)
        self.operator = ProxyOperator(self.transport, TIMEOUT_S)
        self.known = {each.name: each for each in map(registered, self.proxies)}
        self.mover = Mover(self.operator, self.known, world.clock)

    async def own(self, *streams: str) -> None:
        for stream in streams:
            await new_stream(self.world, stream)
            assert (await self.one.streams.write(stream, b"a")).code is StatusCode.SUCCESS

    async def move(self, *moves: Move, rate: float = 0) -> list[Moved]:
        moved: list[Moved] = []
        await self.mover.run(moves, rate, moved.append)
        return moved

    async def close(self) -> None:
        for proxy in self.proxies:
            await proxy.streams.close()


def to(shard: int, stream: str = "s", source: int = 1) -> Move:
    return Move(stream, f"host:{4000 + source}", f"host:{4000 + shard}")


def now_s() -> float:
    return asyncio.get_running_loop().time()


def test_a_stream_moves_and_loses_nothing(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        cluster = Cluster(world)
        await cluster.own("s", "t")
        assert await cluster.move(to(2)) == [Moved(to(2))]
        assert (cluster.one.streams.owned, cluster.two.streams.owned) == (["t"], ["s"])
        answer = await cluster.one.streams.write("s", b"x")
        assert answer.location == cluster.two.location.text
        assert (await cluster.two.streams.write("s", b"b")).code is StatusCode.SUCCESS
        await cluster.close()
        assert await payloads_of(world) == [b"a", b"b"]

    run(story)


def test_a_move_that_was_done_is_not_done_again(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        cluster = Cluster(world)
        await cluster.own("s")
        await cluster.move(to(2))
        cluster.transport.asked.clear()
        assert await cluster.move(to(2)) == [Moved(to(2))]
        assert cluster.transport.asked == ["handshake", "get_owner"]
        await cluster.close()

    run(story)


def test_a_stream_comes_straight_back(run: Run) -> None:
    """Its former owner remembers for a while that it is elsewhere."""

    async def story(world: ProxyWorld) -> None:
        cluster = Cluster(world)
        await cluster.own("s")
        back = to(1, source=2)
        assert await cluster.move(to(2), back) == [Moved(to(2)), Moved(back)]
        assert cluster.one.streams.owned == ["s"]
        await cluster.close()

    run(story)


def test_a_third_proxy_that_has_it_lets_it_go_too(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        cluster = Cluster(world)
        await cluster.own("s")
        await cluster.move(to(3))
        assert await cluster.move(to(2)) == [Moved(to(2))]  # of a plan that is out of date
        assert cluster.two.streams.owned == ["s"]
        await cluster.close()

    run(story)


def test_a_writer_under_way_follows(run: Run) -> None:
    """A client that asks where it is sent meets one owner after the other, and no gap."""

    async def story(world: ProxyWorld) -> None:
        cluster = Cluster(world)
        await cluster.own("s")
        by_location = {each.location.text: each for each in cluster.proxies}
        written, is_over = [b"a"], asyncio.Event()

        async def write() -> None:
            at, number = cluster.one, 0
            while not is_over.is_set():
                answer = await at.streams.write("s", b"%d" % number)
                if answer.code is StatusCode.SUCCESS:
                    written.append(b"%d" % number)
                    number += 1
                at = by_location.get(answer.location, at)
                await asyncio.sleep(0.005)

        writer = asyncio.ensure_future(write())
        moved = await cluster.move(to(2), to(3, source=2), to(2, source=3))
        assert [each.failure for each in moved] == ["", "", ""]
        await asyncio.sleep(10)
        is_over.set()
        await writer
        await cluster.close()
        assert await payloads_of(world) == written

    run(story)


def test_a_target_that_is_away_takes_nothing_and_is_asked_once(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        cluster = Cluster(world)
        await cluster.own("s", "t", "u")
        cluster.transport.away.add(Host("host", 4002))
        moved = await cluster.move(to(2), to(2, "t"), to(3, "u"))
        assert [each.failure for each in moved] == [
            "the target does not answer: "
            "no connection could be made: nothing was asked (it is away)",
            "the target did not answer before",
            "",
        ]
        assert cluster.one.streams.owned == ["s", "t"]
        await cluster.close()

    run(story)


def test_a_target_that_takes_no_stream_is_a_failure(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        cluster = Cluster(world)
        await cluster.own("s", "t")
        cluster.two.streams.set_accept_new_stream(accepts=False)
        cluster.three.streams.set_region_stopped(stopped=True)
        moved = await cluster.move(to(2), to(3, "t"))
        assert [each.failure.split(":")[1] for each in moved] == [
            " SERVICE_UNAVAILABLE",
            " REGION_UNAVAILABLE",
        ]
        await asyncio.sleep(10)
        assert (await cluster.one.streams.write("s", b"b")).code is StatusCode.SUCCESS
        await cluster.close()

    run(story)


def test_a_source_that_hangs_costs_a_bounded_time(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        cluster = Cluster(world)
        await cluster.own("s", "t")
        cluster.transport.hung.add(Host("host", 4001))
        began_s = now_s()
        (moved,) = await cluster.move(to(2))
        assert "FOUND" in moved.failure
        pauses_s = ATTEMPTS_MAX * PAUSE_S_MAX
        assert now_s() - began_s <= ATTEMPTS_MAX * TIMEOUT_S + pauses_s
        cluster.transport.hung.clear()
        assert await cluster.move(to(2)) == [Moved(to(2))]
        await cluster.close()

    run(story)


def test_moves_keep_to_their_rate(run: Run) -> None:
    """Also behind one that took long: nothing is caught up on."""

    async def story(world: ProxyWorld) -> None:
        cluster = Cluster(world)
        names = [f"s{n}" for n in range(6)]
        await cluster.own(*names)
        hung, away = Host("host", 4003), to(3, names[0])
        cluster.transport.hung.add(hung)
        times: list[float] = []
        moves = [away, *(to(2, name) for name in names)]
        await cluster.mover.run(moves, 0.5, lambda _: times.append(now_s()))
        gaps = [later - sooner for sooner, later in pairwise(times)]
        assert gaps[0] < 0.5, "the first one took longer than a move's share"
        assert all(1.9 < gap < 2.5 for gap in gaps[1:])
        assert len(cluster.two.streams.owned) == 6
        await cluster.close()

    run(story)


def test_what_operators_see(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        cluster = Cluster(world)
        await cluster.own("a-1", "a-2", "b-1")
        members = list(cluster.known.values())
        first, second, third = await cluster.operator.views(members, "")
        assert list(first.streams) == ["a-1", "a-2", "b-1"]
        assert first.streams["a-1"].size_bytes == pytest.approx(1, rel=0.1)
        assert second.streams == third.streams == {}
        (some, *_) = await cluster.operator.views(members, "a-.")
        assert list(some.streams) == ["a-1", "a-2"]
        assert await cluster.operator.owner(members, "b-1") == members[0]
        assert await cluster.operator.owner(members, "c-1") is None
        view = await cluster.operator.set_accepts(members[0], accepts=False)
        assert view.status is ServerStatus.WRITE_ONLY
        reply = await cluster.operator.release(members[0], "b-1")
        assert reply.outcome is StatusCode.SUCCESS
        assert await cluster.operator.owner(members, "b-1") is None
        cluster.transport.away.add(Host("host", 4002))
        cluster.transport.hung.add(Host("host", 4003))
        troubles = [each.trouble for each in await cluster.operator.views(members, "")]
        assert troubles[0] == ""
        assert troubles[1].startswith("no connection could be made")
        assert troubles[2].startswith("no answer came in time")
        await cluster.close()

    run(story)


def test_pauses_and_times() -> None:
    pauses = [pause_s(attempt) for attempt in range(ATTEMPTS_MAX)]
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert sum(pauses[:-1]) > 2 / 3 * 9
    assert [due_s(10, rate) for rate in (4, 0.5, 0)] == [10.25, 12, 10]
