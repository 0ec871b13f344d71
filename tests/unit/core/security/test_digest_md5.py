"""DIGEST-MD5 against RFC 2831's own exchange, itself, and everything that may come instead."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.security.digest_md5 import DigestClient, DigestFailed, DigestServer, Service

BOOKKEEPER = Service("bookkeeper", "bookkeeper")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def server(
    users: dict[str, str], nonce: str = "nonce", service: Service = BOOKKEEPER
) -> DigestServer:
    return DigestServer(service, nonce, users.get)


def test_the_exchange_of_the_rfc() -> None:
    """RFC 2831, section 4: IMAP4."""
    client = DigestClient(
        Service("imap", "elwood.innosoft.com"), "chris", "secret", "OA6MHXh6VqTrRk"
    )
    assert client.respond(None) == b""
    response = client.respond(
        b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",'
        b"algorithm=md5-sess,charset=utf-8"
    )
    assert response == (
        b'charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",'
        b'cnonce="OA6MHXh6VqTrRk",digest-uri="imap/elwood.innosoft.com",nc=00000001,qop=auth,'
        b"response=d388dad90d4bbd760a152321f2143af7"
    )
    assert client.respond(b"rspauth=ea40f60335c427b5527b84dbabcdfffd") is None


def test_the_rfcs_client_is_let_in() -> None:
    """The order of the pairs, and what is quoted, are as section 4 shows them."""
    service = Service("imap", "elwood.innosoft.com")
    mine = server({"chris": "secret"}, "OA6MG9tEQGm2hh", service)
    assert mine.evaluate(b"") == (
        b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",'
        b"charset=utf-8,algorithm=md5-sess"
    )
    proof = mine.evaluate(
        b'charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",'
        b'nc=00000001,cnonce="OA6MHXh6VqTrRk",digest-uri="imap/elwood.innosoft.com",'
        b"response=d388dad90d4bbd760a152321f2143af7,qop=auth"
    )
    assert (proof, mine.user) == (b"rspauth=ea40f60335c427b5527b84dbabcdfffd", "chris")


def test_javas_challenge_and_quoted_values() -> None:
    """Java's bookie says no qop; what it quotes may have backslashes."""
    client = DigestClient(BOOKKEEPER, 'a"b\\c', "secret", "c")
    response = client.respond(
        b'realm="book\\"keeper",nonce="n\\\\",charset=utf-8,algorithm=md5-sess'
    )
    assert response is not None
    assert b'username="a\\"b\\\\c",realm="book\\"keeper",nonce="n\\\\"' in response


@given(TEXT, TEXT, TEXT)
def test_both_sides_agree_whatever_the_texts(user: str, password: str, other: str) -> None:
    mine, theirs = server({user: password}), DigestClient(BOOKKEEPER, user, password, "c")
    challenge = mine.evaluate(theirs.respond(None) or b"")
    response = theirs.respond(challenge)
    assert response is not None
    proof = mine.evaluate(response)
    assert theirs.respond(proof) is None
    assert mine.user == user
    if other != password:
        mine, theirs = server({user: password}), DigestClient(BOOKKEEPER, user, other, "c")
        response = theirs.respond(mine.evaluate(b""))
        assert response is not None
        with pytest.raises(DigestFailed):
            mine.evaluate(response)
        assert mine.user is None


def md5(data: bytes) -> bytes:
    return hashlib.md5(data).digest()


def response_of(password: str, authzid: bytes | None = None, **changes: bytes) -> bytes:
    """What a client says by the letters of the RFC, with some of it changed."""
    said = {
        "username": b"alice",
        "realm": b"bookkeeper",
        "nonce": b"nonce",
        "cnonce": b"c",
        "digest-uri": b"bookkeeper/bookkeeper",
        "nc": b"00000001",
        "qop": b"auth",
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }
    a1 = md5(b"%s:%s:%s" % (said["username"], said["realm"], password.encode()))
    a1 += b":" + said["nonce"] + b":" + said["cnonce"]
    if authzid is not None:
        a1 += b":" + authzid
        said["authzid"] = authzid
    a2 = md5(b"AUTHENTICATE:" + said["digest-uri"]).hex().encode()
    kept = (said["nonce"], said["nc"], said["cnonce"], said["qop"], a2)
    said["response"] = md5(b":".join((md5(a1).hex().encode(), *kept))).hex().encode()
    return b",".join(
        name.encode()
        + (b'="%s"' % value if name not in ("nc", "qop", "response") else b"=" + value)
        for name, value in said.items()
    )


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (response_of("wrong"), "no such user, or another password"),
        (response_of("secret", username=b"bob"), "no such user, or another password"),
        (response_of("", username=b"bob"), "no such user, or another password"),
        (response_of("secret", nonce=b"other"), "another challenge"),
        (response_of("secret", nc=b"00000002"), "another challenge"),
        (response_of("secret", realm=b"other"), "another realm"),
        (response_of("secret", digest_uri=b"zookeeper/zk-sasl-md5"), "another service"),
        (response_of("secret", qop=b"auth-conf"), "quality of protection"),
        (response_of("secret", authzid=b"root"), "to act for another"),
        (response_of("secret") + b",nonce=nonce", "nonce comes twice"),
        (response_of("secret") + b",charset=latin-1", "another charset"),
        (response_of("secret", username=b"\xff") + b",charset=utf-8", "not UTF-8"),
        (b"", "username is missing"),
        (b'username="alice', "without an end"),
        (b'username="alice"x,', "behind a quoted value"),
        (b"=x", "not a list"),
        (b"a b=x", "not a list"),
        (b"x" * 4097, "a message of 4097 bytes"),
        (b"username=" + b"," * 4000, "username is missing"),
    ],
)
def test_what_a_server_refuses(message: bytes, words: str) -> None:
    mine = server({"alice": "secret"})
    mine.evaluate(b"")
    with pytest.raises(DigestFailed, match=words) as refused:
        mine.evaluate(message)
    assert mine.user is None
    assert "secret" not in str(refused.value)


def test_what_a_server_takes() -> None:
    for message in (
        response_of("secret"),
        response_of("secret", authzid=b"alice"),  # Java's client says whom it acts for
        response_of("secret", digest_uri=b"BookKeeper/BOOKKEEPER"),
        b" , " + response_of("secret").replace(b",", b" , ") + b',maxbuf=65536,other="x,y"',
    ):
        mine = server({"alice": "secret"})
        mine.evaluate(b"")
        assert mine.evaluate(message).startswith(b"rspauth=")
        assert mine.user == "alice"


def test_the_order_of_messages() -> None:
    mine = server({"alice": "secret"})
    with pytest.raises(DigestFailed, match="before the challenge"):
        mine.evaluate(response_of("secret"))
    mine.evaluate(b"")
    mine.evaluate(response_of("secret"))
    with pytest.raises(DigestFailed, match="behind the last one"):
        mine.evaluate(response_of("secret"))


def test_there_is_one_attempt() -> None:
    mine = server({"alice": "secret"})
    mine.evaluate(b"")
    for message, words in ((b"", "is missing"), (response_of("secret"), "behind the last one")):
        with pytest.raises(DigestFailed, match=words):
            mine.evaluate(message)
    assert mine.user is None


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (b'nonce="n",algorithm=md5', "another algorithm"),
        (b'nonce="n"', "algorithm is missing"),
        (b"algorithm=md5-sess", "nonce is missing"),
        (b'nonce="n",nonce="m",algorithm=md5-sess', "nonce comes twice"),
        (b'nonce="n",qop="auth-int,auth-conf",algorithm=md5-sess', "does not offer qop=auth"),
        (b"rspauth=00", "algorithm is missing"),
    ],
)
def test_what_a_client_refuses(challenge: bytes, words: str) -> None:
    with pytest.raises(DigestFailed, match=words):
        DigestClient(BOOKKEEPER, "alice", "secret", "c").respond(challenge)


def test_a_client_finds_out_a_server_without_the_password() -> None:
    client = DigestClient(BOOKKEEPER, "alice", "secret", "c")
    response = client.respond(
        b'realm="a",realm="b",nonce="n",qop="auth-int,auth",algorithm=md5-sess'
    )
    assert response is not None
    assert re.search(rb'realm="a"', response)
    assert b"charset" not in response  # the server did not say that it knows UTF-8
    with pytest.raises(DigestFailed, match="does not know the password"):
        client.respond(b"rspauth=" + b"0" * 32)


def test_a_name_that_the_server_cannot_read() -> None:
    client = DigestClient(BOOKKEEPER, "\u4e16", "secret", "c")
    with pytest.raises(DigestFailed, match="no UTF-8"):
        client.respond(b'nonce="n",algorithm=md5-sess')


@given(st.binary(max_size=300))
def test_any_bytes_end_an_exchange_or_go_on(message: bytes) -> None:
    mine = server({"alice": "secret"})
    mine.evaluate(b"")
    with pytest.raises(DigestFailed):
        mine.evaluate(message)
    with pytest.raises(DigestFailed):
        DigestClient(BOOKKEEPER, "alice", "secret", "c").respond(message)
