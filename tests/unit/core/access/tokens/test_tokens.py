"""Delegation tokens over a real metadata store: made, renewed, ended, removed, logged in with."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from tailrace.core.access.tokens.codec import TOKEN_CODEC, decode_token, encode_token
from tailrace.core.access.tokens.config import TokensConfig
from tailrace.core.access.tokens.token import (
    PRINCIPALS_CHARS_MAX,
    RENEWERS_MAX,
    Token,
    TokenRefused,
    Wanted,
)
from tailrace.core.access.tokens.tokens import DelegationTokens
from tailrace.core.access.users.credentials import ScramMechanism
from tailrace.core.errors import CorruptData
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.stored_entities import StoredEntities
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.config import Secret
from tailrace.protocol.errors import ErrorCode
from tests.unit.broker.loops import in_loop, until

ALICE, BOB, CAROL = "User:alice", "User:bob", "User:carol"
SECRET = "a secret of the cluster"
CONFIG = TokensConfig(secret_key=Secret(SECRET), lifetime_ms_max=1000, renewal_ms=100)
PARENT = "/delegation_tokens"


class World(NamedTuple):
    clock: ManualClock
    store: SqliteStore
    tokens: DelegationTokens
    theirs: DelegationTokens
    """Another broker's."""


@asynccontextmanager
async def world(path: Path, config: TokensConfig = CONFIG) -> AsyncIterator[World]:
    clock = ManualClock()
    store = SqliteStore(path / "metadata.db", clock)
    both = [
        DelegationTokens(config, StoredEntities(store, PARENT, TOKEN_CODEC), clock, Random(seed))
        for seed in (1, 2)
    ]
    try:
        for each in both:
            await each.start()
        yield World(clock, store, *both)
    finally:
        for each in both:
            await each.close()
        await store.close()


def wanted(**changed: Any) -> Wanted:
    return Wanted(
        **{"owner": ALICE, "requester": ALICE, "renewers": (BOB,), "lifetime_ms": -1, **changed}
    )


async def code_of(work: Any) -> ErrorCode:
    try:
        await work
    except TokenRefused as refused:
        return refused.code
    return ErrorCode.NONE


@in_loop
async def test_a_token_is_what_kafka_makes_of_it(tmp_path: Path) -> None:
    async with world(tmp_path) as (clock, _, tokens, _):
        now_ms = clock.now_ms()
        token = await tokens.create(wanted(renewers=(BOB, CAROL, BOB)))
        assert token == Token(
            token.token_id, ALICE, ALICE, (BOB, CAROL), now_ms, now_ms + 100, now_ms + 1000
        )
        assert len(base64.urlsafe_b64decode(token.token_id + "==")) == 16
        expected = hmac.new(SECRET.encode(), token.token_id.encode(), hashlib.sha512).digest()
        assert tokens.hmac_of(token.token_id) == expected
        short = await tokens.create(wanted(lifetime_ms=50))
        assert (short.expires_ms, short.ends_ms) == (now_ms + 50, now_ms + 50)
        long = await tokens.create(wanted(lifetime_ms=5000))
        assert long.ends_ms == now_ms + 1000
        assert len({token.token_id, short.token_id, long.token_id}) == 3


@in_loop
async def test_renewal_and_end(tmp_path: Path) -> None:
    async with world(tmp_path) as (clock, _, tokens, theirs):
        token = await tokens.create(wanted(requester=CAROL))
        key, begin_ms = tokens.hmac_of(token.token_id), clock.now_ms()
        await until(lambda: list(theirs) == [token])
        clock.advance_ms(60)
        assert await theirs.renew(key, BOB, -1) == begin_ms + 160
        assert await tokens.renew(key, ALICE, 30) == begin_ms + 90
        assert await tokens.renew(key, ALICE, 10**18) == begin_ms + 160
        assert await tokens.expire(key, BOB, 40) == begin_ms + 100
        for refused in (CAROL, "User:eve", "Group:alice", "User:Alice"):
            mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
            assert await code_of(tokens.renew(key, refused, 1)) == mismatch
            assert await code_of(tokens.expire(key, refused, -1)) == mismatch
        clock.advance_ms(41)
        expired = ErrorCode.DELEGATION_TOKEN_EXPIRED
        assert await code_of(tokens.renew(key, ALICE, 1)) == expired
        assert await code_of(tokens.expire(key, ALICE, 0)) == expired
        assert await tokens.expire(key, ALICE, -1) == clock.now_ms()  # removed all the same
        await until(lambda: not list(tokens) and not list(theirs))
        for other in (key, b"", key[:-1], bytes(64)):
            assert (
                await code_of(tokens.renew(other, ALICE, 1)) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
            )
            assert (
                await code_of(theirs.expire(other, ALICE, -1))
                == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
            )


@in_loop
async def test_a_token_cannot_be_renewed_beyond_its_end(tmp_path: Path) -> None:
    async with world(tmp_path) as (clock, _, tokens, _):
        token = await tokens.create(wanted())
        for _ in range(12):
            clock.advance_ms(80)
            expires_ms = await tokens.renew(tokens.hmac_of(token.token_id), ALICE, -1)
        assert expires_ms == token.ends_ms
        clock.advance_ms(41)
        assert tokens.bearer(ScramMechanism.SCRAM_SHA_256, token.token_id) is None


@in_loop
async def test_a_bearer_proves_itself_by_the_hmac(tmp_path: Path) -> None:
    """The credential is the one of a user with that password, on all brokers the same."""
    async with world(tmp_path) as (clock, _, tokens, theirs):
        token = await tokens.create(wanted())
        await until(lambda: bool(list(theirs)))
        password = base64.b64encode(tokens.hmac_of(token.token_id))
        for mechanism in ScramMechanism:
            found = tokens.bearer(mechanism, token.token_id)
            assert found is not None
            assert found == theirs.bearer(mechanism, token.token_id)
            assert found[0] == token
            name, (salt, stored, server, iterations) = mechanism.hash_name, found[1]
            salted = hashlib.pbkdf2_hmac(name, password, salt, iterations)
            assert stored == hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
            assert server == hmac.digest(salted, b"Server Key", name)
        assert tokens.bearer(ScramMechanism.SCRAM_SHA_256, "another") is None
        clock.advance_ms(101)
        assert tokens.bearer(ScramMechanism.SCRAM_SHA_256, token.token_id) is None
        assert len(list(tokens)) == 1  # it is not removed yet, and lets nobody in


@in_loop
async def test_an_ended_token_lets_nobody_in_on_any_broker(tmp_path: Path) -> None:
    async with world(tmp_path) as (_, _, tokens, theirs):
        token = await tokens.create(wanted())
        await until(lambda: theirs.bearer(ScramMechanism.SCRAM_SHA_512, token.token_id) is not None)
        await tokens.expire(tokens.hmac_of(token.token_id), ALICE, -1)
        await until(lambda: theirs.bearer(ScramMechanism.SCRAM_SHA_512, token.token_id) is None)


@in_loop
async def test_nothing_that_lets_in_is_stored(tmp_path: Path) -> None:
    async with world(tmp_path) as (_, store, tokens, _):
        token = await tokens.create(wanted())
        found = tokens.bearer(ScramMechanism.SCRAM_SHA_256, token.token_id)
        assert found is not None
        stored = (await store.get(f"{PARENT}/{token.token_id}")).data
    files = [each.read_bytes() for each in tmp_path.iterdir()]  # noqa: ASYNC240 - small
    written = b"".join(files) + stored
    key = tokens.hmac_of(token.token_id)
    for secret in (SECRET.encode(), key, base64.b64encode(key), key.hex().encode(), *found[1][1:3]):
        assert secret not in written
    assert token.token_id.encode() in written


@in_loop
async def test_tokens_survive_and_are_worth_nothing_under_another_secret(tmp_path: Path) -> None:
    async with world(tmp_path) as (_, _, tokens, _):
        token = await tokens.create(wanted())
        key = tokens.hmac_of(token.token_id)
    async with world(tmp_path) as (_, _, tokens, _):
        assert list(tokens) == [token]
        assert await code_of(tokens.renew(key, ALICE, 1)) == ErrorCode.NONE
    async with world(tmp_path, TokensConfig(secret_key=Secret("another"))) as (_, _, tokens, _):
        assert await code_of(tokens.renew(key, ALICE, 1)) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@in_loop
async def test_tokens_that_are_over_are_removed(tmp_path: Path) -> None:
    config = TokensConfig(secret_key=Secret(SECRET), renewal_ms=100, check_ms=1)
    async with world(tmp_path, config) as (clock, store, tokens, theirs):
        gone = [await tokens.create(wanted(lifetime_ms=50)) for _ in range(3)]
        stays = await tokens.create(wanted())
        clock.advance_ms(51)
        await until(lambda: list(tokens) == [stays] and list(theirs) == [stays])
        assert await store.children(PARENT) == [stays.token_id]
        assert gone[0] not in list(tokens)
        assert tokens.metrics.known == theirs.metrics.known == 1
        assert tokens.metrics.created_total == 4


@in_loop
async def test_what_another_broker_has_renewed_is_not_removed(tmp_path: Path) -> None:
    """Though this broker has not heard of it yet: the store is asked when it counts."""
    often = TokensConfig(secret_key=Secret(SECRET), renewal_ms=100, check_ms=1)
    async with world(tmp_path) as (clock, store, tokens, _):
        renewed, ended = await tokens.create(wanted()), await tokens.create(wanted())
        deaf = StoredEntities(store, PARENT, TOKEN_CODEC)
        late = DelegationTokens(often, deaf, clock, Random(3))
        await late.start()
        await deaf.close()  # it hears of nothing from here on
        clock.advance_ms(90)
        await tokens.renew(tokens.hmac_of(renewed.token_id), ALICE, -1)
        clock.advance_ms(20)  # by what it knows, both are over
        await until(lambda: [each.token_id for each in late] == [renewed.token_id])
        await late.close()
        assert await store.children(PARENT) == [renewed.token_id]
        assert ended.is_over(clock.now_ms())


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        (ErrorCode.INVALID_PRINCIPAL_TYPE, {"owner": "Group:alice"}),
        (ErrorCode.INVALID_PRINCIPAL_TYPE, {"owner": "None:alice"}),
        (ErrorCode.INVALID_PRINCIPAL_TYPE, {"renewers": (BOB, "user:carol")}),
        (ErrorCode.INVALID_REQUEST, {"renewers": (BOB,) * (RENEWERS_MAX + 1)}),
        (ErrorCode.INVALID_REQUEST, {"owner": "User:" + "a" * PRINCIPALS_CHARS_MAX}),
        (ErrorCode.NONE, {"renewers": tuple(f"User:{n}" for n in range(RENEWERS_MAX))}),
        (ErrorCode.NONE, {"owner": "User:Ä:\0/", "renewers": ()}),
    ],
)
def test_what_is_asked_for_is_checked(
    code: ErrorCode, changed: dict[str, Any], tmp_path: Path
) -> None:
    async def run() -> None:
        async with world(tmp_path) as (_, _, tokens, _):
            assert await code_of(tokens.create(wanted(**changed))) == code
            assert len(list(tokens)) == (code is ErrorCode.NONE)

    asyncio.run(run())


@in_loop
async def test_one_user_cannot_take_all_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "tailrace.core.access.tokens.tokens"
    monkeypatch.setattr(f"{module}.REQUESTER_TOKENS_MAX", 2)
    monkeypatch.setattr(f"{module}.TOKENS_MAX", 3)
    async with world(tmp_path) as (_, _, tokens, _):
        codes = [
            await code_of(tokens.create(wanted(requester=each)))
            for each in (ALICE, ALICE, ALICE, BOB, CAROL)
        ]
        full = ErrorCode.POLICY_VIOLATION
        assert codes == [0, 0, full, 0, full]


@in_loop
async def test_without_a_secret_there_are_none(tmp_path: Path) -> None:
    async with world(tmp_path, TokensConfig()) as (_, store, tokens, _):
        disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        assert await code_of(tokens.create(wanted())) == disabled
        assert await code_of(tokens.renew(b"", ALICE, 1)) == disabled
        assert await code_of(tokens.expire(b"", ALICE, 1)) == disabled
        assert tokens.bearer(ScramMechanism.SCRAM_SHA_256, "") is None
        assert await store.exists(PARENT) is None


TOKEN = Token("id", ALICE, CAROL, (BOB,), 1, 2, 3)


def test_a_node_is_read_as_it_was_written() -> None:
    data = encode_token(TOKEN)
    assert decode_token("/at", data) == TOKEN
    assert data == (
        b'{"version":1,"token_id":"id","owner":"User:alice","requester":"User:carol",'
        b'"renewers":["User:bob"],"issued_ms":1,"expires_ms":2,"ends_ms":3}'
    )


@pytest.mark.parametrize(
    "damage",
    [
        (b'"version":1', b'"version":2'),
        (b"3}", b"-3}"),
        (b"3}", b"3"),
        (b'["User:bob"]', b"7"),
        (b"id", b"\xff"),
    ],
)
def test_a_node_that_is_not_one_is_corrupt(damage: tuple[bytes, bytes]) -> None:
    with pytest.raises(CorruptData):
        decode_token("/at", encode_token(TOKEN).replace(*damage))
