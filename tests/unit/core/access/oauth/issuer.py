"""An issuer of tokens: its keys, and what it signs. Real cryptography, small keys' kinds first."""

import base64
import functools
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, Final

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

NOW_MS: Final = 1_700_000_000_000
NOW_S: Final = NOW_MS // 1000
GOOD: Final[Mapping[str, Any]] = {
    "sub": "alice",
    "iss": "https://issuer.test",
    "aud": "kafka",
    "iat": NOW_S - 60,
    "exp": NOW_S + 3600,
}


@functools.cache
def key_of(algorithm: str, name: str = "") -> Any:
    """Return a private key; of each algorithm and name always the same."""
    if algorithm.startswith("ES"):
        return ECKey.generate_key({"256": "P-256", "384": "P-384", "512": "P-521"}[algorithm[2:]])
    return OKPKey.generate_key("Ed25519") if algorithm.startswith("Ed") else RSAKey.generate_key()


def jwk_of(algorithm: str = "ES256", kid: str | None = "k1", **more: Any) -> dict[str, Any]:
    """Return a public key, as a set lists it."""
    named = {} if kid is None else {"kid": kid}
    return {**key_of(algorithm).as_dict(private=False), **named, **more}


def key_set(*keys: Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def token(
    algorithm: str = "ES256",
    claims: Mapping[str, Any] = GOOD,
    *,
    kid: str | None = "k1",
    **header: Any,
) -> str:
    """Return a token that is signed as it should be."""
    named = {} if kid is None else {"kid": kid}
    parts = ({"alg": algorithm, **named, **header}, claims)
    signed = b".".join(encoded(json.dumps(each).encode()) for each in parts)
    signature = jws.JWSRegistry.algorithms[algorithm].sign(signed, key_of(algorithm))
    return (signed + b"." + encoded(signature)).decode()


def raw_token(header: bytes, claims: bytes, signature: bytes = b"signature") -> str:
    """Return any three parts as a token."""
    return b".".join(map(encoded, (header, claims, signature))).decode()


def hmac_token(secret: bytes) -> str:
    """Return a token that is signed with HS256, for a server that takes its public key for it."""
    signed = b".".join(map(encoded, (b'{"alg":"HS256","kid":"k1"}', json.dumps(GOOD).encode())))
    signature = hmac.new(secret, signed, hashlib.sha256).digest()
    return (signed + b"." + encoded(signature)).decode()


def encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
