"""Delegation tokens answer what Kafka 4.3.1's own controller answers, step by step."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from tailrace.core.access.tokens.codec import TOKEN_CODEC
from tailrace.core.access.tokens.config import TokensConfig
from tailrace.core.access.tokens.token import TokenRefused, Wanted
from tailrace.core.access.tokens.tokens import DelegationTokens
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.stored_entities import StoredEntities
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.config import Secret
from tests.java.peers import LinePeer

pytestmark = pytest.mark.java

STEPS: Final = 250
SECRET: Final = "the secret"
LIFETIME_MS, RENEWAL_MS = 1000, 100
USERS: Final = ("alice", "bob", "carol")
PERIODS_MS: Final = (-1, -1, 0, 1, 40, 100, 101, 1000, 1001, (1 << 63) - 1, -(1 << 63))

Pair = tuple[str, str]
"""The same token's ids, ours and theirs."""


@pytest.fixture(scope="module")
def peer() -> Iterator[LinePeer]:
    """One JVM with Kafka's controller; see kafka/TokenPeer.java."""
    peer = LinePeer("kafka", "TokenPeer")
    yield peer
    peer.close()


def test_every_step_is_kafkas(peer: LinePeer, tmp_path: Path) -> None:
    asyncio.run(_run(peer, tmp_path))


async def _run(peer: LinePeer, path: Path) -> None:
    def theirs(op: str, **fields: Any) -> dict[str, Any]:
        asked = {"id": 0, "op": op, "now_ms": clock.now_ms(), **fields}
        answer: dict[str, Any] = json.loads(peer.line(json.dumps(asked)))
        assert "error" not in answer, answer
        return answer

    random, clock = Random(48), ManualClock()
    store = SqliteStore(path / "metadata.db", clock)
    config = TokensConfig(
        secret_key=Secret(SECRET), lifetime_ms_max=LIFETIME_MS, renewal_ms=RENEWAL_MS
    )
    tokens = DelegationTokens(config, StoredEntities(store, "/tokens", TOKEN_CODEC), clock, random)
    theirs("configure", secret=SECRET, lifetime_ms=LIFETIME_MS, renewal_ms=RENEWAL_MS)
    pairs: list[Pair] = [("no such", "no such")]
    codes = []
    await tokens.start()
    try:
        for _ in range(STEPS):
            clock.advance_ms(random.choice((0, 1, 20, 99, 100, 101)))
            principal, period_ms = random.choice(USERS), random.choice(PERIODS_MS)
            op = random.choice(("create", "renew", "renew", "expire"))
            if op == "create":
                owner, renewers = random.choice((principal, *USERS)), random.sample(USERS, 1)
                asked = {"principal": principal, "owner": owner, "renewers": renewers}
                answer = theirs(op, **asked, period_ms=period_ms)
                pairs.append(await _made(tokens, asked, period_ms, answer))
                continue
            mine, other = random.choice(pairs[:1] + pairs[-3:])
            answer = theirs(op, principal=principal, token_id=other, period_ms=period_ms)
            work = tokens.renew if op == "renew" else tokens.expire
            found = await _outcome(work(tokens.hmac_of(mine), f"User:{principal}", period_ms))
            assert found == (answer["code"], answer["expires_ms"])
            codes.append(answer["code"])
    finally:
        await tokens.close()
        await store.close()
    assert set(codes) == {0, 62, 63, 66}


async def _made(
    tokens: DelegationTokens, asked: dict[str, Any], period_ms: int, answer: dict[str, Any]
) -> Pair:
    renewers = tuple(f"User:{each}" for each in asked["renewers"])
    wanted = Wanted(f"User:{asked['owner']}", f"User:{asked['principal']}", renewers, period_ms)
    token = await tokens.create(wanted)
    times = (token.issued_ms, token.expires_ms, token.ends_ms)
    assert times == (answer["issued_ms"], answer["expires_ms"], answer["ends_ms"])
    theirs = answer["token_id"]
    assert hmac.new(SECRET.encode(), theirs.encode(), hashlib.sha512).hexdigest() == answer["hmac"]
    assert tokens.hmac_of(theirs).hex() == answer["hmac"]
    assert len(theirs) == len(token.token_id)
    return token.token_id, theirs


async def _outcome(work: Any) -> tuple[int, int]:
    try:
        return 0, await work
    except TokenRefused as refused:
        return refused.code, 0
