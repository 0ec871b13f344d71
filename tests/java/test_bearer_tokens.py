"""Bearer tokens let in whom Kafka 4.3.1's own BrokerJwtValidator lets in, and as the same user."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from tailrace.core.access.oauth.claims import Bearer
from tailrace.core.access.oauth.compact import TokenRefused
from tailrace.core.access.oauth.config import OAuthConfig
from tailrace.core.access.oauth.validator import TokenValidator
from tailrace.core.runtime.clock import SystemClock
from tests.java.peers import LinePeer
from tests.unit.core.access.oauth.issuer import encoded, jwk_of, key_of, key_set, raw_token, token

pytestmark = pytest.mark.java

TOKENS: Final = 300
ISSUER: Final = "https://issuer.test"
GONE: Final = "GONE"


@pytest.fixture(scope="module")
def peer() -> Iterator[LinePeer]:
    """One JVM with Kafka's validator; see kafka/JwtPeer.java."""
    peer = LinePeer("kafka", "JwtPeer")
    yield peer
    peer.close()


def values(now_s: int) -> dict[str, list[Any]]:
    """Return what claims may be; the first is as it should be. No time is near a bound."""
    return {
        "exp": [now_s + 900, now_s - 10, now_s - 900, now_s + 90.5, GONE, None, "x", "7", True, []],
        "iat": [now_s - 5, now_s + 600, now_s + 1800, 0, GONE, None, "x", {}],
        "nbf": [GONE, now_s - 5, now_s + 10, now_s + 600, now_s + 1800, None, "x", []],
        "iss": [ISSUER, "other", "", GONE, None, 7, [ISSUER]],
        "aud": ["kafka", ["web", "kafka"], ["web"], [], "web", "", GONE, None, 7, ["kafka", 7], {}],
        "sub": ["alice", " alice ", "Ä b", "", "  ", GONE, None, 7, ["alice"], "a\0b"],
        "scope": [GONE, "a b", ["a", "b"], [], "", " ", ["a", "a"], ["a", " a"], ["a", ""], 7, {}],
        "jti": ["x", GONE, 7, None, 0, [], ""],
    }  # fmt: skip


def drawn(random: Random, now_s: int, audience: str | None) -> dict[str, Any]:
    """Return claims of which one or two are not as they should be."""
    every = values(now_s)
    every["aud"].insert(0, audience or GONE)
    odd = set(random.sample(sorted(every), random.choice((0, 1, 1, 2))))
    picked = {name: random.choice(of) if name in odd else of[0] for name, of in every.items()}
    return {name: value for name, value in picked.items() if value is not GONE}


def odd_tokens(now_s: int) -> Iterator[str]:
    """Yield tokens that are not as they should be in another way."""
    good = {"sub": "alice", "iss": ISSUER, "aud": "kafka", "iat": now_s, "exp": now_s + 900}
    yield token("RS256", good, kid="rsa")
    for header in (
        {"kid": "ec"}, {"kid": "none"}, {"crit": ["exp"], "exp": 1}, {"typ": "at+jwt"},
        {"jwk": key_of("RS256", "theirs").as_dict(private=False)}, {"zip": "DEF"},
    ):  # fmt: skip
        yield token("RS256", good, **{"kid": "rsa", **header})
    for algorithm in ("PS256", "RS512", "PS384"):
        yield token(algorithm, good, kid="rsa")  # by another key of that kind
    yield token("ES256", good, kid="ec")
    yield token("ES256", good, kid=None)
    claims = json.dumps(good).encode()
    yield raw_token(b'{"alg":"none"}', claims, b"")
    yield raw_token(b'{"alg":"HS256","kid":"rsa"}', claims)
    yield raw_token(b'{"alg":"RS256","kid":"rsa","kid":"ec"}', claims)
    whole = token("RS256", good, kid="rsa")
    signed, _, signature = whole.rpartition(".")
    yield f"{signed}."
    yield f"{signed}.{signature[:-8]}"
    yield signed
    yield f"{whole}.{signature}"
    yield f"{signed[:-4]}.{signature}"
    yield f"{encoded(b'{').decode()}.{signed.split('.')[1]}.{signature}"
    yield "."
    yield "a.b.c"


@pytest.mark.parametrize("audience", ["kafka", None])
def test_the_same_tokens_let_in(peer: LinePeer, tmp_path: Path, audience: str | None) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set(jwk_of("RS256", "rsa"), jwk_of("ES256", "ec")))
    settings = {"id": 0, "keys": keys.as_uri(), "audience": audience, "issuer": ISSUER}
    assert "error" not in json.loads(peer.line(json.dumps(settings)))
    config = OAuthConfig(
        jwks_url=keys.as_uri(),
        expected_audience=(audience,) if audience else (),
        expected_issuer=ISSUER,
    )
    random, now_s = Random(37), int(time.time())
    asked = [*odd_tokens(now_s)]
    asked += [token("ES256", drawn(random, now_s, audience), kid="ec") for _ in range(TOKENS)]
    ours = asyncio.run(judged(config, asked))
    let_in = 0
    differ = []
    for text, mine in zip(asked, ours, strict=True):
        theirs = json.loads(peer.line(json.dumps({"id": 1, "token": text})))
        assert "error" not in theirs, theirs
        let_in += isinstance(mine, Bearer)
        if isinstance(mine, Bearer):
            is_same = (theirs.get("user"), theirs.get("expires_at_ms")) == mine
        else:
            is_same = "refused" in theirs
        if not is_same:
            differ.append((text, mine, theirs))
    assert differ == []
    assert 50 < let_in < len(asked) - 50


async def judged(config: OAuthConfig, asked: list[str]) -> list[Bearer | str]:
    """Return what we make of each token: whom it lets in, or why nobody."""
    validator = TokenValidator(config, SystemClock())
    validator.start()
    found: list[Bearer | str] = []
    try:
        for text in asked:
            try:
                found.append(await validator.check(text))
            except TokenRefused as refused:
                found.append(str(refused))
    finally:
        await validator.close()
    return found
