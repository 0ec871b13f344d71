"""SASL at a connection, by its bytes: what strangers get, and what they cost."""

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tailrace.broker.authentication.authentication import STRANGER_BYTES, STRANGERS_BYTES_MAX
from tailrace.broker.authentication.config import SaslConfig
from tailrace.core.access.audit import Audit, AuditLevel
from tailrace.core.access.users.credentials import (
    ScramMechanism,
    credential_from,
    salted_password,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import (
    API_VERSIONS,
    FETCH,
    METADATA,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tailrace.protocol.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.kafka.messages.metadata import MetadataRequest
from tailrace.protocol.kafka.messages.produce import ProduceRequest
from tailrace.protocol.kafka.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tailrace.protocol.kafka.messages.sasl_handshake import SaslHandshakeRequest
from tests.unit.broker.loops import until
from tests.unit.broker.wire import Served, WireClient
from tests.unit.core.access.sasl.scram_client import Client

ALL = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
ALICE = b"\0alice\0secret"


class Sasl(Served):
    """A broker with a SASL listener; alice's password is `secret`."""

    def __init__(self, *, reauth_ms: int = 0, failed_ms: int = 0, **network: Any) -> None:
        sasl = SaslConfig(mechanisms=ALL, reauth_ms_max=reauth_ms, failed_delay_ms=failed_ms)
        super().__init__(security_protocols=("PLAINTEXT:SASL_PLAINTEXT",), sasl=sasl, **network)
        self.put("alice", "secret")

    def put(self, user: str, password: str) -> None:
        made = {
            each: credential_from(
                each, salted_password(each, password.encode(), b"0" * 26, 4096), b"0" * 26, 4096
            )
            for each in ScramMechanism
        }
        self.world.broker.users._take(user, made)

    @property
    def numbers(self) -> Any:
        return self.world.broker.authentication.metrics

    async def __aexit__(self, *failure: Any) -> None:
        await super().__aexit__(*failure)
        await self.world.broker.authentication.close()


async def choose(client: WireClient, mechanism: str = "PLAIN", version: int = 1) -> int:
    request = SaslHandshakeRequest(mechanism=mechanism)
    answer = await client.ask(SASL_HANDSHAKE, version, request)
    assert tuple(answer.mechanisms) == ALL
    return answer.error_code


async def token(client: WireClient, message: bytes, version: int = 2) -> SaslAuthenticateResponse:
    request = SaslAuthenticateRequest(auth_bytes=message)
    return await client.ask(SASL_AUTHENTICATE, version, request)


async def log_in(client: WireClient, message: bytes = ALICE, version: int = 2) -> int:
    """Log in by PLAIN; return for how long. Unit: ms."""
    assert await choose(client) == 0
    answer = await token(client, message, version)
    assert (answer.error_code, answer.error_message) == (0, "")
    return answer.session_lifetime_ms


async def is_known(client: WireClient) -> bool:
    answer = await client.ask(METADATA, 9, MetadataRequest(topics=[]))
    return answer.cluster_id is not None


def in_loop(story: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        async def main() -> None:
            async with asyncio.timeout(30):
                await story()

        asyncio.run(main())

    run.__name__ = story.__name__  # type: ignore[attr-defined]
    return run


@in_loop
async def test_a_client_logs_in_as_kafkas_do() -> None:
    async with Sasl() as served:
        client = await served.client()
        wrong = await client.ask(API_VERSIONS, 3, ApiVersionsRequest())
        assert wrong.error_code == ErrorCode.INVALID_REQUEST
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        versions = await client.ask(API_VERSIONS, 3, request)
        spoken = {each.api_key: each.max_version for each in versions.api_keys}
        assert (spoken[17], spoken[36]) == (1, 2)
        assert await choose(client, "SCRAM-SHA-512") == 0
        scram = Client("sha512", "alice", "secret")
        challenge = await token(client, scram.first())
        assert challenge.session_lifetime_ms == 0
        final = await token(client, scram.final(challenge.auth_bytes))
        assert scram.is_server(final.auth_bytes)
        assert await is_known(client)
        assert served.numbers.succeeded_total == 1
        (connection,) = served.server._connections
        assert connection.info.user == "alice"
        assert connection.info.authenticated is not None
        assert connection.info.authenticated.mechanism == "SCRAM-SHA-512"


@in_loop
async def test_an_old_client_sends_bare_tokens() -> None:
    async with Sasl() as served:
        client = await served.client()
        assert await choose(client, version=0) == 0
        client.writer.write(struct.pack(">i", len(ALICE)) + ALICE)
        assert await client.receive_frame() == b""
        assert await is_known(client)
        wrong = await served.client()
        await choose(wrong, version=0)
        wrong.writer.write(b"\0\0\0\x01\0")
        assert await wrong.reader.read() == b""


@in_loop
async def test_all_that_a_client_sends_at_once_is_taken_in_order() -> None:
    """What waits behind a login is read by the limits of who is known."""
    async with Sasl() as served:
        client = await served.client()
        client.send(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        client.send(SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=ALICE))
        for _ in range(2000):
            client.send(METADATA, 9, MetadataRequest(topics=[]))
        await client.receive(SASL_HANDSHAKE, 1)
        await client.receive(SASL_AUTHENTICATE, 1)
        for _ in range(2000):
            await client.receive(METADATA, 9)


@pytest.mark.parametrize("api", [METADATA, PRODUCE, FETCH], ids=lambda api: api.name)
def test_strangers_ask_nothing(api: Api[Any, Any]) -> None:
    requests = {0: ProduceRequest(), 1: FetchRequest(), 3: MetadataRequest()}

    async def story() -> None:
        async with Sasl() as served:
            for steps in range(3):
                client = await served.client()
                if steps > 0:
                    await choose(client, "SCRAM-SHA-256")
                if steps > 1:
                    await token(client, Client("sha256", "alice", "secret").first())
                client.send(api, 9, requests[api.key])
                answered = steps > 0 and api is FETCH  # it has a place for a code
                if answered:
                    _, answer = await client.receive(api, 9)
                    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
                assert await client.reader.read() == b""
            assert served.world.broker.metrics.requests_total == 0
            assert served.numbers.failed_order_total == 3

    asyncio.run(story())


async def failure(client: WireClient, mechanism: str, user: str, password: str) -> list[object]:
    """Return all that a client hears until it is closed, but nonce and salt."""
    assert await choose(client, mechanism) == 0
    if mechanism == "PLAIN":
        answer = await token(client, f"\0{user}\0{password}".encode())
        heard: list[object] = [answer]
    else:
        scram = Client("sha256", user, password)
        challenge = await token(client, scram.first())
        nonce, salt, iterations = challenge.auth_bytes.split(b",")
        answer = await token(client, scram.final(challenge.auth_bytes))
        heard = [len(nonce), len(salt), iterations, answer]
    return [*heard, await client.reader.read()]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_an_unknown_user_hears_what_a_wrong_password_does(mechanism: str) -> None:
    async def story() -> None:
        async with Sasl() as served:
            wrong = await failure(await served.client(), mechanism, "alice", "wrong")
            unknown = await failure(await served.client(), mechanism, "nobody", "wrong")
            assert wrong == unknown
            answer = wrong[-2]
            assert isinstance(answer, SaslAuthenticateResponse)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert served.numbers.failed_credentials_total == 2

    asyncio.run(story())


@in_loop
async def test_a_mechanism_that_is_not_enabled_is_refused() -> None:
    async with Sasl() as served:
        for each in ("GSSAPI", "plain", "SCRAM-SHA-1", "", "x" * 1000, "PLAIN\0"):
            client = await served.client()
            assert await choose(client, each) == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert await client.reader.read() == b""
        assert served.numbers.failed_mechanism_total == 6


@in_loop
async def test_nothing_is_read_while_a_failure_is_delayed() -> None:
    async with Sasl(failed_ms=300) as served:
        client = await served.client()
        await choose(client)
        loop = asyncio.get_running_loop()
        client.send(SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=b"\0alice\0no"))
        await client.writer.drain()
        began_s = loop.time()
        client.send(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        _, answer = await client.receive(SASL_AUTHENTICATE, 1)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert loop.time() - began_s > 0.25
        assert await client.is_closed()


@in_loop
async def test_frames_of_strangers_are_small_and_cut_anywhere() -> None:
    async with Sasl() as served:
        large = await served.client()
        large.writer.write(struct.pack(">i", 524_289))
        assert await large.is_closed()
        assert served.numbers.failed_time_total == 0, "for its size"
        for end in range(1, 12):
            cut = await served.client()
            cut.send(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
            cut.writer.write(struct.pack(">i", 500_000) + bytes(end * 1000))
            await cut.receive(SASL_HANDSHAKE, 1)
            cut.close()
        garbage = await served.client()
        garbage.writer.write(b"\0\0\0\x04\xff\xff\xff\xff")
        assert await garbage.is_closed()
        client = await served.client()
        await log_in(client)
        big = MetadataRequest(topics=[], allow_auto_topic_creation=True)
        for _ in range(2):
            client.send(METADATA, 9, big, client_id="x" * 30_000)
            await client.receive(METADATA, 9)


@in_loop
async def test_what_strangers_keep_unfinished_has_a_bound() -> None:
    async with Sasl() as served:
        many = 60
        for _ in range(many):
            client = await served.client()
            client.writer.write(struct.pack(">i", 524_288) + bytes(60_000))
        receive = served.world.broker.authentication.receive
        await until(lambda: receive.unfinished.full)
        channels = [each._channel for each in served.server._connections]
        bodies = [each._body for each in channels if each is not None and each._body is not None]
        kept = sum(len(each.body) for each in bodies)
        assert kept <= STRANGERS_BYTES_MAX + 524_288 + many * STRANGER_BYTES
        known = await served.client()
        await log_in(known)  # what is short waits for nobody


@in_loop
async def test_who_is_not_known_in_time_is_closed() -> None:
    async with Sasl(handshake_ms_max=300) as served:
        known = await served.client()
        await log_in(known)
        clients = [await served.client() for _ in range(20)]
        for client in clients[:10]:
            await choose(client)
        for client in clients:
            assert await client.is_closed()
        assert served.numbers.failed_time_total == 20
        assert served.numbers.strangers == 0
        assert await is_known(known)


@in_loop
async def test_strangers_count_among_connections() -> None:
    async with Sasl(connections_max=5) as served:
        strangers = [await served.client() for _ in range(5)]
        one_more = await served.client()
        assert await one_more.is_closed()
        strangers.pop().close()
        await until(lambda: served.world.broker.metrics.connections == 4)
        await log_in(await served.client())


@in_loop
async def test_a_client_that_goes_while_it_logs_in_leaves_nothing() -> None:
    async with Sasl(failed_ms=10_000) as served:
        for _ in range(5):
            client = await served.client()
            await choose(client)
            client.send(SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=b"\0x\0y"))
            await client.writer.drain()
            client.close()
        await until(lambda: served.numbers.strangers == 0)


@in_loop
async def test_a_client_that_is_gone_before_its_request_is_looked_at_leaves_nothing() -> None:
    async with Sasl() as served:
        client = await served.client()
        await choose(client)
        (connection,) = served.server._connections
        door, strangers = connection._sasl, served.world.broker.authentication.strangers
        assert door is not None
        strangers.take(9)
        door.takes(memoryview(bytearray(9)))  # a task for it is there, and has not begun
        door.close()
        assert strangers.used == 0


@in_loop
async def test_who_waits_for_its_turn_to_be_read_is_not_late() -> None:
    async with Sasl(handshake_ms_max=20_000) as served:
        client = await served.client()
        await choose(client)
        (connection,) = served.server._connections
        connection.hold_back()
        connection.check(asyncio.get_running_loop().time() + 100)
        connection.let_in()
        assert (await token(client, ALICE)).error_code == 0


def fetch() -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    return FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20, topics=topics)


@in_loop
async def test_a_session_ends_with_its_time() -> None:
    """A fetch that waits is answered as if its wait were over; then the connection is closed."""
    async with Sasl(reauth_ms=700) as served:
        served.world.topics.add("t")
        await served.world.open("t")
        client = await served.client()
        assert await log_in(client) == 700
        answer = await client.ask(FETCH, 11, fetch())
        assert [each.error_code for each in answer.responses[0].partitions] == [0]
        client.send(METADATA, 9, MetadataRequest(topics=[]))
        assert await client.reader.read() == b""
        assert served.numbers.expired_total == 1


@in_loop
async def test_a_client_authenticates_again_on_its_connection() -> None:
    async with Sasl(reauth_ms=60_000) as served:
        client = await served.client()
        await log_in(client)
        assert await log_in(client) == 60_000
        assert await is_known(client)
        assert (served.numbers.succeeded_total, served.numbers.again_total) == (1, 1)
        assert await choose(client) == ErrorCode.ILLEGAL_SASL_STATE
        assert (await token(client, ALICE)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await is_known(client)


@pytest.mark.parametrize("message", [b"\0alice\0wrong", b"\0bob\0secret-of-bob"])
def test_who_authenticates_again_as_another_is_closed(message: bytes) -> None:
    async def story() -> None:
        async with Sasl(reauth_ms=60_000) as served:
            served.put("bob", "secret-of-bob")
            client = await served.client()
            await log_in(client)
            await choose(client)
            answer = await token(client, message)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await client.reader.read() == b""

    asyncio.run(story())


@in_loop
async def test_while_a_client_authenticates_again_it_asks_nothing() -> None:
    async with Sasl(reauth_ms=60_000) as served:
        for api, request in ((PRODUCE, ProduceRequest()), (METADATA, MetadataRequest())):
            client = await served.client()
            await log_in(client)
            await choose(client)
            client.send(api, 9, request)
            assert await client.reader.read() == b""


@in_loop
async def test_a_password_that_changes_or_goes_is_the_old_one_no_more() -> None:
    async with Sasl() as served:
        await log_in(await served.client())
        served.put("alice", "another")
        await log_in(await served.client(), b"\0alice\0another")
        changed = await served.client()
        await choose(changed)
        assert (await token(changed, ALICE)).error_code == 58
        served.world.broker.users._take("alice", None)
        gone = await served.client()
        await choose(gone)
        assert (await token(gone, b"\0alice\0another")).error_code == 58


@in_loop
async def test_on_a_listener_without_sasl_there_is_none() -> None:
    async with Served() as served:
        client = await served.client()
        answer = await client.ask(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await token(client, ALICE)).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await is_known(client)


def test_the_audit_log_has_who_logged_in_and_who_could_not(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "audit"
        async with Sasl() as served:
            log = served.world.broker.audit = Audit(AuditLevel.ALL, path, lambda: 0)
            await log_in(await served.client())
            wrong = await served.client()
            assert await choose(wrong) == 0
            assert (await token(wrong, b"\0alice\0not it")).error_code
            assert await choose(await served.client(), "GSSAPI")
            await log.close()
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert [(each["event"], each["mechanism"], each["result"]) for each in lines] == [
            ("authentication", "PLAIN", "ALLOWED"),
            ("authentication", "PLAIN", "DENIED"),
            ("authentication", "", "DENIED"),
        ]
        assert lines[0]["principal"] == "User:alice"
        assert "secret" not in path.read_text()
        assert "not it" not in path.read_text()

    in_loop(story)()
