"""The four APIs of delegation tokens, over a real metadata store and through the wire codec."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tailrace.broker.handlers.registry  # noqa: F401 - fills the table
from tailrace.broker.config import BrokerConfig, NetworkConfig
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers import HANDLERS
from tailrace.broker.listeners import ANONYMOUS, ConnectionInfo
from tailrace.broker.refusals import error_response
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.access.authorizer import Requester
from tailrace.core.access.sasl.mechanism import Authenticated
from tailrace.core.access.tokens.config import TokensConfig
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import SystemClock
from tailrace.core.runtime.config import Secret
from tailrace.core.security.tls_config import TlsConfig
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka import apis
from tailrace.protocol.kafka.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tailrace.protocol.kafka.header import RequestHeader
from tailrace.protocol.kafka.messages import create_delegation_token as create
from tailrace.protocol.kafka.messages import describe_delegation_token as describe
from tailrace.protocol.kafka.messages import expire_delegation_token as expire
from tailrace.protocol.kafka.messages import renew_delegation_token as renew
from tests.unit.broker.fakes import World, make_world
from tests.unit.broker.loops import in_loop

NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
TLS = TlsConfig(keystore_key=Secret("a key"), keystore_certificate_chain="its certificate")
LISTENERS = ("PLAINTEXT://127.0.0.1:1", "SSL://127.0.0.1:2")
Rule = tuple[str, Operation, ResourceType, str]


class Rules:
    """An authorizer that allows what is listed."""

    version = 0

    def __init__(self, *rules: Rule) -> None:
        self._rules = rules

    def allows(
        self, requester: Requester, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        return (requester.principal, operation, resource_type, name) in self._rules

    def allows_any(
        self, requester: Requester, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return any(
            each[:3] == (requester.principal, operation, resource_type) for each in self._rules
        )


class Door(NamedTuple):
    """How a client came in."""

    user: str
    listener: str = "SSL"
    token_id: str | None = None


ALICE, BOB, CAROL = Door("alice"), Door("bob"), Door("carol")


class Asked(NamedTuple):
    world: World

    async def __call__(self, door: Door, api: Any, request: Any, version: int | None = None) -> Any:
        """Return what a client is answered."""
        version = api.versions[-1] if version is None else version
        known = Authenticated(door.user, "SCRAM-SHA-256", token_id=door.token_id)
        connection = ConnectionInfo(
            "10.0.0.1", 5, door.listener, user=door.user, authenticated=known
        )
        header = RequestHeader(api.key, version, 1, "test")
        context = RequestContext(self.world.broker, header, connection)
        body = memoryview(bytearray(encode_request(api, version, request)))
        try:
            answer = await HANDLERS[api.key].function(context, decode_request(api, version, body))
        except KafkaError as error:
            answer = error_response(api, version, error)
        encoded = b"".join(bytes(part) for part in encode_response(api, version, answer))
        return decode_response(api, version, memoryview(encoded))

    async def made(self, door: Door, version: int | None = None, **wanted: Any) -> Any:
        renewers = [
            create.CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in wanted.pop("renewers", ())
        ]
        request = create.CreateDelegationTokenRequest(
            renewers=renewers, **{"max_lifetime_ms": -1, **wanted}
        )
        return await self(door, apis.CREATE_DELEGATION_TOKEN, request, version)

    async def shown(
        self, door: Door, owners: Sequence[str] | None = None, version: int | None = None
    ) -> Any:
        listed = owners and [
            describe.DescribeDelegationTokenOwner(principal_type="User", principal_name=each)
            for each in owners
        ]
        request = describe.DescribeDelegationTokenRequest(owners=listed)
        return await self(door, apis.DESCRIBE_DELEGATION_TOKEN, request, version)

    async def renewed(self, door: Door, key: bytes, period_ms: int = -1) -> Any:
        request = renew.RenewDelegationTokenRequest(hmac=key, renew_period_ms=period_ms)
        return await self(door, apis.RENEW_DELEGATION_TOKEN, request)

    async def expired(self, door: Door, key: bytes, period_ms: int = -1) -> Any:
        request = expire.ExpireDelegationTokenRequest(hmac=key, expiry_time_period_ms=period_ms)
        return await self(door, apis.EXPIRE_DELEGATION_TOKEN, request)


@asynccontextmanager
async def asked(path: Path, *rules: Rule, secret: str = "a secret") -> AsyncIterator[Asked]:
    config = BrokerConfig(
        tokens=TokensConfig(secret_key=Secret(secret)),
        network=NetworkConfig(listeners=LISTENERS, tls=TLS),
    )
    store = SqliteStore(path / "metadata.db", SystemClock())
    world = make_world(store=store, config=config)
    world.broker.authorizer = Rules(*rules)
    await world.broker.tokens.start()
    try:
        yield Asked(world)
    finally:
        await world.broker.tokens.close()
        await store.close()


def ids(answer: Any) -> list[str]:
    assert answer.error_code == ErrorCode.NONE
    return sorted(each.token_id for each in answer.tokens)


@in_loop
async def test_a_token_is_made_renewed_shown_and_ended(tmp_path: Path) -> None:
    async with asked(tmp_path) as ask:
        now_ms = ask.world.clock.now_ms()
        for version in apis.CREATE_DELEGATION_TOKEN.versions:
            made = await ask.made(ALICE, version, renewers=[("User", "bob")])
            assert (made.error_code, made.principal_type, made.principal_name) == (
                0,
                "User",
                "alice",
            )
            requester = (made.token_requester_principal_type, made.token_requester_principal_name)
            assert requester == (("User", "alice") if version >= 3 else ("", ""))
            assert made.hmac == ask.world.broker.tokens.hmac_of(made.token_id)
            assert made.issue_timestamp_ms == now_ms
            assert made.expiry_timestamp_ms == now_ms + 86_400_000
            assert made.max_timestamp_ms == now_ms + 604_800_000
            (shown,) = (await ask.shown(ALICE, version=version)).tokens
            assert (shown.token_id, shown.hmac) == (made.token_id, made.hmac)
            assert shown.issue_timestamp == now_ms
            assert shown.expiry_timestamp == made.expiry_timestamp_ms
            assert shown.max_timestamp == made.max_timestamp_ms
            assert [(each.principal_type, each.principal_name) for each in shown.renewers] == [
                ("User", "bob")
            ]
            assert (await ask.renewed(BOB, made.hmac, 5)).expiry_timestamp_ms == now_ms + 5
            assert (await ask.expired(ALICE, made.hmac, 3)).expiry_timestamp_ms == now_ms + 3
            assert (await ask.expired(BOB, made.hmac)).expiry_timestamp_ms == now_ms
            assert ids(await ask.shown(ALICE)) == []
            gone = (await ask.renewed(ALICE, made.hmac)).error_code
            assert gone == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize(
    "door",
    [
        Door("alice", "PLAINTEXT"),
        Door(ANONYMOUS, "PLAINTEXT"),
        Door(ANONYMOUS, "SSL"),
        Door("alice", "SSL", "a token"),
        Door("alice", "UNHEARD_OF"),
    ],
)
def test_who_does_not_prove_itself_by_its_own_secret_gets_nothing(
    door: Door, tmp_path: Path
) -> None:
    """Before all else: it does not even hear whether there are tokens."""

    async def run(secret: str, at: Path) -> None:
        async with asked(at, secret=secret) as ask:
            made = await ask.made(ALICE)
            assert (await ask.made(door)).error_code == NOT_ALLOWED
            assert (await ask.renewed(door, made.hmac)).error_code == NOT_ALLOWED
            assert (await ask.expired(door, made.hmac)).error_code == NOT_ALLOWED
            answer = await ask.shown(door)
            assert (answer.error_code, answer.tokens) == (NOT_ALLOWED, ())
            assert len(list(ask.world.broker.tokens)) == bool(secret)

    for secret in ("", "a secret"):
        folder = tmp_path / f"with {secret}"
        folder.mkdir()
        asyncio.run(run(secret, folder))


@in_loop
async def test_without_a_secret_there_are_no_tokens(tmp_path: Path) -> None:
    async with asked(tmp_path, secret="") as ask:
        disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        made = await ask.made(ALICE)
        assert (made.error_code, made.hmac, made.principal_name) == (disabled, b"", "alice")
        assert (await ask.renewed(ALICE, b"key")).error_code == disabled
        assert (await ask.expired(ALICE, b"key")).error_code == disabled
        assert (await ask.shown(ALICE)).error_code == disabled


@in_loop
async def test_a_token_for_another_needs_create_tokens(tmp_path: Path) -> None:
    rule = ("User:alice", Operation.CREATE_TOKENS, ResourceType.USER, "User:bob")
    async with asked(tmp_path, rule) as ask:
        bob = {"owner_principal_type": "User", "owner_principal_name": "bob"}
        made = await ask.made(ALICE, **bob)
        assert (made.error_code, made.principal_name) == (0, "bob")
        assert made.token_requester_principal_name == "alice"
        refused = await ask.made(CAROL, **bob)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (refused.hmac, refused.token_id) == (b"", "")
        own = await ask.made(CAROL, owner_principal_type="User", owner_principal_name="carol")
        assert own.error_code == ErrorCode.NONE
        group = await ask.made(ALICE, owner_principal_type="Group", owner_principal_name="bob")
        assert group.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert (await ask.renewed(ALICE, made.hmac)).error_code == mismatch  # as in Kafka 4.3.1
        assert ids(await ask.shown(ALICE)) == [made.token_id]
        assert (await ask.renewed(BOB, made.hmac)).error_code == ErrorCode.NONE


@in_loop
async def test_only_users_hold_tokens(tmp_path: Path) -> None:
    rule = ("User:alice", Operation.CREATE_TOKENS, ResourceType.USER, "Group:bob")
    async with asked(tmp_path, rule) as ask:
        wrong = ErrorCode.INVALID_PRINCIPAL_TYPE
        assert (await ask.made(ALICE, renewers=[("Group", "bob")])).error_code == wrong
        group = {"owner_principal_type": "Group", "owner_principal_name": "bob"}
        assert (await ask.made(ALICE, **group)).error_code == wrong
        many = [("User", "bob")] * 1000
        assert (await ask.made(ALICE, renewers=many)).error_code == ErrorCode.INVALID_REQUEST


@in_loop
async def test_who_sees_which_tokens(tmp_path: Path) -> None:
    async with asked(tmp_path) as ask:
        of_alice = (await ask.made(ALICE, renewers=[("User", "bob")])).token_id
        of_bob = (await ask.made(BOB)).token_id
        of_carol = (await ask.made(CAROL)).token_id
        assert ids(await ask.shown(ALICE)) == [of_alice]
        assert ids(await ask.shown(BOB)) == sorted([of_alice, of_bob])
        assert ids(await ask.shown(BOB, ["alice"])) == [of_alice]
        assert ids(await ask.shown(BOB, ["carol"])) == []
        assert ids(await ask.shown(BOB, [])) == []
        ask.world.broker.authorizer = Rules(
            ("User:eve", Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, of_carol),
            ("User:eve", Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob"),
        )
        assert ids(await ask.shown(Door("eve"))) == sorted([of_bob, of_carol])
        assert ids(await ask.shown(Door("eve"), ["bob"])) == [of_bob]
        ask.world.broker.authorizer = None
        assert ids(await ask.shown(Door("eve"))) == sorted([of_alice, of_bob, of_carol])
