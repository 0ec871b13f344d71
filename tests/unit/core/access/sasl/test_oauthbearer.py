"""OAUTHBEARER: the bytes of Kafka's own client, and everything that is not them."""

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.access.oauth.claims import Bearer
from tailrace.core.access.oauth.compact import TokenRefused
from tailrace.core.access.sasl.mechanism import Authenticated, AuthenticationFailed, SaslExchange
from tailrace.core.access.sasl.oauthbearer import OAuthBearer
from tailrace.core.access.sasl.oauthbearer_messages import (
    EXTENSIONS_MAX,
    MESSAGE_BYTES_MAX,
    BadMessage,
    InitialResponse,
    parse_initial_response,
)

# Made by org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerClientInitialResponse,
# Kafka 4.3.1.
WITH_EXTENSIONS = bytes.fromhex(
    "6e2c2c01617574683d42656172657220612e622d5f2e63016c6f676963616c436c75737465723d6c6b632031"
    "01706f6f6c3d780101"
)
WITH_IDENTITY = bytes.fromhex("6e2c613d616c3d32436963652c01617574683d42656172657220612e622e630101")
PLAIN = bytes.fromhex("6e2c2c01617574683d42656172657220612e622e630101")

# Kafka's own expressions, as the second opinion.
KAFKAS_NAME = r"(?:[\x02-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
KAFKAS_PAIRS = r"(?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)*"
KAFKAS = re.compile(rf"n,(?:a={KAFKAS_NAME})?,\x01({KAFKAS_PAIRS})\x01")
KAFKAS_AUTH = re.compile(r"(\w+)[ ]+([-_~+/\.a-zA-Z0-9]+([=]*))", re.ASCII)


def test_what_kafkas_client_sends_is_read() -> None:
    assert parse_initial_response(PLAIN) == InitialResponse("a.b.c")
    assert parse_initial_response(WITH_IDENTITY) == InitialResponse("a.b.c", "al,ice")
    assert parse_initial_response(WITH_EXTENSIONS) == InitialResponse(
        "a.b-_.c", "", {"logicalCluster": "lkc 1", "pool": "x"}
    )
    assert parse_initial_response(b"n,,\x01auth=bEARER   t==\x01\x01").token == "t=="


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer t\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer t\x01\x01",
        b"n,a=,\x01auth=Bearer t\x01\x01",
        b"n,a=a=2cb,\x01auth=Bearer t\x01\x01",
        b"n,,auth=Bearer t\x01\x01",
        b"n,,\x01auth=Bearer t\x01",
        b"n,,\x01auth=Bearer t\x01\x01\x01",
        b"n,,\x01auth=Bearer t\x01\x01rest",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer t t\x01\x01",
        b"n,,\x01auth=Bearert\x01\x01",
        b"n,,\x01auth=Bearer t\x00\x01\x01",
        b"n,,\x01auth=Bearer \xc3\xa4\x01\x01",
        b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01",
        b"n,,\x01auth=Bearer t\x01x1=y\x01\x01",
        b"n,,\x01auth=Bearer t\x01x=\x01\x01",
        b"n,,\x01auth=Bearer t\x01x\x01\x01",
        b"n,,\x01" + b"x" * MESSAGE_BYTES_MAX,
        b"n,,\x01auth=Bearer t" + b"\x01x=y" * (EXTENSIONS_MAX + 2) + b"\x01\x01",
        b"\x01" * MESSAGE_BYTES_MAX,
        b"n,a=" + b"=2C" * 20_000 + b"=" + b",\x01auth=Bearer t\x01\x01",
    ],
    ids=lambda message: repr(message[:24]),
)
def test_what_is_not_a_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(BadMessage):
        parse_initial_response(message)


pieces = st.sampled_from(
    [b"n,", b"y,", b",", b"a=al=2Cice", b"a=b", b"\x01", b"auth=Bearer t.t", b"auth=", b"Bearer t",
     b"x=y", b"x", b"=", b"ab=c d", b"\x00", b"\xff", b"\x01\x01"]
)  # fmt: skip


@given(st.binary(max_size=60) | st.lists(pieces, max_size=12).map(b"".join))
def test_it_takes_what_kafka_takes(message: bytes) -> None:
    """But for ^A in a name, and an extension that is there twice, of which Kafka's last counts."""
    try:
        found = parse_initial_response(message)
    except BadMessage:
        found = None
    whole = KAFKAS.fullmatch(message.decode("latin-1"))
    pairs = [] if whole is None else [each.split("=", 1) for each in whole[1].split("\x01")[:-1]]
    auth = KAFKAS_AUTH.fullmatch(dict(pairs).get("auth", ""))
    is_unique = len(dict(pairs)) == len(pairs)
    is_taken = auth is not None and auth[1].lower() == "bearer" and is_unique
    assert (found is not None) is is_taken
    if found is not None and auth is not None:
        assert found.token == auth[2]


async def check(token: str) -> Bearer:
    await asyncio.sleep(0)
    if token != "good":
        raise TokenRefused("a secret reason")
    return Bearer("al,ice", 77)


def begun() -> SaslExchange:
    mechanism = OAuthBearer(check)
    assert mechanism.name == "OAUTHBEARER"
    return mechanism.exchange()


def message(token: str, identity: str = "") -> bytes:
    return f"n,{identity},\x01auth=Bearer {token}\x01\x01".encode()


def test_a_good_token_lets_in_until_it_ends() -> None:
    for identity in ("", "a=al=2Cice"):
        step = asyncio.run(begun().evaluate(message("good", identity)))
        assert step == (b"", Authenticated("al,ice", "OAUTHBEARER", 77))


@pytest.mark.parametrize("answer", [b"\x01", b"", b"\x01\x01", message("good")])
def test_a_bad_token_is_answered_without_its_reason_and_that_is_the_end(answer: bytes) -> None:
    """Not even a good token is taken after it: an exchange is one try."""

    async def run() -> None:
        exchange = begun()
        step = await exchange.evaluate(message("bad"))
        assert step == (b'{"status":"invalid_token"}', None)
        with pytest.raises(AuthenticationFailed) as failed:
            await exchange.evaluate(answer)
        assert "secret" not in str(failed.value)
        assert failed.value.reason == "token refused: a secret reason"

    asyncio.run(run())


@pytest.mark.parametrize("first", [message("good", "a=bob"), b"\x01", b"", b"n,,"])
def test_everything_else_fails_at_once(first: bytes) -> None:
    with pytest.raises(AuthenticationFailed) as failed:
        asyncio.run(begun().evaluate(first))
    assert str(failed.value).startswith("Authentication failed")
    assert "bob" not in str(failed.value)
