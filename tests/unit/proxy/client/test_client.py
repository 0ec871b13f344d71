"""A thin client before real proxies: redirects, dead hosts, drained ones, regions, doubt."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tailrace.core import errors
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.proxy.write_proxy_pb2 import WriteBulkResponse, WriteResponse
from tailrace.proxy.client.errors import ProxyError
from tailrace.proxy.client.multi_stream_writer import MultiStreamSettings
from tailrace.proxy.owner.codes import StatusCode as Code
from tailrace.proxy.routing.ring import Host
from tests.unit.proxy.client.world import Thin, answer, host_of, run
from tests.unit.proxy.owner.world import new_stream

Run = Callable[..., None]


@pytest.fixture(name="run")
def run_(tmp_path: Path) -> Run:
    return partial(run, tmp_path)


Story = Callable[[Thin], Coroutine[Any, Any, None]]


def test_a_record_is_written_and_the_owner_is_remembered(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        first = await client.write("s", b"a")
        assert await client.write("s", b"b") > first
        assert client.owners.get("s") == host_of(thin.owner())
        assert thin.net.count("write") == 2
        assert await thin.payloads() == [b"a", b"b"]

    run(story)


def test_a_redirect_is_followed_once_and_then_known(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        routed = client.writing.routes.first("s")
        (other,) = [each for each in thin.proxies if host_of(each) != routed]
        await other.streams.heartbeat("s")
        await client.write("s", b"a")
        await client.write("s", b"b")
        assert thin.net.asked("write") == [routed, host_of(other), host_of(other)]

    run(story)


def test_a_dead_host_of_a_list_costs_one_try(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        routed = client.writing.routes.first("s")
        assert routed is not None
        thin.net.kill(routed)
        for payload in (b"a", b"b", b"c"):
            await client.write("s", payload)
        assert thin.net.asked("write").count(routed) == 1
        assert routed not in client.writing.routes.hosts

    run(story)


def test_another_proxy_takes_the_stream_of_one_that_was_killed(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        await client.write("s", b"a")
        former = thin.owner()
        await thin.kill(former)
        await client.write("s", b"b")
        assert client.owners.get("s") != host_of(former)
        assert await thin.payloads() == [b"a", b"b"]

    run(story)


def test_a_drained_proxy_is_left_out_and_its_streams_move(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        await client.write("s", b"a")
        former = thin.owner()
        await former.streams.close()
        await client.write("s", b"b")
        assert thin.owner() is not former
        assert host_of(former) not in client.writing.routes.hosts
        assert client.owners.get("s") == host_of(thin.owner())

    run(story)


def test_a_proxy_that_hangs_is_asked_twice_and_then_left(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(rpc_timeout_ms=1_000)
        await client.write("s", b"a")
        former = thin.owner()
        thin.net.hung.add(host_of(former))
        asyncio.get_running_loop().call_later(1.0, former.store.expire)
        await client.write("s", b"b")
        assert thin.net.asked("write")[1:3] == [host_of(former)] * 2
        assert client.owners.get("s") != host_of(former)

    run(story)


def test_a_region_that_is_unavailable_is_left_for_another(run: Run) -> None:
    async def story(thin: Thin) -> None:
        hosts = [Host(f"{name}-r1-proxy-{n}", 4000) for n, name in enumerate(("eu", "eu", "us"))]
        for host, former in zip(hosts, thin.hosts, strict=True):
            thin.net.serve(host, *thin.net.services[former])
        client = thin.client(hosts=hosts, region="eu")
        routed = client.writing.routes.first("s")
        assert routed in hosts[:2]
        thin.net.answers["write"] = [answer(WriteResponse, Code.REGION_UNAVAILABLE)]
        await client.write("s", b"a")
        assert thin.net.asked("write") == [routed, hosts[2]]

    run(story, 3)


def test_without_numbers_a_lost_answer_writes_twice_as_documented(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        thin.net.lost_answers = 1
        await client.write("s", b"a")
        assert await thin.payloads() == [b"a", b"a"]

    run(story, 1)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (Code.OVER_CAPACITY, errors.OverCapacity),
        (Code.LOG_NOT_FOUND, errors.LogNotFound),
        (Code.END_OF_STREAM, errors.EndOfStream),
        (Code.REQUEST_DENIED, ProxyError),
        (Code.NOT_IMPLEMENTED, errors.NotYetImplemented),
        (Code.STREAM_NOT_READY, errors.Unavailable),
    ],
)
def test_what_fails_fails_at_once_with_code_stream_and_host(
    run: Run, code: Code, kind: type[Exception]
) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        thin.net.answers["write"] = [answer(WriteResponse, code)]
        with pytest.raises(kind) as failed:
            await client.write("s", b"a")
        error = failed.value
        assert isinstance(error, ProxyError)
        assert (error.code, error.stream, error.host) == (code, "s", thin.net.calls[0][0])
        assert not error.is_unknown or code is Code.STREAM_NOT_READY
        assert thin.net.count("write") == 1
        assert str(error.host and error.host.name) in str(error)

    run(story)


def test_a_request_ends_with_its_time_and_says_what_it_heard_last(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(request_timeout_ms=10_000)
        thin.net.answers["write"] = [answer(WriteResponse, Code.STREAM_UNAVAILABLE)] * 10_000
        began = asyncio.get_running_loop().time()
        with pytest.raises(errors.Unavailable, match="STREAM_UNAVAILABLE: made up") as failed:
            await client.write("s", b"a")
        assert asyncio.get_running_loop().time() - began == pytest.approx(10, abs=0.2)
        assert isinstance(failed.value, ProxyError)
        assert failed.value.is_unknown
        assert thin.net.count("write") < 250, "it asks at a pace"

    run(story)


def test_without_any_proxy_a_request_waits_and_fails(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(request_timeout_ms=10_000)
        client.writing.update(0, [])
        for host in thin.hosts:
            client.writing.routes.refused(host, 0)
        with pytest.raises(errors.Unavailable, match="no proxy is known") as failed:
            await client.write("s", b"a")
        assert isinstance(failed.value, ProxyError)
        assert not failed.value.is_unknown

    run(story)


def test_proxies_that_all_failed_are_asked_again_and_not_after_300_s_only(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        for host in thin.hosts:
            thin.net.kill(host)
        writing = asyncio.create_task(client.write("s", b"a"))
        await asyncio.sleep(5)
        thin.net.dead.clear()
        await writing
        assert await thin.payloads() == [b"a"]

    run(story)


def test_a_bulk_has_a_position_for_each_record_and_may_be_large(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client(batch_records=10)
        payloads = [b"%d" % n for n in range(35)]
        positions = await client.write_bulk("s", payloads)
        assert positions == sorted(set(positions))
        assert thin.net.count("write_bulk") == 4
        assert await thin.payloads() == payloads

    run(story)


def test_a_bulk_that_failed_in_part_says_how_much_is_written(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        each = [
            answer(WriteResponse, Code.SUCCESS),
            answer(WriteResponse, Code.TOO_LARGE_RECORD),
            answer(WriteResponse, Code.WRITE_CANCELLED_EXCEPTION),
        ]
        made = answer(WriteBulkResponse, Code.SUCCESS, responses=each)
        thin.net.answers["write_bulk"] = [made]
        with pytest.raises(errors.LogRecordTooLong, match="1 of 3 records are written"):
            await client.write_bulk("s", [b"a", b"b", b"c"])

    run(story)


def test_streams_are_made_truncated_released_and_deleted(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        await client.change("create", "t")
        with pytest.raises(errors.LogExists):
            await client.change("create", "t")
        await client.heartbeat("t", to_readers=True)
        second = (await client.write_bulk("t", [b"a", b"b"]))[1]
        await client.truncate("t", second)
        client.owners.drop("t")
        assert await client.owner("t") == host_of(thin.owner("t"))
        assert client.owners.get("t") == host_of(thin.owner("t"))
        await client.change("release", "t")
        assert not any("t" in proxy.streams.owned for proxy in thin.proxies)
        await client.change("delete", "t")
        with pytest.raises(errors.LogNotFound):
            await client.write("t", b"c")
        with pytest.raises(errors.InvalidStreamName):
            await client.owner("/../")

    run(story)


def test_the_owner_is_none_where_no_proxy_knows_one(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        assert await client.owner("s") is None
        assert sorted(thin.net.asked("get_owner")) == sorted(thin.hosts)
        assert not any(proxy.streams.owned for proxy in thin.proxies)

    run(story)


def test_handshakes_fill_the_cache_of_owners(run: Run) -> None:
    async def story(thin: Thin) -> None:
        for number, proxy in enumerate(thin.proxies):
            await new_stream(thin.world, f"t{number}")
            await proxy.streams.heartbeat(f"t{number}")
        client = thin.client(handshake_interval_ms=10_000)
        client.start_handshakes()
        await asyncio.sleep(1)
        assert [client.owners.get(f"t{n}") for n in range(2)] == thin.hosts
        await client.write("t0", b"a")
        assert thin.net.asked("write") == [thin.hosts[0]]
        await asyncio.sleep(10)
        assert thin.net.count("handshake") == 4

    run(story)


def test_a_closed_client_refuses(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        await client.close()
        for call in (client.write("s", b""), client.read_last("s"), client.owner("s")):
            with pytest.raises(errors.Unavailable, match="closed"):
                await call

    run(story)


# ---------------------------------------------------------------------- several streams

SETTINGS = MultiStreamSettings(timeout_ms=5_000)


def test_records_of_several_streams_go_round_in_sets(run: Run) -> None:
    async def story(thin: Thin) -> None:
        await new_stream(thin.world, "t")
        client = thin.client()
        writer = client.multi_stream_writer(["s", "t"], SETTINGS)
        for _ in range(2):
            taken = [await writer.submit(b"%d" % n) for n in range(5)]
            await asyncio.wait(taken)
        written = [each.result() for each in taken]
        assert len({each.stream for each in written}) == 1
        assert [each.dlsn.slot for each in written] == [0, 1, 2, 3, 4]
        for stream in ("s", "t"):
            assert await thin.payloads(stream) == [b"0", b"1", b"2", b"3", b"4"]
        assert thin.net.count("write") == 2
        assert client._room.budget.used == 0

    run(story, 1)


def test_a_set_goes_to_another_stream_when_its_owner_is_slow(run: Run) -> None:
    async def story(thin: Thin) -> None:
        for stream, proxy in (("t", 0), ("u", 1)):
            await new_stream(thin.world, stream)
            await thin.proxies[proxy].streams.heartbeat(stream)
        client = thin.client()
        client.owners.put("t", thin.hosts[0])
        client.owners.put("u", thin.hosts[1])
        thin.net.hung.add(thin.hosts[0])
        writer = client.multi_stream_writer(["t", "u"], SETTINGS)
        began = asyncio.get_running_loop().time()
        written = await (await writer.submit(b"a"))
        assert written.stream == "u"
        assert 0.05 <= asyncio.get_running_loop().time() - began < 0.15

    run(story)


def test_a_set_that_no_stream_takes_fails_in_its_time(run: Run) -> None:
    async def story(thin: Thin) -> None:
        client = thin.client()
        thin.net.hung.update(thin.hosts)
        writer = client.multi_stream_writer(["s"], MultiStreamSettings())
        future = await writer.submit(b"a")
        with pytest.raises(errors.Unavailable) as failed:
            await future
        assert isinstance(failed.value, ProxyError)
        assert failed.value.is_unknown
        with pytest.raises(errors.LogRecordTooLong):
            await writer.submit(bytes(2_000_000))
        assert client._room.budget.used == 0

    run(story)


def test_the_unknown_position_is_not_a_position() -> None:
    assert DLSN(0, -1, -1) < DLSN(1, 0, 0)
