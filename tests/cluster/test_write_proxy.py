"""`tailrace proxy write` on ZooKeeper and three bookies."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from typing import Any, Final, cast

import pytest

from tailrace.dlog import sync
from tailrace.protocol.proxy.common_pb2 import FOUND, SUCCESS
from tailrace.protocol.proxy.write_proxy_pb2 import StreamRequest, WriteRequest, WriteResponse
from tests.cluster.three_bookies import SESSION_MS, ThreeBookies
from tests.proxy_client import ProxyCalls, calls, opening, records
from tests.proxy_process import WriteProxyUnderTest
from tests.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.java  # of ZooKeeper

STORY_WITHIN_S: Final = 120
RETRY_S: Final = 0.1
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


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(STORY_WITHIN_S):
            await story()

    asyncio.run(main())


async def taken_over(ask: ProxyCalls, request: Any) -> WriteResponse:
    """Write by a proxy that remembers a former owner for a while."""
    while True:
        answer = await ask("write", request)
        if answer.header.code != FOUND:
            assert answer.header.code == SUCCESS, answer
            return cast("WriteResponse", answer)
        await asyncio.sleep(RETRY_S)


def payloads_of(namespace: str, stream: str) -> list[bytes]:
    """Return what a process with a core of its own reads."""
    with sync.open_namespace(namespace) as opened, opened.open_log(stream).open_reader() as reader:
        return [bytes(each.payload) for each in reader.read_bulk(RECORDS_MAX, timeout_s=0)]


def test_a_stream_has_one_owner_and_the_others_say_where(
    cluster: ThreeBookies, proxy: Callable[..., WriteProxyUnderTest]
) -> None:
    one, two = proxy().start(), proxy().start()

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
            assert one.stop() == 0
            await taken_over(other, request)

    run(story)
    assert two.stop() == 0
    assert payloads_of(cluster.namespace, "s") == [b"a", b"b", b"c", b"d", b"a"]
