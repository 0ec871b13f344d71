"""The thin client's face, over real gRPC, before two proxies in this process."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tailrace import dlog
from tests.ports import free_port
from tests.unit.proxy.client.grpc_world import GrpcProxy, run
from tests.unit.proxy.owner.world import ProxyWorld

Story = Callable[[ProxyWorld, GrpcProxy, GrpcProxy], Coroutine[Any, Any, None]]
Run = Callable[[Story], None]
PLAIN = {"enable.idempotence": False}
SURE = PLAIN | {"connect.timeout.ms": 10_000}
"""Of a client that takes no host that lives for one that is away, however busy the machine is."""


@pytest.fixture(name="run")
def run_(tmp_path: Path) -> Run:
    return partial(run, tmp_path)


def test_it_makes_writes_reads_truncates_and_deletes(run: Run) -> None:
    async def story(_world: ProxyWorld, one: GrpcProxy, two: GrpcProxy) -> None:
        async with dlog.ThinClient([one.address, two.address], settings=PLAIN) as client:
            await client.create("s")
            assert await client.read_last("s") is None
            async with client.read("s", dlog.TAIL) as reader:
                first = await client.write("s", b"0")
                record = await reader.read_next()
                assert (record.dlsn, record.payload) == (first, b"0")
            positions = await client.write_bulk("s", [b"1", b"2"])
            assert await client.owner("s") in (one.address, two.address)
            await client.truncate("s", positions[0])
            await client.heartbeat("s", to_readers=True)
            await client.release("s")
            assert await client.owner("s") is None
            async with client.read("s", tail=False) as reader:
                assert [record.payload async for record in reader] == [b"1", b"2"]
                assert await reader.read_bulk(1) == []
                with pytest.raises(dlog.EndOfStream):
                    await reader.read_next()
            last = await client.read_last("s")
            assert last is not None
            assert last.dlsn == positions[1]
            (segment,) = await client.segments("s")
            assert segment.truncation_status == "PARTIALLY_TRUNCATED"
            assert (segment.record_count, segment.last_dlsn) == (3, positions[1])
            await client.delete("s")
            with pytest.raises(dlog.LogNotFound) as failed:
                await client.write("s", b"3")
            assert isinstance(failed.value, dlog.ProxyError)
            assert failed.value.stream == "s"

    run(story)


def test_records_in_flight_survive_the_death_of_their_owner(run: Run) -> None:
    async def story(_world: ProxyWorld, one: GrpcProxy, two: GrpcProxy) -> None:
        async with dlog.ThinClient(f"{one.address},{two.address}", settings=PLAIN) as client:
            await client.create("s")
            async with client.open_writer("s") as writer:
                taken = [await writer.submit(b"%d" % n) for n in range(50)]
                await asyncio.wait(taken)
                owner = await client.owner("s")
                await (one if owner == one.address else two).kill()
                taken += [await writer.submit(b"%d" % n) for n in range(50, 100)]
                await writer.flush()
                await writer.write(b"100")
            async with client.read("s") as reader:
                found: list[bytes] = []
                while b"100" not in found:
                    found += [record.payload for record in await reader.read_bulk(100)]
            assert list(dict.fromkeys(found)) == [b"%d" % n for n in range(101)]
            assert len(set(await asyncio.gather(*taken))) == 100

    run(story)


def test_a_dead_host_and_a_silent_one_cost_little(run: Run) -> None:
    async def story(_world: ProxyWorld, one: GrpcProxy, two: GrpcProxy) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and says nothing
            hosts = [
                f"127.0.0.1:{free_port()}",
                f"127.0.0.1:{silent.getsockname()[1]}",
                one.address,
                two.address,
            ]
            async with dlog.ThinClient(hosts, settings=PLAIN) as client:
                await client.create("s")
                for n in range(20):
                    await client.write("s", b"%d" % n)

    run(story)


def test_a_failed_record_is_raised_by_flush_once(run: Run) -> None:
    async def story(_world: ProxyWorld, one: GrpcProxy, _two: GrpcProxy) -> None:
        async with dlog.ThinClient(one.address, settings=PLAIN) as client:
            writer = await client.open_writer("missing")
            await writer.submit(b"a")
            with pytest.raises(dlog.LogNotFound):
                await writer.flush()
            await writer.flush()
            with pytest.raises(dlog.LogNotFound):
                await writer.write(b"b")
            await writer.close()
            with pytest.raises(ValueError, match="closed"):
                await writer.submit(b"c")

    run(story)


def test_several_streams_share_records(run: Run) -> None:
    async def story(_world: ProxyWorld, one: GrpcProxy, two: GrpcProxy) -> None:
        async with dlog.ThinClient([one.address, two.address], settings=PLAIN) as client:
            for stream in ("s", "t"):
                await client.create(stream)
                await client.heartbeat(stream)
            async with client.multi_stream_writer(["s", "t"], timeout_ms=30_000) as writer:
                taken = [await writer.submit(bytes(8_000)) for _ in range(8)]
                await writer.flush()
                assert {each.result().stream for each in taken} == {"s", "t"}

    run(story)


def test_the_local_region_is_asked_first(run: Run) -> None:
    async def story(_world: ProxyWorld, one: GrpcProxy, two: GrpcProxy) -> None:
        for region, wanted in (("eu", one), ("us", two)):
            target = {"eu": [one.address], "us": two.address}
            async with dlog.ThinClient(target, region=region, settings=SURE) as client:
                for n in range(5):
                    await client.create(f"{region}-{n}")
                    await client.write(f"{region}-{n}", b"a")
                    assert await client.owner(f"{region}-{n}") == wanted.address

    run(story)


BLOCKING: Final = """
import sys
from concurrent.futures import ThreadPoolExecutor
from tailrace import dlog
from tailrace.dlog import sync

client = sync.ThinClient(sys.argv[1:])
client.create("s")
with client.open_writer("s") as writer, client.read("s") as reader:
    futures = [writer.submit(b"%d" % n) for n in range(2_500)]
    found = [next(reader).payload for _ in futures[:-1]] + [reader.read_next().payload]
    assert found == [b"%d" % n for n in range(2_500)], "each once, in order"
    assert reader.read_bulk(1, timeout_s=0.01) == []
    assert writer.write(b"last") > futures[-1].result()
    assert [each.payload for each in reader.read_bulk(5)] == [b"last"]
    with ThreadPoolExecutor(8) as threads:
        done = list(threads.map(lambda n: writer.write(b"%d" % n), range(100)))
    assert len({*done}) == 100
client.release("s")  # all of a completed segment can be read
with client.read("s", tail=False) as reader:
    assert sum(1 for _ in reader) == 2_601
with client.multi_stream_writer(["s"], timeout_ms=30_000) as several:
    assert several.submit(b"a").result().stream == "s"
try:
    client.write("missing", b"")
except dlog.LogNotFound as error:
    assert isinstance(error, sync.ProxyError)
late = client.open_writer("s").submit(b"late")
print("well")  # what is open is closed at the end, once all is answered
late.add_done_callback(lambda done: print("late", done.exception()))
"""


def test_the_blocking_face_does_the_same_and_ends_in_order(run: Run) -> None:
    async def story(_world: ProxyWorld, one: GrpcProxy, two: GrpcProxy) -> None:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", BLOCKING, one.address, two.address),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        printed, _ = await program.communicate()
        assert printed == b"well\nlate None\n", printed.decode()

    run(story)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("nonsense", "is not HOST:PORT"),
        ([], "0 proxies"),
        ({}, "0 regions"),
        ("distributedlog://zk1:2181/", "ZooKeeper's own root"),
        ("sqlite:/tmp/x", "name the address of its proxy"),
        ("127.0.0.1:99999", "is not HOST:PORT"),
    ],
)
def test_a_target_that_is_wrong_is_refused_before_anything_opens(target: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        dlog.ThinClient(target)


def test_a_setting_that_is_unknown_is_refused() -> None:
    with pytest.raises(dlog.ConfigError, match=r"did you mean batch\.size"):
        dlog.ThinClient("127.0.0.1:1", settings={"batch.sizes": 1})
    assert "enable.idempotence" in {each.name for each in dlog.known_client_settings()}


def test_the_embedded_log_loads_no_grpc() -> None:
    program = (
        "import sys, tailrace.dlog, tailrace.dlog.sync;"
        "print(sorted(m for m in sys.modules if m == 'grpc' or m.startswith('tailrace.proxy')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_a_client_that_is_not_open_says_so() -> None:
    async def story() -> None:
        with pytest.raises(ValueError, match="not open"):
            await dlog.ThinClient("127.0.0.1:1").write("s", b"")

    asyncio.run(story())
