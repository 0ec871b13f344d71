"""SCRAM's server side: the RFCs' own exchanges, round trips, and what is refused."""

import asyncio
import base64
from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.access.sasl.mechanism import Authenticated, AuthenticationFailed, SaslExchange
from tailrace.core.access.sasl.scram import (
    Scram,
    ScramIdentity,
    ScramServerExchange,
)
from tailrace.core.access.sasl.scram_messages import (
    MESSAGE_BYTES_MAX,
    BadMessage,
    parse_client_final,
    parse_client_first,
)
from tailrace.core.access.users.credentials import (
    ScramCredential,
    ScramMechanism,
    credential_from,
    salted_password,
)
from tailrace.core.access.users.fakes import USUAL_FORM, fake_credential
from tests.unit.core.access.sasl.scram_client import Client

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
ITERATIONS = 2
"""Few, as nobody guesses here."""

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
mechanisms = st.sampled_from(ScramMechanism)


def credential(mechanism: ScramMechanism, password: str, salt: bytes = b"salt") -> ScramCredential:
    salted = salted_password(mechanism, password.encode(), salt, ITERATIONS)
    return credential_from(mechanism, salted, salt, ITERATIONS)


def fake(mechanism: ScramMechanism, user: str) -> ScramCredential:
    return fake_credential(b"secret", mechanism, user, USUAL_FORM._replace(iterations=ITERATIONS))


def server(mechanism: ScramMechanism, users: Mapping[str, str]) -> SaslExchange:
    def find(user: str, extensions: Mapping[str, str]) -> ScramIdentity | None:
        if extensions.get("tokenauth") == "true":
            return ScramIdentity(credential(mechanism, "of-token"), "owner", 99, user)
        if user not in users:
            return None
        return ScramIdentity(credential(mechanism, users[user]), user)

    return Scram(mechanism, find, fake).exchange()


async def log_in(exchange: SaslExchange, client: Client, more: str = "") -> Authenticated | None:
    challenge = await exchange.evaluate(client.first(more=more))
    assert challenge.authenticated is None
    done = await exchange.evaluate(client.final(challenge.message))
    assert client.is_server(done.message)
    return done.authenticated


@pytest.mark.parametrize(
    ("mechanism", "salt", "client_nonce", "server_nonce", "proof", "signature"),
    [
        (
            SHA_256,
            "W22ZaJ0SNY7soEsUEjb6gQ==",
            "rOprNGfwEbeRWgbNEkqO",
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
            "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        )
    ],
)
def test_the_exchange_of_rfc_7677(
    mechanism: ScramMechanism,
    salt: str,
    client_nonce: str,
    server_nonce: str,
    proof: str,
    signature: str,
) -> None:
    raw_salt = base64.b64decode(salt)
    salted = salted_password(mechanism, b"pencil", raw_salt, 4096)
    identity = ScramIdentity(credential_from(mechanism, salted, raw_salt, 4096), "user")
    exchange = ScramServerExchange(mechanism, lambda *_: identity, fake, server_nonce)

    async def run() -> None:
        first = await exchange.evaluate(f"n,,n=user,r={client_nonce}".encode())
        nonce = client_nonce + server_nonce
        assert first == (f"r={nonce},s={salt},i=4096".encode(), None)
        final = await exchange.evaluate(f"c=biws,r={nonce},p={proof}".encode())
        assert final == (f"v={signature}".encode(), Authenticated("user", "SCRAM-SHA-256"))

    asyncio.run(run())


def test_a_salted_password_is_that_of_others() -> None:
    """A published vector of PBKDF2-HMAC-SHA-512."""
    salted = salted_password(SHA_512, b"password", b"salt", 1)
    assert salted.hex().startswith(
        "867f70cf1ade02cff3752599a3a53dc4af34c7a669815ae5d513554e1c8cf252"
    )


@settings(max_examples=50, deadline=None)
@given(mechanism=mechanisms, user=names, password=names, other=names)
def test_who_knows_the_password_comes_in_and_nobody_else(
    mechanism: ScramMechanism, user: str, password: str, other: str
) -> None:
    async def run() -> None:
        users = {user: password}
        right = Client(mechanism.hash_name, user, password)
        who = await log_in(server(mechanism, users), right)
        assert who == Authenticated(user, mechanism.sasl_name)
        if other != password:
            with pytest.raises(AuthenticationFailed):
                await log_in(server(mechanism, users), Client(mechanism.hash_name, user, other))
        if other != user:
            with pytest.raises(AuthenticationFailed):
                await log_in(server(mechanism, users), Client(mechanism.hash_name, other, password))

    asyncio.run(run())


def test_a_token_is_its_owners() -> None:
    async def run() -> None:
        client = Client("sha256", "token-7", "of-token")
        who = await log_in(server(SHA_256, {}), client, more=",tokenauth=true")
        assert who == Authenticated("owner", "SCRAM-SHA-256", 99, "token-7")

    asyncio.run(run())


def test_an_unknown_user_hears_what_a_wrong_password_does() -> None:
    async def heard(users: Mapping[str, str]) -> tuple[int, bytes, str]:
        exchange = server(SHA_256, users)
        client = Client("sha256", "alice", "wrong")
        first = await exchange.evaluate(client.first())
        _, salt, iterations = first.message.split(b",")
        with pytest.raises(AuthenticationFailed) as failed:
            await exchange.evaluate(client.final(first.message))
        return len(first.message) - len(salt), iterations, str(failed.value)

    async def run() -> None:
        known, unknown = await heard({"alice": "right"}), await heard({})
        assert known == unknown

    asyncio.run(run())


@pytest.mark.parametrize(
    "gs2", ["y,,", "n,a=alice,"], ids=["could bind channels", "says who it is"]
)
def test_headers_that_are_taken(gs2: str) -> None:
    async def run() -> None:
        exchange = server(SHA_256, {"alice": "p"})
        client = Client("sha256", "alice", "p")
        first = await exchange.evaluate(client.first(gs2=gs2))
        assert (await exchange.evaluate(client.final(first.message))).authenticated

    asyncio.run(run())


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=,r=x",
        b"n,,n=a",
        b"n,,n=a,r=",
        b"n,,n=a,r=x\0",
        b"n,,n=a\0b,r=x",
        b"n,,n=a=b,r=x",
        b"n,,n=a=2c,r=x",
        b"n,,m=1,n=a,r=x",
        b"n,,n=a,r=x,m=1",
        b"n,,n=a,r=x,t=1,t=2",
        b"p=tls-unique,,n=a,r=x",
        b"n,a=b,n=a,r=x",
        b"n,,n=\xff,r=x",
        b"n,,n=a,r=x y",
        b"n,,n=a,r=" + b"x" * MESSAGE_BYTES_MAX,
    ],
)
def test_first_messages_that_are_refused(message: bytes) -> None:
    async def run() -> None:
        with pytest.raises(AuthenticationFailed):
            await server(SHA_256, {"a": "p"}).evaluate(message)

    asyncio.run(run())


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_message_that_was_damaged_never_logs_in(data: st.DataObject) -> None:
    """Cut anywhere, a bit changed, or of another exchange."""

    async def run() -> None:
        exchange = server(SHA_256, {"alice": "p"})
        client = Client("sha256", "alice", "p")
        final = client.final((await exchange.evaluate(client.first())).message)
        at = data.draw(st.integers(0, len(final) - 1))
        cut, bit = data.draw(st.booleans()), data.draw(st.integers(0, 7))
        damaged = final[:at] + (b"" if cut else bytes([final[at] ^ 1 << bit]) + final[at + 1 :])
        try:
            step = await exchange.evaluate(damaged)
        except AuthenticationFailed:
            return
        # an extension's letters, or bits of base64 that mean nothing, are no part of a proof
        assert not cut
        assert parse_client_final(damaged).proof == parse_client_final(final).proof
        assert step.authenticated is not None

    asyncio.run(run())


@pytest.mark.parametrize("wrong", ["header", "nonce"])
def test_a_client_that_signs_another_header_or_nonce_is_refused(wrong: str) -> None:
    """It knows the password, and what it signs is what it sends: only that is not what was said."""

    async def run() -> None:
        exchange = server(SHA_256, {"alice": "p"})
        client = Client("sha256", "alice", "p")
        challenge = (await exchange.evaluate(client.first())).message.decode()
        if wrong == "header":
            client.gs2 = "y,,"
        nonce = challenge.split(",")[0] + ("x" if wrong == "nonce" else "")
        with pytest.raises(AuthenticationFailed):
            await exchange.evaluate(client.final(challenge.encode(), nonce))

    asyncio.run(run())


def test_the_proof_of_another_exchange_is_refused() -> None:
    async def run() -> None:
        client = Client("sha256", "alice", "p")
        one, other = (server(SHA_256, {"alice": "p"}) for _ in range(2))
        final = client.final((await one.evaluate(client.first())).message)
        await other.evaluate(Client("sha256", "alice", "p").first())
        with pytest.raises(AuthenticationFailed):
            await other.evaluate(final)

    asyncio.run(run())


@given(user=names, nonce=st.from_regex(r"[!-+\--~]{1,20}", fullmatch=True))
def test_names_survive(user: str, nonce: str) -> None:
    client = Client("sha256", user, "p", nonce)
    parsed = parse_client_first(client.first())
    assert (parsed.user, parsed.nonce, parsed.bare) == (user, nonce, client.bare)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_parsers_refuse_or_read(message: bytes) -> None:
    for parse in (parse_client_first, parse_client_final):
        with suppress(BadMessage):
            parse(message)
