"""All streams of a proxy: redirects, two owners, limits, draining."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tailrace.core.errors import Unavailable
from tailrace.core.log.config import LogConfig
from tailrace.core.log.ownership import member_prefix
from tailrace.core.runtime.config import load, settings_of
from tailrace.core.runtime.metrics import Metrics
from tailrace.proxy.owner.codes import ServerStatus, StatusCode
from tailrace.proxy.owner.config import OwnerConfig, proxy_log_config
from tailrace.proxy.owner.location import ProxyLocation
from tests.unit.core.log.world import settle
from tests.unit.proxy.owner.world import (
    Proxy,
    ProxyWorld,
    codes,
    new_stream,
    payloads_of,
)
from tests.unit.proxy.owner.world import run as run_in_virtual_time

if TYPE_CHECKING:
    from tailrace.proxy.owner.operations import Answer

Run = Callable[[Callable[[ProxyWorld], Coroutine[Any, Any, None]]], None]
LOCK = "/distributedlog/tailrace/s/<default>/lock"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return lambda story: run_in_virtual_time(tmp_path, story)


# ---------------------------------------------------------------------- two owners


def test_a_stream_of_another_proxy_is_found_there(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        await one.streams.write("s", b"a")
        asked = [two.streams.write("s", b"b"), two.streams.heartbeat("s")]
        for answer in [await each for each in asked]:
            assert (answer.code, answer.location) == (StatusCode.FOUND, "1;1;host:4001")
        assert two.streams.owner_of("s").location == "1;1;host:4001"
        assert two.events.seen == []
        await one.streams.close()
        assert await payloads_of(world) == [b"a"]

    run(story)


def test_a_redirect_is_remembered_for_two_thirds_of_the_session_timeout(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        await one.streams.write("s", b"a")
        assert (await two.streams.write("s", b"b")).code is StatusCode.FOUND
        await one.streams.release("s")
        await asyncio.sleep(5.9)
        assert (await two.streams.write("s", b"c")).code is StatusCode.FOUND
        assert two.metrics.claims_total == 1
        await asyncio.sleep(0.2)
        assert two.streams.owner_of("s").code is StatusCode.STREAM_UNAVAILABLE
        assert (await two.streams.write("s", b"d")).code is StatusCode.SUCCESS
        assert (await one.streams.write("s", b"e")).location == "1;2;host:4002"
        await two.streams.close()
        assert await payloads_of(world) == [b"a", b"d"]

    run(story)


def test_a_stream_of_a_proxy_that_is_gone_is_claimed_at_once(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2, claim_pause_ms=10_000)
        again = Proxy(world, 1)
        await one.streams.write("s", b"a")
        assert (await two.streams.write("s", b"b")).code is StatusCode.FOUND
        assert (await again.streams.write("s", b"b")).code is StatusCode.STREAM_UNAVAILABLE
        one.store.expire()
        began_s = asyncio.get_running_loop().time()
        two.streams.on_proxy_gone(ProxyLocation(3, "host", 4003))
        assert (await two.streams.write("s", b"b")).code is StatusCode.FOUND
        for each in (two, again):
            each.streams.on_proxy_gone(one.location)
        assert (await two.streams.write("s", b"c")).code is StatusCode.SUCCESS
        assert asyncio.get_running_loop().time() - began_s < 0.5
        assert (await again.streams.write("s", b"d")).location == two.location.text
        await two.streams.close()
        assert await payloads_of(world) == [b"a", b"c"]

    run(story)


def test_an_owner_that_lost_its_session_is_fenced_and_redirects(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        assert (await one.streams.write("s", b"a")).code is StatusCode.SUCCESS
        one.store.expire()  # it does not hear of that yet
        assert (await one.streams.write("s", b"b")).code is StatusCode.SUCCESS
        assert (await two.streams.write("s", b"c")).code is StatusCode.SUCCESS
        fenced = await one.streams.write("s", b"d")
        assert fenced.code is StatusCode.BK_TRANSMIT_ERROR
        one.store.tick()
        await asyncio.sleep(2)
        answer = await one.streams.write("s", b"e")
        assert (answer.code, answer.location) == (StatusCode.FOUND, "1;2;host:4002")
        assert one.events.seen == [("acquired", "s"), ("released", "s")]
        await two.streams.close()
        await one.streams.close()
        assert await payloads_of(world) == [b"a", b"b", b"c"]

    run(story)


def test_an_idle_owner_hears_from_its_lock_that_another_has_the_stream(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        await one.streams.write("s", b"a")
        one.store.expire()
        await two.streams.write("s", b"b")
        one.store.tick()
        await asyncio.sleep(1)
        assert one.streams.owned == []
        assert one.streams.owner_of("s").location == "1;2;host:4002"
        await two.streams.close()

    run(story)


def test_an_owner_whose_session_flaps_goes_on_without_a_recovery(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        for number in range(5):
            answer = await proxy.streams.write("s", b"%d" % number)
            assert answer.code is StatusCode.SUCCESS
            proxy.store.expire()
            proxy.store.tick()
            await asyncio.sleep(0.2)
        assert proxy.metrics.claims_total == 1
        await proxy.streams.close()
        assert await payloads_of(world) == [b"%d" % number for number in range(5)]

    run(story)


def test_a_lock_of_the_own_location_is_told_to_the_service(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        former, again = Proxy(world, 1), Proxy(world, 1)
        await former.streams.write("s", b"a")
        answer = await again.streams.write("s", b"b")
        assert answer.code is StatusCode.STREAM_UNAVAILABLE
        assert answer.location == ""
        assert again.events.seen == [("inconsistent", "s")]
        assert again.metrics.inconsistent_locks_total == 1
        former.store.expire()
        await asyncio.sleep(7)
        assert (await again.streams.write("s", b"c")).code is StatusCode.SUCCESS
        await again.streams.close()

    run(story)


def test_an_owner_that_is_no_proxy_is_no_location(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        member = member_prefix("an-embedded-log", 5)
        await world.store.create(f"{LOCK}/{member}", b"an-embedded-log", sequential=True)
        answer = await proxy.streams.write("s", b"a")
        assert (answer.code, answer.location) == (StatusCode.LOCKING_EXCEPTION, "")
        assert "an-embedded-log" in answer.error

    run(story)


# ---------------------------------------------------------------------- releasing, draining


def test_a_released_stream_is_anothers_at_once(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        writes = [one.streams.write("s", b"%d" % number) for number in range(10)]
        await writes[0]
        assert (await one.streams.release("s")).code is StatusCode.SUCCESS
        assert (await one.streams.release("s")).code is StatusCode.SUCCESS
        assert set(codes([await write for write in writes])) == {StatusCode.SUCCESS}
        await log.refresh(is_forced=True)
        assert not any(segment.in_progress for segment in log.segments)
        assert (await two.streams.write("s", b"10")).code is StatusCode.SUCCESS
        await two.streams.close()
        assert await payloads_of(world) == [b"%d" % number for number in range(11)]

    run(story)


def test_a_request_of_a_stream_that_is_let_go_is_answered_when_another_may_have_it(
    run: Run,
) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1, queued_operations_max=3), Proxy(world, 2)
        await one.streams.write("s", b"a")
        released = asyncio.ensure_future(one.streams.release("s"))
        await asyncio.sleep(0)
        asked = [one.streams.write("s", b"x") for _ in range(5)]
        assert [answer.done() for answer in asked] == [False, False, False, True, True]
        assert set(codes([await answer for answer in asked])) == {StatusCode.STREAM_UNAVAILABLE}
        assert (await two.streams.write("s", b"b")).code is StatusCode.SUCCESS
        await released
        await two.streams.close()
        assert await payloads_of(world) == [b"a", b"b"]

    run(story)


def test_a_stream_that_was_let_go_may_be_deleted_and_made_again(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        for payload in (b"a", b"b"):
            await proxy.streams.write("s", payload)
            await proxy.streams.release("s")
            assert proxy.namespace._open == {}
            other = world.namespace()
            await other.delete_log("s")
            await other.create_log("s")
        assert (await proxy.streams.write("s", b"c")).code is StatusCode.SUCCESS
        await proxy.streams.close()
        assert await payloads_of(world) == [b"c"]

    run(story)


def test_a_proxy_that_accepts_no_new_stream_serves_those_that_it_has(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        for name in ("s", "t"):
            await new_stream(world, name)
        proxy = Proxy(world, 1)
        await proxy.streams.write("s", b"a")
        proxy.streams.set_accept_new_stream(accepts=False)
        assert proxy.streams.status is ServerStatus.WRITE_ONLY
        assert (await proxy.streams.write("s", b"b")).code is StatusCode.SUCCESS
        assert (await proxy.streams.write("t", b"a")).code is StatusCode.SERVICE_UNAVAILABLE
        proxy.streams.set_accept_new_stream(accepts=True)
        assert (await proxy.streams.write("t", b"a")).code is StatusCode.SUCCESS
        assert proxy.streams.owned == ["s", "t"]
        await proxy.streams.close()

    run(story)


def test_a_proxy_that_stops_finishes_what_runs_and_lets_all_streams_go(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        names = [f"s{number}" for number in range(10)]
        for name in names:
            await new_stream(world, name)
        one, two = Proxy(world, 1, closed_at_once=3), Proxy(world, 2)
        for name in names:
            await one.streams.heartbeat(name)
        writes = [one.streams.write(name, name.encode()) for name in names]
        await one.streams.close()
        assert set(codes([await write for write in writes])) == {StatusCode.SUCCESS}
        assert one.streams.status is ServerStatus.DOWN
        assert (await one.streams.write("s1", b"x")).code is StatusCode.SERVICE_UNAVAILABLE
        one.streams.set_accept_new_stream(accepts=True)
        assert one.streams.status is ServerStatus.DOWN
        await one.streams.close()
        for name in names:
            assert (await two.streams.write(name, b"y")).code is StatusCode.SUCCESS
        await two.streams.close()
        for name in names:
            assert await payloads_of(world, name) == [name.encode(), b"y"]

    run(story)


def test_a_stop_beside_stuck_bookies_ends(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        names = [f"s{number}" for number in range(6)]
        for name in names:
            await new_stream(world, name)
        one, two = Proxy(world, 1, closed_at_once=3), Proxy(world, 2)
        for name in names:
            await one.streams.write(name, b"a")
        world.bookie.hold()
        writes = [one.streams.write(name, b"b") for name in names]
        began_s = asyncio.get_running_loop().time()
        await one.streams.close()
        assert asyncio.get_running_loop().time() - began_s < 3
        assert StatusCode.SUCCESS not in codes([await write for write in writes])
        assert one.metrics.close_timeouts_total == 6
        world.bookie.release()
        for name in names:
            assert (await two.streams.write(name, b"c")).code is StatusCode.SUCCESS
            assert (await payloads_of(world, name))[0] == b"a"
        await two.streams.close()

    run(story)


# ---------------------------------------------------------------------- making, deleting


def test_a_stream_is_made_written_deleted_and_made_again(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        proxy = Proxy(world, 1)
        streams = proxy.streams
        assert (await streams.create("s")).code is StatusCode.SUCCESS
        assert (await streams.create("s")).code is StatusCode.LOG_EXISTS
        assert (await streams.create("/bad//name")).code is StatusCode.INVALID_STREAM_NAME
        write = streams.write("s", b"a")
        assert (await write).code is StatusCode.SUCCESS
        assert (await streams.delete("s")).code is StatusCode.SUCCESS
        assert streams.owned == []
        assert await world.ledger_ids() == set()
        assert (await streams.delete("s")).code is StatusCode.LOG_NOT_FOUND
        assert (await streams.write("s", b"b")).code is StatusCode.LOG_NOT_FOUND
        await streams.create("s")
        assert (await streams.write("s", b"c")).code is StatusCode.SUCCESS
        await streams.close()
        assert await payloads_of(world) == [b"c"]
        assert (await streams.create("t")).code is StatusCode.SERVICE_UNAVAILABLE

    run(story)


def test_a_stream_that_is_being_deleted_is_not_claimed(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        await proxy.streams.write("s", b"a")

        deletion = asyncio.create_task(proxy.streams.delete("s"))
        meanwhile: list[Answer] = []
        await asyncio.sleep(0)
        while not deletion.done():
            meanwhile += [await proxy.streams.write("s", b"b"), await proxy.streams.delete("s")]
            await asyncio.sleep(0.001)
        assert (await deletion).code is StatusCode.SUCCESS
        assert len(meanwhile) > 10
        assert set(codes(meanwhile[:-2])) == {StatusCode.STREAM_UNAVAILABLE}
        assert proxy.metrics.claims_total == 1

    run(story)


def test_a_stream_of_another_is_neither_made_nor_deleted_here(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        await one.streams.write("s", b"a")
        answer = await two.streams.delete("s")
        assert (answer.code, answer.location) == (StatusCode.FOUND, "1;1;host:4001")
        two.streams.set_accept_new_stream(accepts=False)
        changes = [await two.streams.create("t"), await two.streams.delete("s")]
        assert set(codes(changes)) == {StatusCode.SERVICE_UNAVAILABLE}
        await one.streams.close()
        assert await payloads_of(world) == [b"a"]

    run(story)


class Topics:
    """Streams that are others' from some time on (ReservedStream)."""

    def __init__(self, proxy: Proxy) -> None:
        self.names: set[str] = set()
        self.asked: list[str] = []
        proxy.streams.reserve(self.reason)

    async def reason(self, stream: str) -> str | None:
        self.asked.append(stream)
        return f"{stream} is a partition" if stream in self.names else None


def test_a_reserved_stream_is_let_go_before_anything_is_written(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await new_stream(world)
        proxy = Proxy(world, 1)
        topics = Topics(proxy)
        topics.names = {"s"}
        asked = [proxy.streams.write("s", b"a"), proxy.streams.heartbeat("s")]
        answers = [await each for each in asked]
        assert {(each.code, each.error) for each in answers} == {
            (StatusCode.REQUEST_DENIED, "s is a partition")
        }
        await asyncio.sleep(1)
        assert topics.asked == ["s"]
        assert proxy.events.seen == []
        await log.refresh(is_forced=True)
        assert list(log.segments) == []
        assert await world.store.children(LOCK) == []
        topics.names = set()
        assert (await proxy.streams.write("s", b"b")).code is StatusCode.SUCCESS
        await proxy.streams.close()
        assert await payloads_of(world) == [b"b"]

    run(story)


def test_a_stream_that_turns_out_to_be_reserved_is_not_deleted(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        topics = Topics(proxy)
        assert (await proxy.streams.write("s", b"a")).code is StatusCode.SUCCESS
        topics.names = {"s"}
        answer = await proxy.streams.delete("s")
        assert (answer.code, answer.error) == (StatusCode.REQUEST_DENIED, "s is a partition")
        assert await payloads_of(world) == [b"a"]
        topics.names = set()
        assert (await proxy.streams.delete("s")).code is StatusCode.SUCCESS
        assert await world.ledger_ids() == set()
        await proxy.streams.close()

    run(story)


def test_a_store_that_does_not_say_whose_a_stream_is_is_asked_again(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy, asked = Proxy(world, 1), []

        async def away_once(stream: str) -> str | None:
            asked.append(stream)
            if len(asked) == 1:
                raise Unavailable("away")
            return None

        proxy.streams.reserve(away_once)
        assert (await proxy.streams.write("s", b"a")).code is StatusCode.STREAM_UNAVAILABLE
        await asyncio.sleep(1)
        assert (await proxy.streams.write("s", b"b")).code is StatusCode.SUCCESS
        await proxy.streams.close()
        assert await payloads_of(world) == [b"b"]

    run(story)


# ---------------------------------------------------------------------- limits


@pytest.mark.parametrize("limit", ["cached_max", "acquired_max"])
def test_a_proxy_has_no_more_streams_than_it_may(run: Run, limit: str) -> None:
    async def story(world: ProxyWorld) -> None:
        for name in "abc":
            await new_stream(world, name)
        proxy = Proxy(world, 1, **{limit: 2})
        asked = [proxy.streams.write(name, b"x") for name in "abc"]  # none is acquired yet
        assert codes([await each for each in asked]) == [
            StatusCode.SUCCESS,
            StatusCode.SUCCESS,
            StatusCode.TOO_MANY_STREAMS,
        ]
        assert (await proxy.streams.write("a", b"x")).code is StatusCode.SUCCESS
        await proxy.streams.release("a")
        assert (await proxy.streams.write("c", b"x")).code is StatusCode.SUCCESS
        assert (proxy.metrics.streams_cached, proxy.metrics.streams_acquired) == (2, 2)
        assert proxy.metrics.too_many_streams_total == 1
        await proxy.streams.close()

    run(story)


def test_a_refused_claim_gives_its_place_back(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1, acquired_max=1)
        for number in range(3):
            assert (await proxy.streams.write(f"no{number}", b"x")).code is StatusCode.LOG_NOT_FOUND
            await settle()
        assert (await proxy.streams.write("s", b"x")).code is StatusCode.SUCCESS
        await proxy.streams.close()

    run(story)


@pytest.mark.parametrize(
    "limit",
    ["records_hard_write", "bytes_hard_write", "records_hard_service", "bytes_hard_service"],
)
def test_above_a_hard_limit_writes_are_refused(run: Run, limit: str) -> None:
    async def story(world: ProxyWorld) -> None:
        for name in "ab":
            await new_stream(world, name)
        proxy = Proxy(world, 1, **{limit: 4})
        for name in "ab":
            await proxy.streams.heartbeat(name)
        answers = [await each for each in [proxy.streams.write("a", b"x") for _ in range(6)]]
        full = StatusCode.OVER_CAPACITY
        assert codes(answers) == [StatusCode.SUCCESS] * 4 + [full, full]
        assert proxy.metrics.hard_limit_exceeded_total == 2
        other = await proxy.streams.write("b", b"x")
        assert (other.code is StatusCode.SUCCESS) == limit.endswith("write")
        assert (await proxy.streams.heartbeat("a")).code is StatusCode.SUCCESS
        await asyncio.sleep(1)
        assert (await proxy.streams.write("a", b"x")).code is StatusCode.SUCCESS
        await proxy.streams.close()

    run(story)


@pytest.mark.parametrize("limit", ["records_soft_write", "bytes_soft_service"])
def test_above_a_soft_limit_writes_are_counted(run: Run, limit: str) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1, **{limit: 4})
        await proxy.streams.heartbeat("s")
        answers = [await each for each in [proxy.streams.write("s", b"x") for _ in range(6)]]
        assert set(codes(answers)) == {StatusCode.SUCCESS}
        assert proxy.metrics.soft_limit_exceeded_total == 2
        await proxy.streams.close()

    run(story)


@pytest.mark.parametrize("limit", ["records_acquire_service", "bytes_acquire_service"])
def test_a_busy_proxy_takes_no_new_stream(run: Run, limit: str) -> None:
    async def story(world: ProxyWorld) -> None:
        for name in "ab":
            await new_stream(world, name)
        proxy = Proxy(world, 1, **{limit: 10})
        for _ in range(60):
            await asyncio.sleep(0.05)
            assert (await proxy.streams.write("a", b"x")).code is StatusCode.SUCCESS
        refused = [await proxy.streams.write("b", b"x"), await proxy.streams.heartbeat("b")]
        assert codes(refused) == [StatusCode.TOO_MANY_STREAMS] * 2
        assert proxy.metrics.too_many_streams_total == 2
        assert (await proxy.streams.write("a", b"x")).code is StatusCode.SUCCESS
        await asyncio.sleep(60)
        assert (await proxy.streams.write("b", b"x")).code is StatusCode.SUCCESS
        await proxy.streams.close()

    run(story)


@pytest.mark.parametrize("dark", [False, True])
def test_outstanding_writes_above_their_limit_are_refused_or_only_counted(
    run: Run, dark: bool
) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        log = {"outstanding_writes_max": 2, "outstanding_writes_dark": dark}
        proxy = Proxy(world, 1, log)
        await proxy.streams.heartbeat("s")
        answers = [await each for each in [proxy.streams.write("s", b"x") for _ in range(3)]]
        last = StatusCode.SUCCESS if dark else StatusCode.OVER_CAPACITY
        assert codes(answers) == [StatusCode.SUCCESS] * 2 + [last]
        await proxy.streams.close()

    run(story)


# ---------------------------------------------------------------------- idle streams


def test_a_stream_that_nothing_is_asked_of_is_completed_and_let_go(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        log = await new_stream(world)
        await new_stream(world, "busy")
        one, two = Proxy(world, 1, idle_ms=60_000), Proxy(world, 2)
        assert (await one.streams.write("s", b"a")).code is StatusCode.SUCCESS
        for _ in range(13):
            assert (await one.streams.heartbeat("busy")).code is StatusCode.SUCCESS
            assert one.streams.owned == ["s", "busy"]
            await asyncio.sleep(4.5)
        await asyncio.sleep(4.5)
        assert one.streams.owned == ["busy"]
        assert one.events.seen[-1] == ("released", "s")
        assert one.metrics.idle_streams_total == 1
        assert one.namespace._open.keys() == {"busy"}
        await log.refresh(is_forced=True)
        assert not any(segment.in_progress for segment in log.segments)
        assert (await two.streams.write("s", b"b")).code is StatusCode.SUCCESS
        for proxy in (one, two):
            await proxy.streams.close()
        assert await payloads_of(world) == [b"a", b"b"]

    run(story)


def test_a_stream_of_which_something_runs_is_not_idle(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        await new_stream(world, "t")
        proxy = Proxy(world, 1, idle_ms=5_000, claim_timeout_ms=600_000)
        await proxy.streams.heartbeat("s")
        world.bookie.hold()
        running = proxy.streams.write("s", b"a")
        world.server.faults.hold_writes = True
        claiming = proxy.streams.write("t", b"b")
        await asyncio.sleep(100)
        assert proxy.metrics.idle_streams_total == 0
        world.bookie.release()
        world.server.release_writes()
        assert codes([await running, await claiming]) == [StatusCode.SUCCESS] * 2
        await asyncio.sleep(11)
        assert proxy.streams.owned == []
        assert proxy.metrics.close_timeouts_total == 0
        await proxy.streams.close()

    run(story)


def test_many_idle_streams_go_some_at_a_time(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        names = [f"s{number}" for number in range(10)]
        for name in names:
            await new_stream(world, name)
        proxy = Proxy(world, 1, idle_ms=5_000, closed_at_once=3, close_timeout_ms=1_000)
        began_s = asyncio.get_running_loop().time()
        for write in [proxy.streams.write(name, b"a") for name in names]:
            await write
        await asyncio.sleep(began_s + 4.9 - asyncio.get_running_loop().time())
        assert sorted(proxy.streams.owned) == names
        world.server.faults.hold_writes = True  # a close takes all its time
        await asyncio.sleep(0.9)
        statuses = [stream.status.name for stream in proxy.streams._cached.values()]
        assert statuses == ["CLOSING"] * 3 + ["INITIALIZED"] * 7
        world.server.release_writes()
        await asyncio.sleep(1)
        assert proxy.streams.owned == []
        await proxy.streams.close()

    run(story)


def test_without_the_setting_a_stream_stays(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy = Proxy(world, 1)
        await proxy.streams.write("s", b"a")
        await asyncio.sleep(1_000_000)
        assert proxy.streams.owned == ["s"]
        await proxy.streams.close()

    run(story)


# ---------------------------------------------------------------------- settings, numbers


def test_settings_have_distributedlogs_names() -> None:
    keys = {each.key for each in settings_of(OwnerConfig)}
    assert keys >= {
        "server_service_timeout_ms",
        "server_stream_probation_timeout_ms",
        "server_writer_close_timeout_ms",
        "maxAcquiredPartitionsPerProxy",
        "maxCachedPartitionsPerProxy",
        "rpsStreamAcquireServiceLimit",
        "bpsStreamAcquireServiceLimit",
        *(
            f"{unit}{kind}{scope}Limit"
            for unit in ("rps", "bps")
            for kind in ("Soft", "Hard")
            for scope in ("Write", "Service")
        ),
    }
    assert load(OwnerConfig, []).config == OwnerConfig()


def test_a_proxys_logs_wait_for_no_owner_and_say_where_it_is() -> None:
    waiting = LogConfig(client_id="x", client_id_is_exclusive=True, ensemble_size=3)
    config = proxy_log_config(waiting, ProxyLocation(7, "host", 9))
    assert (config.lock_timeout_s, config.client_id) == (0, "1;7;host:9")
    assert (config.client_id_is_exclusive, config.ensemble_size) == (False, 3)


def test_a_time_for_claims_that_the_pause_between_them_would_reach_is_refused() -> None:
    with pytest.raises(ValueError, match=r"proxy\.stream\.claim\.timeout\.ms"):
        OwnerConfig(claim_timeout_ms=1000)
    assert OwnerConfig(claim_timeout_ms=1000, claim_pause_ms=999).claim_timeout_ms == 1000


def test_more_writer_ids_than_a_snapshot_may_have_are_refused() -> None:
    with pytest.raises(ValueError, match=r"proxy\.stream\.writer\.ids\.max"):
        OwnerConfig(writers_max=10_001)


def test_numbers_move(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        proxy, metrics = Proxy(world, 1), Metrics()
        metrics.register("proxy_owner", proxy.metrics)
        await proxy.streams.write_bulk("s", [b"ab", b"c"])
        await proxy.streams.write("none", b"d")
        await settle()
        found = metrics.snapshot()
        assert found["proxy_owner_requests_total"] == 2
        assert found["proxy_owner_failed_requests_total"] == 1
        assert found["proxy_owner_records_total"] == 3
        assert found["proxy_owner_record_bytes_total"] == 4
        assert found["proxy_owner_claims_total"] == 2
        assert found["proxy_owner_claim_seconds_count"] == 1
        assert found["proxy_owner_operation_seconds_count"] == 2
        assert found["proxy_owner_streams_acquired"] == 1
        await proxy.streams.close()

    run(story)


# ---------------------------------------------------------------------- moves and regions


def test_a_released_stream_is_redirected_to_where_it_goes(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one, two = Proxy(world, 1), Proxy(world, 2)
        await one.streams.write("s", b"a")
        released = asyncio.ensure_future(one.streams.release_to("s", two.location))
        await asyncio.sleep(0)
        while not released.done():  # a writer that does not wait claims nothing back
            await asyncio.sleep(0.001)
            answer = await one.streams.write("s", b"x")
            assert (answer.code, answer.location) == (StatusCode.FOUND, two.location.text)
        assert (await released).code is StatusCode.SUCCESS
        answer = await one.streams.write("s", b"x")
        assert (answer.code, answer.location) == (StatusCode.FOUND, two.location.text)
        assert one.streams.owner_of("s").location == two.location.text
        assert one.streams.owned == []
        assert (await two.streams.heartbeat("s")).code is StatusCode.SUCCESS
        assert (await two.streams.write("s", b"b")).code is StatusCode.SUCCESS
        assert one.metrics.claims_total == 1
        for proxy in (one, two):
            await proxy.streams.close()
        assert await payloads_of(world) == [b"a", b"b"]

    run(story)


def test_a_redirect_to_a_proxy_that_does_not_claim_passes(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one = Proxy(world, 1)
        elsewhere = ProxyLocation(7, "nowhere", 1)
        assert (await one.streams.release_to("s", elsewhere)).code is StatusCode.SUCCESS
        assert (await one.streams.write("s", b"a")).location == elsewhere.text
        await asyncio.sleep(6.1)
        assert (await one.streams.write("s", b"b")).code is StatusCode.SUCCESS
        refused = await one.streams.release_to("s", one.location)
        assert refused.code is StatusCode.REQUEST_DENIED
        assert one.streams.owned == ["s"]
        await one.streams.close()
        assert await payloads_of(world) == [b"b"]

    run(story)


def test_a_stopped_region_serves_what_it_has(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        for name in ("s", "t"):
            await new_stream(world, name)
        one, two = Proxy(world, 1), Proxy(world, 2)
        await one.streams.write("s", b"a")
        one.streams.set_region_stopped(stopped=True)
        assert (await one.streams.write("s", b"b")).code is StatusCode.SUCCESS
        refused = [
            await one.streams.write("t", b"c"),
            await one.streams.create("u"),
            await one.streams.delete("t"),
        ]
        assert codes(refused) == [StatusCode.REGION_UNAVAILABLE] * 3
        assert (await two.streams.write("t", b"c")).code is StatusCode.SUCCESS
        await one.streams.release("s")
        assert (await one.streams.write("s", b"d")).code is StatusCode.REGION_UNAVAILABLE
        one.streams.set_region_stopped(stopped=False)
        assert (await one.streams.write("s", b"d")).code is StatusCode.SUCCESS
        for proxy in (one, two):
            await proxy.streams.close()

    run(story)


def test_loads_are_those_of_streams_that_are_owned(run: Run) -> None:
    async def story(world: ProxyWorld) -> None:
        await new_stream(world)
        one = Proxy(world, 1)
        for _ in range(100):
            await asyncio.sleep(1)
            await one.streams.write("s", b"1234567890")
        load = one.streams.load_of("s")
        assert load.records == pytest.approx(1, rel=0.1)
        assert load.size_bytes == pytest.approx(10, rel=0.1)
        await one.streams.release("s")
        assert one.streams.load_of("s").records == 0
        await one.streams.close()

    run(story)
