"""What a bookie answers to clients that it does not know yet."""

from typing import Any

import pytest

from tailrace.bookie.greeting import DISABLED, REQUESTS_MAX, SASL, Greeting, GreetingRules, Then
from tailrace.core.security.digest_md5 import BOOKKEEPER, DigestClient, DigestServer
from tailrace.protocol.bookkeeper.messages import (
    AuthRequest,
    AuthResponse,
    BatchReadRequest,
    BookieInfoRequest,
    ErrorResponse,
    OperationType,
    Request,
    StartTlsRequest,
    StartTlsResponse,
    StatusCode,
    UnknownRequest,
)
from tests.unit.bookie.world import L1, add, read

EOK, EUA, EBADREQ = StatusCode.EOK, StatusCode.EUA, StatusCode.EBADREQ
USERS = {"alice": "secret", "bob": "hidden"}


def greeting(
    *, sasl: bool = False, tls: bool = False, plain: bool = False, **rules: Any
) -> Greeting:
    exchange = DigestServer(BOOKKEEPER, "nonce", USERS.get) if sasl else None
    if sasl:
        rules["may_enter"] = lambda user: user == "alice"
    return Greeting(GreetingRules(offers_tls=tls, needs_tls=tls and not plain, **rules), exchange)


def auth(payload: bytes, plugin: str = SASL) -> AuthRequest:
    return AuthRequest(plugin, payload)


def log_in(mine: Greeting, user: str, password: str) -> Any:
    """Go through the exchange; return the last verdict."""
    client = DigestClient(BOOKKEEPER, user, password, "c")
    said: bytes | None = None
    while True:
        message = client.respond(said)
        assert message is not None, "the bookie said more than it needs to"
        verdict = mine.hear(auth(message), is_v2=False)
        if verdict.then is not Then.GO_ON:
            return verdict
        assert isinstance(verdict.response, AuthResponse)
        assert verdict.response.plugin == SASL
        said = bytes(verdict.response.payload)


REQUESTS: list[Request] = [add(L1, 0), read(L1, 0), BookieInfoRequest(1), UnknownRequest(99)]


@pytest.mark.parametrize("mine", [{"sasl": True}, {"tls": True}, {"sasl": True, "tls": True}])
@pytest.mark.parametrize("request_", REQUESTS)
def test_requests_before(mine: dict[str, bool], request_: Request) -> None:
    verdict = greeting(**mine).hear(request_, is_v2=False)
    assert verdict.then is Then.GO_ON
    assert isinstance(verdict.response, ErrorResponse)
    assert verdict.response.status is EUA
    served = request_ in (add(L1, 0), read(L1, 0))
    of_v2 = greeting(**mine).hear(request_ if served else BatchReadRequest(L1, 0, 1, 1), is_v2=True)
    assert of_v2.then is (Then.GO_ON if served else Then.CLOSE)


@pytest.mark.parametrize("request_", REQUESTS)
def test_requests_of_who_is_welcome(request_: Request) -> None:
    assert greeting(tls=True, plain=True).hear(request_, is_v2=False) == (Then.SUBMIT, None, "")


def test_tls_alone() -> None:
    mine = greeting(tls=True)
    assert mine.hear(StartTlsRequest(), is_v2=False) == (Then.START_TLS, StartTlsResponse(EOK), "")
    assert not mine.is_welcome
    assert mine.enter_tls(None)
    assert mine.is_welcome
    again = mine.hear(StartTlsRequest(), is_v2=False)
    assert again[:2] == (Then.GO_ON, ErrorResponse(EBADREQ, OperationType.START_TLS))
    assert mine.hear(add(L1, 0), is_v2=True).then is Then.SUBMIT


def test_sasl_alone() -> None:
    mine = greeting(sasl=True)
    refused = mine.hear(StartTlsRequest(), is_v2=False)
    assert refused[:2] == (Then.GO_ON, ErrorResponse(EBADREQ, OperationType.START_TLS))
    verdict = log_in(mine, "alice", "secret")
    assert verdict.then is Then.ADMIT
    assert verdict.response.payload.startswith(b"rspauth=")
    assert mine.is_welcome


@pytest.mark.parametrize(
    ("user", "password", "words"),
    [
        ("alice", "wrong", "no such user, or another password"),
        ("mallory", "secret", "no such user, or another password"),
        ("bob", "hidden", "not among saslJaasClientAllowedIds"),
    ],
)
def test_who_does_not_get_in_hears_the_same(user: str, password: str, words: str) -> None:
    mine = greeting(sasl=True)
    verdict = log_in(mine, user, password)
    assert verdict[:2] == (Then.CLOSE, ErrorResponse(EUA, OperationType.AUTH))
    assert words in verdict.reason
    assert password not in verdict.reason
    assert not mine.is_welcome
    again = mine.hear(auth(b""), is_v2=False)
    assert again.then is Then.CLOSE, "one attempt for each connection"


def test_sasl_belongs_inside_of_tls() -> None:
    mine = greeting(sasl=True, tls=True)
    assert mine.hear(auth(b""), is_v2=False)[:2] == (
        Then.GO_ON,
        ErrorResponse(EUA, OperationType.AUTH),
    )
    assert mine.hear(StartTlsRequest(), is_v2=False).then is Then.START_TLS
    assert mine.may_come_early(auth(b"")), "as Java's client sends it"
    assert not mine.may_come_early(auth(b"x"))
    assert not mine.may_come_early(add(L1, 0))
    assert not mine.may_come_early(auth(b"", "other"))
    mine.enter_tls(None)
    assert not mine.may_come_early(auth(b"")), "it is where it belongs"
    assert not mine.is_welcome
    assert mine.hear(add(L1, 0), is_v2=True).then is Then.GO_ON
    assert log_in(mine, "alice", "secret").then is Then.ADMIT
    assert mine.is_welcome
    assert not greeting(tls=True).may_come_early(auth(b"")), "no client need authenticate"
    assert not greeting(sasl=True).may_come_early(auth(b"")), "there is no TLS to wait for"


def test_authentication_that_is_not_asked_for() -> None:
    verdict = greeting(tls=True).hear(auth(b"x", "other"), is_v2=False)
    assert verdict[:2] == (Then.GO_ON, AuthResponse(EOK, DISABLED, b""))


def test_another_plugin() -> None:
    verdict = greeting(sasl=True).hear(auth(b"", "other"), is_v2=False)
    assert verdict[:2] == (Then.GO_ON, ErrorResponse(EUA, OperationType.AUTH))
    assert greeting(sasl=True).hear(auth(b"", "other"), is_v2=True).then is Then.CLOSE


def test_roles() -> None:
    shown: list[bytes | None] = []

    def has_role(certificate: bytes | None) -> bool:
        shown.append(certificate)
        return certificate == b"good"

    for certificate in (b"good", b"bad", None):
        mine = greeting(tls=True, plain=True, has_role=has_role)
        assert mine.hear(add(L1, 0), is_v2=False).then is Then.GO_ON, "no role without TLS"
        assert mine.enter_tls(certificate) is (certificate == b"good")
        assert mine.is_welcome is (certificate == b"good")
        served = mine.hear(add(L1, 0), is_v2=False).then is Then.SUBMIT
        assert served is (certificate == b"good")
    assert shown == [b"good", b"bad", None]


def test_requests_are_counted() -> None:
    mine = greeting(sasl=True)
    for _ in range(REQUESTS_MAX - 1):
        assert mine.hear(read(L1, 0), is_v2=False).then is Then.GO_ON
    last = mine.hear(read(L1, 0), is_v2=False)
    assert last.then is Then.CLOSE
    assert last.response == ErrorResponse(EUA, OperationType.READ_ENTRY)
