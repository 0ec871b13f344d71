"""Who may ask what over HTTP: a row a path, and one answer whether a topic is there or not."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tailrace.broker.http_access import NEEDS, HttpAccess
from tailrace.broker.http_admin import BrokerHttp
from tailrace.compaction.cleaner.config import CleanerConfig
from tailrace.compaction.cleaner.pool import CleanerPool
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.access.audit import Audit, AuditLevel
from tailrace.core.access.authorization_header import basic_header
from tailrace.core.access.callers import Callers, Means
from tailrace.core.access.requester import Requester
from tailrace.core.errors import OverCapacity
from tailrace.core.runtime.http import HttpHead, HttpReply, HttpServer
from tailrace.core.runtime.metrics import Metrics
from tests.unit.broker.fakes import make_world
from tests.unit.compaction.cleaner.computing import InlineComputer

HOST = "10.0.0.1"
WITHIN_S = 30
ALICE = basic_header("alice", "right")
CLUSTER = (ResourceType.CLUSTER, "kafka-cluster")
TABLE = {
    "GET /health": (Operation.DESCRIBE, *CLUSTER),
    "GET /metrics": (Operation.DESCRIBE, *CLUSTER),
    "GET /cleaner": (Operation.DESCRIBE, *CLUSTER),
    "GET /cleaner/plan": (Operation.DESCRIBE, *CLUSTER),
    "PUT /cleaner/run": (Operation.ALTER, *CLUSTER),
    "PUT /cleaner/pause": (Operation.ALTER, *CLUSTER),
    "PUT /cleaner/resume": (Operation.ALTER, *CLUSTER),
    "GET /topics/{topic}/stats": (Operation.DESCRIBE, ResourceType.TOPIC, "t"),
    "GET /topics/{topic}/latest": (Operation.READ, ResourceType.TOPIC, "t"),
}


class OnePassword:
    async def is_right(self, user: str, password: str) -> bool:
        if user == "crowd":
            raise OverCapacity("too many passwords are being checked")
        return (user, password) == ("alice", "right")


class Only:
    """Allows one thing, to one."""

    version = 0

    def __init__(self, allowed: Any = None) -> None:
        self.allowed = allowed

    def allows(
        self, requester: Requester, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        asked = (operation, resource_type, name)
        return requester == Requester("User:alice", HOST) and asked == self.allowed

    def allows_any(self, *_: Any) -> bool:
        raise AssertionError("no path asks it")


def access(only: Only | None, *open_paths: str) -> HttpAccess:
    callers = Callers(Means(OnePassword()), lambda: 0)
    return HttpAccess(callers, lambda: only, open_paths)


def head(route: str, authorization: str | None = ALICE, topic: str = "t") -> HttpHead:
    method, path = route.split(" ")
    names = {"topic": topic} if "{topic}" in path else {}
    return HttpHead((method, path), names, HOST, authorization, None)


def status(found: Any) -> int:
    return 200 if found is None else found.status


def test_every_path_has_its_row() -> None:
    async def run() -> None:
        world = make_world()
        pool = CleanerPool(lambda: None, world.clock, CleanerConfig(), InlineComputer)  # type: ignore[arg-type,return-value]  # never asked
        routes = BrokerHttp(world.broker, pool, Metrics()).routes()
        assert set(routes) == set(NEEDS)
        assert set(NEEDS) == {tuple(each.split(" ")) for each in TABLE}

    asyncio.run(run())


@pytest.mark.parametrize("route", TABLE)
def test_a_path_needs_one_operation_and_no_other_does(route: str) -> None:
    async def run() -> None:
        for other, allowed in TABLE.items():
            found = await access(Only(allowed)).refusal(head(route))
            assert status(found) == (200 if allowed == TABLE[route] else 403), other

    asyncio.run(run())


@pytest.mark.parametrize("route", TABLE)
def test_who_does_not_say_who_it_is_gets_401_everywhere(route: str) -> None:
    async def run() -> None:
        for header in (None, basic_header("alice", "wrong"), basic_header("bob", "x"), "Bearer a"):
            for authorizer in (None, Only(TABLE[route])):
                found = await access(authorizer).refusal(head(route, header))
                assert found is not None
                assert found.status == 401
                assert found.headers["WWW-Authenticate"] == 'Basic realm="tailrace"'

    asyncio.run(run())


def test_open_paths_need_nothing_and_others_still_do() -> None:
    async def run() -> None:
        door = access(Only(), "/health", "/metrics")
        for route in TABLE:
            is_open = route in ("GET /health", "GET /metrics")
            assert status(await door.refusal(head(route, None))) == (200 if is_open else 401)

    asyncio.run(run())


def test_a_refusal_says_the_same_of_any_topic_and_an_authorizer_of_later_counts() -> None:
    async def run() -> None:
        only = Only()
        door = access(only)
        texts = {
            str((await door.refusal(head("GET /topics/{topic}/latest", topic=name))).body).replace(  # type: ignore[union-attr]
                name, "NAME"
            )
            for name in ("there", "missing")
        }
        assert len(texts) == 1
        only.allowed = (Operation.READ, ResourceType.TOPIC, "there")
        assert await door.refusal(head("GET /topics/{topic}/latest", topic="there")) is None
        assert (door.metrics.denied_total, door.metrics.unauthenticated_total) == (2, 0)

    asyncio.run(run())


def test_too_many_checks_are_429() -> None:
    async def run() -> None:
        found = await access(None).refusal(head("GET /cleaner", basic_header("crowd", "x")))
        assert found is not None
        assert (found.status, found.headers) == (429, {"Retry-After": "1"})

    asyncio.run(run())


def test_who_may_come_by_certificate_only_gets_403() -> None:
    async def run() -> None:
        by_certificate = Means(user_of_certificate=lambda _: "alice")
        door = HttpAccess(Callers(by_certificate, lambda: 0), lambda: None, ())
        asked = head("GET /cleaner", None)
        assert status(await door.refusal(asked)) == 403
        assert await door.refusal(asked._replace(certificate=b"der")) is None

    asyncio.run(run())


def test_the_audit_log_has_refusals_and_no_secret(tmp_path: Path) -> None:
    async def run() -> None:
        audit = Audit(AuditLevel.DENIED, tmp_path / "audit", lambda: 0)
        callers = Callers(Means(OnePassword()), lambda: 0)
        door = HttpAccess(callers, lambda: Only(TABLE["GET /cleaner"]), (), audit)
        for asked in (
            head("GET /cleaner", None),
            head("GET /cleaner", basic_header("alice", "hunter2")),
            head("GET /cleaner"),
            head("GET /topics/{topic}/latest"),
        ):
            await door.refusal(asked)
        await audit.close()

    asyncio.run(run())
    text = (tmp_path / "audit").read_text()
    wrong, denied = map(json.loads, text.splitlines())
    assert (wrong["event"], wrong["listener"], wrong["mechanism"]) == (
        "authentication",
        "HTTP",
        "basic",
    )
    assert (denied["principal"], denied["operation"], denied["name"], denied["api"]) == (
        "User:alice",
        "READ",
        "t",
        "GET /topics/{topic}/latest",
    )
    assert "hunter2" not in text


HOSTILE = [
    b"Authorization: Basic \xff\xfe\x00",
    b"Authorization: Basic " + b"A" * 7000,
    b"Authorization: Basic " + b"A" * 100_000,
    b"Authorization:",
    b"Authorization: Basic YWxpY2U6d3Jvbmc=\r\nAuthorization: Basic YWxpY2U6cmlnaHQ=",
    b"Authorization: Basic YWxpY2U6cmlnaHQ\r\n =",
    b"Authorization : Basic YWxpY2U6cmlnaHQ=",
    b"X: y\r\n" * 1000 + b"X: y",
]


def test_headers_of_any_kind_let_nobody_in() -> None:
    """The right password stands last, or in what is no header of HTTP's."""

    async def answer(port: int, headers: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"GET /cleaner HTTP/1.1\r\nHost: h\r\nConnection: close\r\n")
            writer.write(headers + b"\r\n\r\n")
            async with asyncio.timeout(WITHIN_S):
                return (await reader.readline())[9:12]
        finally:
            writer.close()

    async def run() -> None:
        routes = {("GET", "/cleaner"): lambda _: HttpReply("let in")}
        server = HttpServer("127.0.0.1", 0, routes, guard=access(None).refusal)
        await server.start()
        try:
            for headers in HOSTILE:
                assert await answer(server.port, headers) in (b"400", b"401", b"431"), headers[:60]
            right = f"Authorization: {ALICE}".encode()
            assert await answer(server.port, right) == b"200"
        finally:
            await server.close()

    asyncio.run(run())
