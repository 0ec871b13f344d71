"""Tokens before they are trusted: what is not three parts of sound JSON is refused, cheaply."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.access.oauth.compact import TOKEN_BYTES_MAX, TokenRefused, split_token
from tests.unit.core.access.oauth.issuer import GOOD, hmac_token, raw_token, token

HEADER = b'{"alg":"ES256"}'
CLAIMS = json.dumps(GOOD).encode()


def test_a_token_is_taken_apart() -> None:
    found = split_token(token(kid="the key"))
    assert (found.algorithm, found.key_id, found.claims) == ("ES256", "the key", GOOD)
    assert split_token(token(kid=None)).key_id is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a.b",
        "..",
        "a.b.c.d",
        "a..c",
        "ä.b.c",
        raw_token(HEADER, CLAIMS) + "=",
        raw_token(HEADER, CLAIMS) + "\n",
        raw_token(HEADER, CLAIMS).replace(".", ".\n", 1),
        "A" + raw_token(HEADER, CLAIMS)[1:],
        token().replace("_", "/") + "/",
    ],
)
def test_what_is_not_three_parts_of_base64url_is_refused(text: str) -> None:
    with pytest.raises(TokenRefused):
        split_token(text)


@pytest.mark.parametrize(
    "algorithm",
    ['"none"', '"None"', '"NONE"', '""', '"HS256"', '"HS512"', '"RS1"', '"ES256K"', "null", "[]"],
)
def test_only_signatures_by_public_keys_are_taken(algorithm: str) -> None:
    with pytest.raises(TokenRefused, match="alg"):
        split_token(raw_token(b'{"alg":%s}' % algorithm.encode(), CLAIMS))


def test_a_token_without_a_signature_is_refused() -> None:
    """As libraries write it that know `none`: two parts and a full stop."""
    with pytest.raises(TokenRefused):
        split_token(raw_token(b'{"alg":"none"}', CLAIMS, b""))
    with pytest.raises(TokenRefused):
        split_token(raw_token(HEADER, CLAIMS, b""))


def test_a_public_key_is_never_a_secret() -> None:
    with pytest.raises(TokenRefused, match="alg"):
        split_token(hmac_token(b"the bytes of a public key"))


@pytest.mark.parametrize(
    "header",
    [
        b'{"alg":"ES256","alg":"none"}',
        b'{"alg":"ES256","crit":["b64"],"b64":false}',
        b'{"alg":"ES256","b64":false}',
        b'{"alg":"ES256","crit":[]}',
        b'{"alg":"ES256","kid":7}',
        b'{"alg":"ES256","kid":"%s"}' % (b"k" * 1025),
        b'{"alg":"ES256","x":"%s"}' % (b"k" * 8192),
        b"{}",
        b"[]",
        b"null",
        b'"ES256"',
        b"\xff\xfe{}",
    ],
)
def test_headers_that_are_not_sound_are_refused(header: bytes) -> None:
    with pytest.raises(TokenRefused):
        split_token(raw_token(header, CLAIMS))


@pytest.mark.parametrize(
    "claims",
    [
        b"",
        b"{",
        b"[1]",
        b"7",
        b'{"sub":"alice","sub":"bob"}',
        b'{"sub":{"a":1,"a":2}}',
        b'{"exp":NaN}',
        b'{"exp":-Infinity}',
        b'{"exp":' + b"9" * 5000 + b"}",
        b'{"sub":"\xff"}',
        b"\xef\xbb\xbf{}",
        b"[" * 10_000,
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    ],
    ids=lambda data: repr(data[:20]),
)
def test_claims_that_are_not_sound_are_refused(claims: bytes) -> None:
    with pytest.raises(TokenRefused):
        split_token(raw_token(HEADER, claims))


def test_a_token_has_a_largest_size() -> None:
    """And the largest one is taken."""
    room = TOKEN_BYTES_MAX - len(raw_token(HEADER, b'{"a":""}')) - 4
    assert split_token(raw_token(HEADER, b'{"a":"%s"}' % (b"a" * (room * 3 // 4))))
    for size in (TOKEN_BYTES_MAX, 100_000):
        with pytest.raises(TokenRefused, match="more than 65536 bytes"):
            split_token(raw_token(HEADER, b'{"a":"%s"}' % (b"a" * size)))


@given(st.text("aA0_-.=/ä\n\0", max_size=60))
def test_nothing_else_is_raised(text: str) -> None:
    with pytest.raises(TokenRefused):
        split_token(text)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_nothing_else_is_raised_for_what_is_inside(header: bytes, claims: bytes) -> None:
    with pytest.raises(TokenRefused):
        split_token(raw_token(header, claims))
