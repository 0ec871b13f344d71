"""`tailrace proxy` and `tailrace region` on write proxies of two regions."""

import asyncio
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from tailrace.core.runtime.tasks import together
from tailrace.dlog import ThinClient, sync
from tailrace.protocol.proxy.common_pb2 import (
    FOUND,
    REGION_UNAVAILABLE,
    SERVICE_UNAVAILABLE,
    SUCCESS,
)
from tailrace.protocol.proxy.write_proxy_pb2 import (
    HandshakeRequest,
    SetAcceptNewStreamRequest,
    StreamRequest,
    WriteRequest,
)
from tailrace.tools.errors import Exit
from tests.cluster.cli import output, parsed, refusal, tailrace
from tests.cluster.three_bookies import SESSION_MS, ThreeBookies
from tests.proxy_client import ProxyCalls, calls
from tests.proxy_process import ReadProxyUnderTest, WriteProxyUnderTest
from tests.server_process import TAILRACE
from tests.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.java  # of ZooKeeper

STREAMS = [f"s{n}" for n in range(8)]
REGIONS = ("eu", "eu", "us")
SURE = {"connect.timeout.ms": 10_000}
"""Of a client that takes no proxy that lives for one that is away, however busy the machine is."""


async def ownerships(at: str) -> list[str]:
    """Return what a proxy owns."""
    async with calls(at) as ask:
        info = await ask("handshake", HandshakeRequest(get_ownerships=True))
        return list(info.ownerships)


class ProxiesUnderTest:
    """Three write proxies: two in eu, one in us."""

    def __init__(self, cluster: ThreeBookies) -> None:
        self.namespace = cluster.namespace
        session = ("--set", f"zkSessionTimeout={SESSION_MS}")
        self.all = [
            WriteProxyUnderTest(
                cluster.metadata, cluster.namespace, shard, *session, "--region", region
            )
            for shard, region in enumerate(REGIONS)
        ]
        self.reader = ReadProxyUnderTest(
            cluster.metadata, cluster.namespace, 0, *session, "--region", "us"
        )

    def owned(self) -> Counter[str]:
        """How many streams each proxy owns."""

        async def ask() -> Counter[str]:
            return Counter({each.at: len(await ownerships(each.at)) for each in self.all})

        return +asyncio.run(ask())

    def clear(self) -> None:
        """Have them own nothing, and take streams."""

        async def work() -> None:
            for each in self.all:
                async with calls(each.at) as ask:
                    await ask("set_accept_new_stream", SetAcceptNewStreamRequest(enabled=True))
                    for stream in await ownerships(each.at):
                        await ask("release", StreamRequest(stream=stream))

        asyncio.run(work())

    def proxy(self, *arguments: str) -> bytes:
        return output("proxy", *arguments, "-n", self.namespace)

    def moves(self, *arguments: str) -> list[dict[str, str]]:
        moved: list[dict[str, str]] = parsed("proxy", *arguments, "-n", self.namespace)
        return moved


@pytest.fixture(scope="module")
def running(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProxiesUnderTest]:
    with ThreeBookies(zookeeper, tmp_path_factory.mktemp("cluster")) as cluster:
        made = ProxiesUnderTest(cluster)
        try:
            for each in (*made.all, made.reader):
                each.start()
            yield made
        finally:
            for each in (*made.all, made.reader):
                each.close()


@pytest.fixture
def proxies(running: ProxiesUnderTest) -> Iterator[ProxiesUnderTest]:
    """Proxies that own nothing and take streams."""
    yield running
    running.clear()


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await story()

    asyncio.run(main())


async def code_of(ask: ProxyCalls, stream: str) -> int:
    code: int = (await ask("write", WriteRequest(stream=stream, payload=b"a"))).header.code
    return code


async def until(ask: ProxyCalls, stream: str, code: int) -> None:
    """Ask until a proxy has heard of a change."""
    while await code_of(ask, stream) != code:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


def test_streams_are_seen_and_moved(proxies: ProxiesUnderTest) -> None:
    one, two, three = (each.at for each in proxies.all)

    async def fill() -> None:
        async with calls(one) as ask:
            for name in STREAMS:
                assert (await ask("create", StreamRequest(stream=name))).header.code == SUCCESS
                assert await code_of(ask, name) == SUCCESS

    run(fill)
    rows = parsed("proxy", "list", "-n", proxies.namespace)
    listed = {row["proxy"]: row for row in rows if row["kind"] == "write"}
    (reader,) = (row for row in rows if row["kind"] == "read")
    assert (reader["proxy"], reader["region"]) == (proxies.reader.at, "us")
    assert (reader["status"], reader["streams"]) == ("SERVING", None)
    assert {at: (row["region"], row["shard"], row["streams"]) for at, row in listed.items()} == {
        one: ("eu", 0, 8),
        two: ("eu", 1, 0),
        three: ("us", 2, 0),
    }
    assert {row["status"] for row in listed.values()} == {"WRITE_AND_ACCEPT"}
    named = parsed("proxy", "owners", "-n", proxies.namespace, "--stream", "s[0-2]")
    assert [(row["stream"], row["proxy"]) for row in named] == [(f"s{n}", one) for n in range(3)]
    assert all(row["bytes_per_second"] >= 0 for row in named)

    planned = proxies.moves("balance", "--dry-run")
    assert [(move["target"], move["result"]) for move in planned] == [(two, "planned")] * 4
    assert proxies.owned() == {one: 8}
    moved = proxies.moves("balance")
    assert [move["stream"] for move in moved] == [move["stream"] for move in planned]
    assert {move["result"] for move in moved} == {"moved"}
    assert proxies.owned() == {one: 4, two: 4}
    assert proxies.moves("balance") == []

    assert proxies.proxy("accept", one, "off") == f"{one} WRITE_ONLY\n".encode()
    assert proxies.proxy("accept", one, "on") == f"{one} WRITE_AND_ACCEPT\n".encode()
    assert len(proxies.moves("balance", "--drain", one)) == 4
    assert proxies.owned() == {two: 8}

    async def refused() -> None:
        async with calls(one) as ask:
            assert await code_of(ask, "s0") in (FOUND, SERVICE_UNAVAILABLE)
            await until(ask, "s0", SERVICE_UNAVAILABLE)

    run(refused)
    proxies.proxy("accept", one, "on")
    across = ("--region-from", "eu", "--region-to", "us", "--tolerance", "0", "--by", "count")
    assert len(proxies.moves("balance", *across)) == 3
    assert proxies.owned() == {two: 5, three: 3}
    assert len(proxies.moves("balance", "--max-moves", "1", "--rate", "0")) == 1
    assert proxies.proxy("release", "s0", "s0", "nothing-of-this-name") == b""
    assert sum(proxies.owned().values()) == 7


def test_a_region_is_stopped_drained_and_started(proxies: ProxiesUnderTest) -> None:
    one, two, three = (each.at for each in proxies.all)
    there = ("-n", proxies.namespace)
    regional = ["r0", "r1", "r2", "r3", "r4"]

    async def fill() -> None:
        async with calls(three) as ask:
            for name in regional:
                assert (await ask("create", StreamRequest(stream=name))).header.code == SUCCESS
            for name in regional[:3]:
                assert await code_of(ask, name) == SUCCESS

    async def stopped() -> None:
        async with calls(three) as ask:
            await until(ask, "r3", REGION_UNAVAILABLE)
            assert await code_of(ask, "r0") == SUCCESS

    async def elsewhere() -> None:
        async with ThinClient(proxies.namespace, region="us", settings=SURE) as client:
            await client.write("r4", b"a")
            assert await client.owner("r4") in (one, two)

    async def started() -> None:
        async with calls(three) as ask:
            await until(ask, "r3", SUCCESS)
        async with ThinClient(proxies.namespace, region="us", settings=SURE) as client:
            await client.create("r5")
            await client.write("r5", b"a")
            assert await client.owner("r5") == three

    run(fill)
    assert output("region", "stop", "us", *there) == b"region us takes no new stream\n"
    run(stopped)
    run(elsewhere)
    status = {row["proxy"]: row["status"] for row in parsed("proxy", "list", *there)}
    assert status[three] == "WRITE_AND_ACCEPT REGION_STOPPED"
    assert status[one] == "WRITE_AND_ACCEPT"
    assert len(parsed("region", "drain", "us", *there, "--dry-run")) == 3
    moved = parsed("region", "drain", "us", *there)
    assert {move["result"] for move in moved} == {"moved"}
    assert proxies.owned()[three] == 0
    assert sum(proxies.owned().values()) == 4
    output("region", "start", "us", *there)
    run(started)
    with sync.open_namespace(proxies.namespace) as opened:
        for name, count in zip(regional[:3], (2, 1, 1), strict=True):
            assert len(payloads_of(opened, name)) == count


def payloads_of(opened: sync.Namespace, name: str) -> list[bytes]:
    """Return what a process with a core of its own reads."""
    found: list[bytes] = []
    with opened.open_log(name).open_reader() as reader:
        while some := reader.read_bulk(100_000, timeout_s=0):  # [] is the tail
            found += [bytes(each.payload) for each in some]
    return found


def test_writers_go_on_while_their_streams_move(proxies: ProxiesUnderTest) -> None:
    one, two, three = (each.at for each in proxies.all)
    names = [f"w{n}" for n in range(6)]
    written = dict.fromkeys(names, 0)

    async def story() -> None:
        async with ThinClient(proxies.namespace) as client:
            for name in names:
                await client.create(name)
            is_over, moves = asyncio.Event(), 0

            async def write(name: str) -> None:
                while not is_over.is_set():
                    await client.write(name, b"%d" % written[name])
                    written[name] += 1
                    await asyncio.sleep(0.02)  # a load that leaves the machine to others

            async def move() -> None:
                nonlocal moves
                try:
                    for drained in (one, two, three):
                        command = ("balance", "--drain", drained, "--rate", "0")
                        moved = await asyncio.to_thread(proxies.moves, *command)
                        assert {each["result"] for each in moved} <= {"moved"}
                        moves += len(moved)
                        await asyncio.to_thread(proxies.proxy, "accept", drained, "on")
                finally:
                    is_over.set()

            await together([*map(write, names), move()])
            assert moves > 0

    run(story)
    assert proxies.owned()[three] == 0
    proxies.clear()
    with sync.open_namespace(proxies.namespace) as opened:
        for name in names:
            found = payloads_of(opened, name)
            assert found == [b"%d" % n for n in range(written[name])]


def test_an_interrupted_balance_says_how_far_it_came(proxies: ProxiesUnderTest) -> None:
    one, two, _ = (each.at for each in proxies.all)
    names = ["i0", "i1", "i2", "i3"]
    command = [str(TAILRACE), "proxy", "balance", "-n", proxies.namespace, "--rate", "0.001"]

    async def fill() -> None:
        async with calls(one) as ask:
            for name in names:
                assert (await ask("create", StreamRequest(stream=name))).header.code == SUCCESS
                assert await code_of(ask, name) == SUCCESS

    async def until_one_moved() -> None:
        while not await ownerships(two):  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    run(fill)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        try:
            run(until_one_moved)
            running.send_signal(signal.SIGINT)
            _, said = running.communicate(timeout=30)
        finally:
            running.kill()
    assert running.returncode == Exit.INTERRUPTED
    # The first one may have been moved and not been verified yet.
    assert re.fullmatch(r"interrupted: [01] of 2 streams moved; run it again for the rest\n", said)
    assert [move["stream"] for move in proxies.moves("balance")] == ["i1"]
    assert proxies.owned() == {one: 2, two: 2}


def test_what_is_refused(proxies: ProxiesUnderTest) -> None:
    one, two, three = (each.at for each in proxies.all)
    there = ("-n", proxies.namespace)
    said = refusal(Exit.FAILED, "proxy", "accept", "nowhere:1", "on", *there)
    assert "no write proxy is registered as nowhere:1" in said
    assert one in said
    assert "neither on nor off" in refusal(Exit.USAGE, "proxy", "accept", one, "yes", *there)
    assert "go together" in refusal(Exit.USAGE, "proxy", "balance", "--region-to", "us", *there)
    across = ("--region-from", "eu", "--region-to", "asia")
    said = refusal(Exit.FAILED, "proxy", "balance", *across, *there)
    assert "no write proxy that answers is in region asia" in said
    assert "region us is not stopped" in refusal(Exit.FAILED, "region", "start", "us", *there)
    for at in (two, three):
        proxies.proxy("accept", at, "off")
    said = refusal(Exit.FAILED, "proxy", "balance", "--drain", one, *there)
    assert "no other write proxy takes streams" in said
    empty = (*there[:1], there[1] + "-empty")
    assert "no write proxy is registered" in refusal(Exit.UNREACHABLE, "proxy", "owners", *empty)
    assert "no such namespace" in refusal(Exit.FAILED, "region", "stop", "us", *empty)
    done = tailrace("proxy", "list", *empty)
    assert done.returncode == Exit.UNREACHABLE
