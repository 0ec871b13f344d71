"""`tailrace proxy write` on ZooKeeper and three bookies."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from urllib.request import urlopen

import grpc
import pytest

from tailrace import dlog
from tailrace.core.metadata.layout import LogPaths
from tailrace.dlog import sync
from tailrace.protocol.proxy.common_pb2 import (
    FOUND,
    REQUEST_DENIED,
    SERVICE_UNAVAILABLE,
    STREAM_UNAVAILABLE,
    SUCCESS,
)
from tailrace.protocol.proxy.read_proxy_pb2 import ReadRequest
from tailrace.protocol.proxy.write_proxy_pb2 import StreamRequest, WriteRequest, WriteResponse
from tests.certificates import Authority
from tests.cluster.cli import output
from tests.cluster.load import TOPIC, create_topic
from tests.cluster.three_bookies import SESSION_MS, ThreeBookies
from tests.ports import free_port
from tests.proxy_client import READ_PROXY, ProxyCalls, calls, opening, records
from tests.proxy_process import ReadProxyUnderTest, WriteProxyUnderTest
from tests.zookeeper import ZooKeeperServer

T = TypeVar("T")

pytestmark = pytest.mark.java  # of ZooKeeper

STORY_WITHIN_S: Final = 120
RETRY_S: Final = 0.1
STREAMS: Final = 6
RECORDS_MAX: Final = 1_000_000


@pytest.fixture(scope="module")
def cluster(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreeBookies]:
    with ThreeBookies(zookeeper, tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def proxy(cluster: ThreeBookies) -> Iterator[Callable[..., WriteProxyUnderTest]]:
    made: list[WriteProxyUnderTest] = []
    shards = count()

    def make(*arguments: str) -> WriteProxyUnderTest:
        session = ("--set", f"zkSessionTimeout={SESSION_MS}")
        made.append(
            WriteProxyUnderTest(
                cluster.metadata, cluster.namespace, next(shards), *session, *arguments
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


def run(story: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def main() -> T:
        async with asyncio.timeout(STORY_WITHIN_S):
            return await story()

    return asyncio.run(main())


async def taken_over(ask: ProxyCalls, request: Any) -> WriteResponse:
    """Write by a proxy that remembers a former owner for a while."""
    while True:
        answer = await ask("write", request)
        if answer.header.code != FOUND:
            assert answer.header.code == SUCCESS, answer
            return cast("WriteResponse", answer)
        await asyncio.sleep(RETRY_S)


def get(url: str) -> str:
    with urlopen(url, timeout=STORY_WITHIN_S) as answer:
        text: str = answer.read().decode()
        return text


def payloads_of(namespace: str, stream: str) -> list[bytes]:
    """Return what a process with a core of its own reads."""
    with sync.open_namespace(namespace) as opened, opened.open_log(stream).open_reader() as reader:
        found: list[bytes] = []
        while some := reader.read_bulk(RECORDS_MAX, timeout_s=0):  # [] is the tail
            found += [bytes(each.payload) for each in some]
        return found


def test_a_stream_has_one_owner_and_the_others_say_where(
    cluster: ThreeBookies, proxy: Callable[..., WriteProxyUnderTest]
) -> None:
    port = free_port()
    http = ("--set", "httpServerEnabled=true", "--set", f"httpServerPort={port}")
    one, two = proxy(*http).start(), proxy().start()

    async def story() -> None:
        async with calls(one.at) as ask, calls(two.at) as other:
            request = WriteRequest(stream="s", payload=b"a")
            assert (await ask("create", StreamRequest(stream="s"))).header.code == SUCCESS
            assert (await ask("write", request)).dlsn.log_segment_sequence_number == 1
            header = (await other("write", request)).header
            assert (header.code, header.location) == (FOUND, one.location)
            requests = [opening("s"), records(1, [b"b", b"c"]), records(2, [b"d"])]
            answers = [each async for each in ask.stream("write_stream", requests)]
            assert [(each.id, len(each.dlsns)) for each in answers] == [(0, 0), (1, 2), (2, 1)]
            metrics = await asyncio.to_thread(get, f"http://127.0.0.1:{port}/metrics")
            assert "proxy_streams_acquired 1.0" in metrics
            assert one.stop() == 0
            await taken_over(other, request)

    run(story)
    assert two.stop() == 0
    assert payloads_of(cluster.namespace, "s") == [b"a", b"b", b"c", b"d", b"a"]


class Writer:
    """A client of one stream that asks the proxies in turn, and keeps what was acknowledged."""

    def __init__(self, stream: str, proxies: list[ProxyCalls]) -> None:
        self.stream = stream
        self.acknowledged: list[bytes] = []
        self._proxies = proxies
        self._attempts = 0

    async def write(self, records: int) -> None:
        """Write until so many more are acknowledged; the story's time bounds it."""
        wanted = len(self.acknowledged) + records
        while len(self.acknowledged) < wanted:
            self._attempts += 1
            payload = b"%d" % self._attempts
            try:
                answer = await self._proxies[0](
                    "write", WriteRequest(stream=self.stream, payload=payload)
                )
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
            else:
                if answer.header.code == SUCCESS:
                    self.acknowledged.append(payload)
                    continue
            self._proxies = self._proxies[::-1]
            await asyncio.sleep(RETRY_S)


def test_a_read_proxy_tells_what_a_write_proxy_wrote(
    cluster: ThreeBookies, proxy: Callable[..., WriteProxyUnderTest]
) -> None:
    one = proxy().start()
    other = ReadProxyUnderTest(cluster.metadata, cluster.namespace, 0).start()

    async def story() -> None:
        async with calls(one.at) as ask, calls(other.at, READ_PROXY) as reads:
            await ask("create", StreamRequest(stream="read"))
            call = reads.stream("read", ReadRequest(stream="read", tail=True, records_max=2))
            for payload in (b"a", b"b"):
                header = (await ask("write", WriteRequest(stream="read", payload=payload))).header
                assert header.code == SUCCESS
            found = [record.payload async for each in call for record in each.records]
            assert found == [b"a", b"b"]

    try:
        run(story)
        assert other.stop() == one.stop() == 0
        assert "Traceback" not in other.output
    finally:
        other.close()


def test_another_proxy_takes_over_from_one_that_is_killed(
    cluster: ThreeBookies, proxy: Callable[..., WriteProxyUnderTest]
) -> None:
    replicated = ("bkcEnsembleSize=3", "bkcWriteQuorumSize=3", "bkcAckQuorumSize=2")
    settings = [part for each in replicated for part in ("--set", each)]
    one, two = proxy(*settings).start(), proxy(*settings).start()
    names = [f"killed-{number}" for number in range(STREAMS)]

    async def story() -> list[Writer]:
        async with calls(one.at) as first, calls(two.at) as second:
            for name in names:
                assert (await first("create", StreamRequest(stream=name))).header.code == SUCCESS
            writers = [Writer(name, [first, second]) for name in names]
            await asyncio.gather(*(each.write(20) for each in writers))
            owners = [await first("get_owner", StreamRequest(stream=name)) for name in names]
            assert {each.header.location for each in owners} == {one.location}
            await asyncio.gather(
                asyncio.to_thread(one.kill), *(each.write(100) for each in writers)
            )
            owners = [await second("get_owner", StreamRequest(stream=name)) for name in names]
            assert {each.header.location for each in owners} == {two.location}
            one.start()  # though its former session's registration and locks may be there
            await asyncio.gather(*(each.write(5) for each in writers))
            return writers

    writers = run(story)
    assert one.stop() == two.stop() == 0
    for writer in writers:
        written = payloads_of(cluster.namespace, writer.stream)
        assert [each for each in written if each in set(writer.acknowledged)] == (
            writer.acknowledged
        ), "each once, and in order"


def test_a_write_stream_is_answered_while_the_proxy_stops(
    cluster: ThreeBookies, proxy: Callable[..., WriteProxyUnderTest]
) -> None:
    one = proxy("--set", "proxy.stop.grace.ms=60000").start()

    async def story() -> tuple[int, int]:
        sent = durable = 0
        async with calls(one.at) as ask:
            await ask("create", StreamRequest(stream="silent"))
            silent = ask.stream("write_stream", None)
            await silent.write(opening("silent"))
            assert (await silent.read()).header.code == SUCCESS
            await ask("create", StreamRequest(stream="drained"))
            call = ask.stream("write_stream", None)
            await call.write(opening("drained"))
            assert (await call.read()).header.code == SUCCESS
            stopping = asyncio.create_task(asyncio.to_thread(one.stop))
            code = SUCCESS
            while code == SUCCESS:
                sent += 1
                await call.write(records(sent, [b"%d" % sent]))
                answer = await call.read()
                assert answer.id == sent
                code = answer.header.code
                durable += len(answer.dlsns)
            assert code in (SERVICE_UNAVAILABLE, STREAM_UNAVAILABLE)
            assert await silent.read() is grpc.aio.EOF
            assert await stopping == 0
        return sent, durable

    sent, durable = run(story)
    assert durable == sent - 1
    written = payloads_of(cluster.namespace, "drained")
    assert written == [b"%d" % number for number in range(1, sent)]


def test_a_restarted_proxy_waits_for_its_former_session(
    cluster: ThreeBookies, proxy: Callable[..., WriteProxyUnderTest]
) -> None:
    """Its locks are its own for a while: that neither ends it nor loses anything."""
    former = proxy("--set", "zkSessionTimeout=60000").start()  # longer than any start takes
    one = proxy("--shard", str(former.shard), "--set", "zkSessionTimeout=6000")
    one.at = former.at
    request = WriteRequest(stream="restarted", payload=b"a")

    async def first() -> None:
        async with calls(former.at) as ask:
            await ask("create", StreamRequest(stream="restarted"))
            assert (await ask("write", request)).header.code == SUCCESS

    async def second() -> None:
        async with calls(one.at) as ask:
            assert (await ask("write", request)).header.code == STREAM_UNAVAILABLE
            lock = LogPaths(cluster.namespace_root, "restarted").lock
            await asyncio.to_thread(cluster.drop_lock, lock)
            while (header := (await ask("write", request)).header).code != SUCCESS:
                assert header.code == STREAM_UNAVAILABLE, header
                await asyncio.sleep(RETRY_S)

    run(first)
    former.kill()
    one.start()
    run(second)
    assert "lock_of_this_proxy" in one.output
    assert "location_in_use" not in one.output
    assert one.stop() == 0
    assert payloads_of(cluster.namespace, "restarted") == [b"a", b"a"]


def test_of_two_proxies_with_one_location_the_second_ends(
    cluster: ThreeBookies, proxy: Callable[..., WriteProxyUnderTest]
) -> None:
    one = proxy().start()
    assert one.named_at == one.at
    two = proxy("--advertise", one.at, "--shard", "0").start()
    assert two.named_at == one.at
    request = WriteRequest(stream="contested", payload=b"a")

    async def story() -> None:
        async with calls(one.at) as ask, calls(two.at) as other:
            await ask("create", StreamRequest(stream="contested"))
            assert (await ask("write", request)).header.code == SUCCESS
            while two.is_running:
                try:
                    header = (await other("write", request)).header
                except grpc.aio.AioRpcError:
                    break
                assert header.code in (STREAM_UNAVAILABLE, SERVICE_UNAVAILABLE), header
                await asyncio.sleep(RETRY_S)
            assert (await ask("write", request)).header.code == SUCCESS

    run(story)
    assert two.end(None) == 1
    assert "location_in_use stream=contested" in two.output
    assert one.stop() == 0
    assert payloads_of(cluster.namespace, "contested") == [b"a", b"a"]


def test_a_topics_partitions_are_left_to_kafkas_clients(
    cluster: ThreeBookies, proxy: Callable[..., WriteProxyUnderTest]
) -> None:
    """Of brokers in the same namespace, which name themselves in locks as proxies do."""
    broker = cluster.broker().start()
    create_topic(broker.bootstrap, replication_factor=1)
    broker.stop()
    one = proxy().start()

    async def story() -> None:
        async with calls(one.at) as ask:
            header = (await ask("write", WriteRequest(stream=f"{TOPIC}-0", payload=b"a"))).header
            assert header.code == REQUEST_DENIED
            assert TOPIC in header.error

    run(story)


def test_what_a_start_cannot_do_is_named(
    cluster: ThreeBookies, proxy: Callable[..., WriteProxyUnderTest]
) -> None:
    one = proxy().start()
    taken = proxy()
    taken.at = one.at
    assert "give another --listen" in taken.refused()
    nowhere = proxy("--metadata", f"{cluster.metadata}-elsewhere")
    said = nowhere.refused()
    assert "is bound to" in said
    assert "Traceback" not in said


def test_proxies_know_the_users_of_their_namespace(
    cluster: ThreeBookies, proxy: Callable[..., WriteProxyUnderTest], tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "keys")
    for user in ("alice", "bob"):
        made = ("user", "create", user, "--namespace", cluster.namespace)
        output(*made, stdin=f"{user}'s password".encode())
    secured = [
        "proxy.ssl.enable=true",
        "proxy.authentication=basic",
        f"ssl.keystore.location={authority.store('proxy', '127.0.0.1')}",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:alice",
    ]
    given = [part for each in secured for part in ("--set", each)]
    writer = proxy(*given).start()
    reader = ReadProxyUnderTest(cluster.metadata, cluster.namespace, 9, *given).start()

    def settings(user: str) -> dict[str, str]:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        password = f"{user}'s password"
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
            "ssl.truststore.location": str(authority.certificate),
            "connect.timeout.ms": "10000",
        }

    try:
        with sync.ThinClient(cluster.namespace, settings=settings("alice")) as alice:
            alice.create("guarded")
            alice.write("guarded", b"a record")
            with alice.read("guarded") as found:
                assert next(found).payload == b"a record"
        with sync.ThinClient(cluster.namespace, settings=settings("bob")) as bob:
            for refused in (
                lambda: bob.write("guarded", b"x"),
                lambda: bob.create("other"),
                lambda: bob.read_last("guarded"),
            ):
                with pytest.raises(dlog.ProxyError, match="User:bob may not"):
                    refused()
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings("alice").items()))
        listed = ("proxy", "list", "--namespace", cluster.namespace, "--json")
        rows = json.loads(output(*listed, "--command-config", str(file)))
        found = {row["proxy"]: row["status"] for row in rows}  # with those of other tests
        assert found[writer.named_at] == "WRITE_AND_ACCEPT"
        assert found[reader.named_at] == "SERVING"
    finally:
        reader.close()
