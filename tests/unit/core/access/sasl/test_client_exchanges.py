"""The client side of mechanisms: the RFCs' vectors, our own servers, and servers that lie."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.access.sasl.mechanism import AuthenticationFailed, SaslClientExchange
from tailrace.core.access.sasl.oauthbearer_client import TOKEN_BYTES_MAX, BearerClientExchange
from tailrace.core.access.sasl.plain_client import PlainClientExchange
from tailrace.core.access.sasl.scram import ScramIdentity, ScramServerExchange
from tailrace.core.access.sasl.scram_client import ScramClientExchange
from tailrace.core.access.sasl.scram_messages import ClientFirst
from tailrace.core.access.sasl.work import at_once
from tailrace.core.access.users.credentials import (
    ITERATIONS_MIN,
    ScramMechanism,
    credential_from,
    salted_password,
)
from tailrace.core.runtime.config import Secret

RFC_7677 = (
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)
SHA_256, SHA_512 = ScramMechanism


def scram(
    user: str = "user",
    password: str = "pencil",
    nonce: str = "rOprNGfwEbeRWgbNEkqO",
    mechanism: ScramMechanism = SHA_256,
) -> ScramClientExchange:
    return ScramClientExchange(mechanism, ClientFirst(user, nonce), Secret(password), at_once)


def say(exchange: SaslClientExchange, *challenges: bytes | None) -> list[bytes | None]:
    async def run() -> list[bytes | None]:
        return [await exchange.respond(each) for each in challenges]

    return asyncio.run(run())


def test_the_exchange_of_rfc_7677() -> None:
    first, challenge, final, signature = RFC_7677
    assert say(scram(), None, challenge, signature) == [first, final, None]


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (RFC_7677[1].replace(b"rOpr", b"xOpr"), "nonce is not one for this exchange"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce is not one"),
        (RFC_7677[1].replace(b"i=4096", b"i=4095"), "4095 iterations"),
        (RFC_7677[1].replace(b"i=4096", b"i=1000001"), "1000001 iterations"),
        (RFC_7677[1].replace(b"i=4096", b"i=9999999999"), "not SCRAM's"),
        (RFC_7677[1].replace(b"i=4096", b"i=-1"), "not SCRAM's"),
        (b"m=new," + RFC_7677[1], "not SCRAM's"),
        (RFC_7677[1].replace(b"W22Z", b"W2=Z"), "bad base64"),
        (b"", "not SCRAM's"),
        (b"\xff", "not UTF-8"),
        (b"r=" + bytes(100_000), "100002 bytes"),
        (b"e=other-error", "not SCRAM's"),
    ],
)
def test_a_challenge_that_is_not_one_gets_no_proof(challenge: bytes, words: str) -> None:
    with pytest.raises(AuthenticationFailed, match=words):
        say(scram(), None, challenge)


@pytest.mark.parametrize(
    "signature",
    [RFC_7677[3].replace(b"v=6", b"v=7"), b"v=", b"v=AAAA", b"e=invalid-proof", b"", b"v=%"],
)
def test_a_server_that_does_not_know_the_password_is_found_out(signature: bytes) -> None:
    with pytest.raises(AuthenticationFailed) as refused:
        say(scram(), None, RFC_7677[1], signature)
    assert "pencil" not in str(refused.value)


names = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=20)


@settings(max_examples=30, deadline=None)
@given(names, st.text(st.characters(codec="utf-8"), max_size=20), st.sampled_from(ScramMechanism))
def test_our_own_server_lets_every_user_in(
    user: str, password: str, mechanism: ScramMechanism
) -> None:
    salted = salted_password(mechanism, password.encode(), b"salt", ITERATIONS_MIN)
    credential = credential_from(mechanism, salted, b"salt", ITERATIONS_MIN)

    async def run(given: str) -> str:
        server = ScramServerExchange(
            mechanism,
            lambda name, _: ScramIdentity(credential, name),
            lambda *_: credential,
            "server",
        )
        client = scram(user, given, "client", mechanism)
        message = await client.respond(None)
        while message is not None:
            step = await server.evaluate(message)
            message = await client.respond(step.message)
            if step.authenticated is not None:
                assert message is None
                return step.authenticated.user
        raise AssertionError("the client believes what the server did not say")

    assert asyncio.run(run(password)) == user
    with pytest.raises(AuthenticationFailed):
        asyncio.run(run(password + "x"))


def test_plain() -> None:
    exchange = PlainClientExchange("alice", Secret("p\u00e4ss"))
    assert say(exchange, None, b"") == ["\0alice\0p\u00e4ss".encode(), None]
    with pytest.raises(AuthenticationFailed, match="is not empty"):
        say(PlainClientExchange("a", Secret("b")), None, b"more")
    for user, password in (("a\0", "b"), ("a", "\0sesame")):
        with pytest.raises(AuthenticationFailed, match="NUL") as refused:
            PlainClientExchange(user, Secret(password))
        assert "sesame" not in str(refused.value)


def test_a_token_is_read_as_each_exchange_begins(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for token in ("abc.def.g-h_i", "another=="):
        file.write_text(f"  {token}\n")
        sent, end = say(BearerClientExchange(file, at_once), None, b"")
        assert sent == f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        assert end is None
    with pytest.raises(AuthenticationFailed, match="refuses the token"):
        say(BearerClientExchange(file, at_once), None, b'{"status":"invalid_token"}')


@pytest.mark.parametrize(
    "data", [None, b"", b"two words", b"\xff", b"a\x01b", b"a" * (TOKEN_BYTES_MAX + 1)]
)
def test_a_file_without_a_token_is_named(tmp_path: Path, data: bytes | None) -> None:
    file = tmp_path / "token"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(AuthenticationFailed, match=str(file)):
        say(BearerClientExchange(file, at_once), None)
