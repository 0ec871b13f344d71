"""JWK sets, and signatures that are checked by their keys."""

import json
from typing import Any

import pytest
from joserfc.jwk import OctKey, RSAKey

from tailrace.core.access.oauth.compact import ALGORITHMS, TokenRefused, split_token
from tailrace.core.access.oauth.key_set import KEYS_MAX, UnusableKeys, parse_key_set
from tests.unit.core.access.oauth.issuer import (
    GOOD,
    jwk_of,
    key_of,
    key_set,
    raw_token,
    token,
)

ONE_OF_EACH = ("RS256", "ES256", "ES384", "ES512", "Ed25519")


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_each_algorithm_is_checked_by_its_key(algorithm: str) -> None:
    keys = parse_key_set(key_set(jwk_of(algorithm)))
    good = split_token(token(algorithm))
    key = keys.find(good)
    assert key is not None
    key.check(good)
    other = token(algorithm, {**GOOD, "sub": "bob"}).split(".")
    swapped = split_token(".".join([*other[:2], good.text.split(".")[2]]))
    with pytest.raises(TokenRefused, match="signature"):
        key.check(swapped)
    with pytest.raises(TokenRefused, match="signature"):
        key.check(split_token(good.text[:-3]))


def test_a_key_is_for_algorithms_of_its_kind_alone() -> None:
    """A header cannot have a key be used for what it is not."""
    keys = parse_key_set(key_set(*(jwk_of(each, each) for each in ONE_OF_EACH)))
    fitting = {each: {each} for each in ONE_OF_EACH}
    fitting["RS256"] = {each for each in ALGORITHMS if each[:2] in {"RS", "PS"}}
    fitting["Ed25519"] = {"Ed25519", "EdDSA"}
    for kid, algorithms in fitting.items():
        for algorithm in ALGORITHMS:
            header = json.dumps({"alg": algorithm, "kid": kid}).encode()
            found = keys.find(split_token(raw_token(header, b"{}")))
            assert (found is not None) is (algorithm in algorithms)


def test_keys_that_say_more_are_for_less() -> None:
    rs256 = jwk_of("RS256", "a", alg="RS256")
    assert parse_key_set(key_set(rs256)).keys[0].algorithms == {"RS256"}
    others = [
        jwk_of("RS256", "a", alg="RSA-OAEP"),
        jwk_of("RS256", "b", alg=["RS256"]),
        jwk_of("RS256", "c", use="enc"),
        jwk_of("RS256", "d", use=["sig"]),
        jwk_of("RS256", "e", key_ops=["sign"]),
        jwk_of("RS256", "f", key_ops="verify"),
        {**jwk_of("RS256"), "kid": 7},
        {**jwk_of("RS256"), "e": 65537},
        {**jwk_of("RS256"), "n": "not base64!"},
        {**jwk_of("RS256"), "n": "A" * 100_000},
        {**jwk_of("ES256"), "x": jwk_of("ES256")["y"]},
        {**jwk_of("ES256"), "crv": "secp256k1"},
        {"kty": ["RSA"]},
        {"kty": "unknown"},
        {"kty": "AKP", "alg": "ML-DSA-44"},
        OctKey.generate_key().as_dict(),
        7,
        None,
    ]  # fmt: skip
    with pytest.raises(UnusableKeys, match="no public key"):
        parse_key_set(json.dumps({"keys": others}).encode())
    found = parse_key_set(json.dumps({"keys": [*others, rs256]}).encode())
    assert [each.key_id for each in found.keys] == ["a"]


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_short_keys_are_not_used() -> None:
    short = RSAKey.generate_key(1024).as_dict(private=False)
    with pytest.raises(UnusableKeys, match="no public key"):
        parse_key_set(key_set({**short, "kid": "k1"}))


def test_what_is_private_in_a_set_is_left_out() -> None:
    private = {**key_of("ES256").as_dict(private=True), "kid": "k1"}
    (key,) = parse_key_set(key_set(private)).keys
    assert not key.key.is_private


def test_a_token_without_a_name_of_a_key_takes_the_only_one_that_fits() -> None:
    nameless = split_token(token("ES256", kid=None))
    one = parse_key_set(key_set(jwk_of("ES256", None), jwk_of("RS256", "b")))
    assert one.find(nameless) == one.keys[0]
    two = parse_key_set(key_set(jwk_of("ES256", "a"), jwk_of("ES256", "b")))
    assert two.find(nameless) is None
    assert two.find(split_token(token("ES256", kid="c"))) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>sign in</html>",
        b"[]",
        b"{}",
        b'{"keys":{}}',
        b'{"keys":[]}',
        b'{"keys":[],"keys":[]}',
        b"\xff\xfe",
        b"[" * 100_000,
        b" " * (1 << 21),
        json.dumps({"keys": [1] * (KEYS_MAX + 1)}).encode(),
    ],
    ids=lambda data: repr(data[:20]),
)
def test_what_is_not_a_set_of_keys_is_refused(data: bytes) -> None:
    with pytest.raises(UnusableKeys):
        parse_key_set(data)


def test_the_public_key_as_a_secret_signs_nothing() -> None:
    """HS256 over each form of the key that a server might have: no key is for it at all."""
    keys = parse_key_set(key_set(jwk_of("RS256")))
    assert not any(name.startswith("HS") for each in keys.keys for name in each.algorithms)
    forged: Any = split_token(token("RS256"))._replace(algorithm="HS256")
    assert keys.find(forged) is None


def test_a_token_that_brings_its_own_key_is_not_checked_by_it() -> None:
    keys = parse_key_set(key_set(jwk_of("ES256", "k1")))
    theirs = RSAKey.generate_key()
    header = {"alg": "RS256", "kid": "k1", "jwk": theirs.as_dict(private=False), "jku": "file:///"}
    claimed = split_token(raw_token(json.dumps(header).encode(), b"{}"))
    assert keys.find(claimed) is None
