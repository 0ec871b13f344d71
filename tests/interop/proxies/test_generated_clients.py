"""Clients in Go, Java and Node, generated from the .proto files; grpcurl, which asks for them."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

import pytest

from tailrace.protocol.proxy.common_pb2 import SUCCESS
from tailrace.protocol.proxy.write_proxy_pb2 import HeartbeatRequest, StreamRequest
from tests.cluster.three_bookies import SESSION_MS, ThreeBookies
from tests.interop.proxies.programs import go_programs, java_program, node_program
from tests.proxy_client import calls
from tests.proxy_process import ReadProxyUnderTest, WriteProxyUnderTest
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.interop, pytest.mark.java]  # Java: of ZooKeeper

RECORDS: Final = 101
"""What each client writes: one by a call, 100 by a stream of calls."""
_RUN_WITHIN_S: Final = 60
_numbers = count()


class Proxies(NamedTuple):
    """Two write proxies and a read proxy of a namespace on three bookies."""

    owner: WriteProxyUnderTest
    other: WriteProxyUnderTest
    read: ReadProxyUnderTest

    def owned_stream(self) -> str:
        """Return a new stream that `owner` owns."""
        stream = f"generated-{next(_numbers)}"

        async def own() -> None:
            async with calls(self.owner.at) as ask:
                for method, request in (
                    ("create", StreamRequest(stream=stream)),
                    ("heartbeat", HeartbeatRequest(stream=stream)),
                ):
                    answer = await ask(method, request)
                    assert answer.header.code == SUCCESS, answer

        asyncio.run(own())
        return stream


@pytest.fixture(scope="module")
def proxies(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxies]:
    with ThreeBookies(zookeeper, tmp_path_factory.mktemp("cluster")) as cluster:
        at = (cluster.metadata, cluster.namespace)
        session = ("--set", f"zkSessionTimeout={SESSION_MS}")
        made = Proxies(
            WriteProxyUnderTest(*at, 0, *session),
            WriteProxyUnderTest(*at, 1, *session),
            ReadProxyUnderTest(*at, 0, *session),
        )
        try:
            for each in made:
                each.start()
            yield made
        finally:
            for each in made:
                each.close()


def output_of(command: Sequence[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_RUN_WITHIN_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("language", "program"),
    [
        ("go", lambda: go_programs()["client"]),
        ("java", java_program),
        ("node", node_program),
    ],
)
def test_it_writes_is_redirected_and_reads(
    proxies: Proxies, language: str, program: Callable[[], list[str]]
) -> None:
    command = program()
    stream = proxies.owned_stream()
    printed = output_of([*command, proxies.other.at, proxies.read.at, stream]).splitlines()
    assert printed == [
        f"redirected to {proxies.owner.location}",
        f"owner {proxies.owner.at}",
        *(f"read {language} {number}" for number in range(RECORDS)),
    ]


def grpcurl(host: str, *words: str, data: dict[str, Any] | None = None) -> str:
    request = ["-d", json.dumps(data)] if data is not None else []
    return output_of([*go_programs()["grpcurl"], "-plaintext", *request, host, *words])


def test_grpcurl_lists_and_calls_by_reflection(proxies: Proxies) -> None:
    write, read, health = (
        "tailrace.proxy.v1.WriteProxy",
        "tailrace.proxy.v1.ReadProxy",
        "grpc.health.v1.Health",
    )
    assert {write, health} <= set(grpcurl(proxies.owner.at, "list").split())
    assert {read, health} <= set(grpcurl(proxies.read.at, "list").split())
    assert f"{write}.WriteStream" in grpcurl(proxies.owner.at, "list", write).split()
    stream = proxies.owned_stream()
    data = {"stream": stream, "payload": "aGVsbG8="}
    written = json.loads(grpcurl(proxies.owner.at, f"{write}/Write", data=data))
    assert written["header"]["code"] == "SUCCESS"
    data = {"stream": stream, "edge": "OLDEST", "records_max": 1, "tail": True}
    # A response a document; one without a record may come first, as the reader waits at the tail.
    responses = grpcurl(proxies.read.at, f"{read}/Read", data=data).replace("}\n{", "},\n{")
    found = json.loads(f"[{responses}]")
    (record,) = [each for response in found for each in response.get("records", ())]
    assert record["payload"] == "aGVsbG8="
    assert record["dlsn"] == written["dlsn"]
    serving = json.loads(grpcurl(proxies.read.at, f"{health}/Check", data={"service": read}))
    assert serving == {"status": "SERVING"}
