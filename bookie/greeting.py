"""What a bookie answers on a connection before the first request of a client that it knows. Pure.

    in clear --START_TLS--> inside of TLS --AUTH...--> known --> its requests are served

Until then every v3 request but START_TLS and AUTH gets EUA, a v2 add or read as well, and other v2
requests end the connection, as by Java's bookie. Where Java's never answers a client that fails to
authenticate, this one answers EUA and ends the connection. Source: reference BookKeeper 1.8;
AuthHandler, SASLBookieAuthProvider, BookieAuthZFactory.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from tailrace.core.security.digest_md5 import DigestFailed, DigestServer
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    AuthRequest,
    AuthResponse,
    ErrorResponse,
    OperationType,
    ReadRequest,
    Request,
    Response,
    StartTlsRequest,
    StartTlsResponse,
    StatusCode,
    operation_of,
)

REQUESTS_MAX: Final = 16
"""Before a client is known; one more ends its connection."""
DISABLED: Final = "AuthDisabledPlugin"
"""Plug-in of a bookie at which no client need authenticate."""
SASL: Final = "sasl"
"""What both sides call SASL."""

_EUA_TO_AUTH: Final = ErrorResponse(StatusCode.EUA, OperationType.AUTH)


class Then(Enum):
    """What follows the answer."""

    GO_ON = "hear the next request"
    START_TLS = "shake hands"
    ADMIT = "let in what comes next"
    SUBMIT = "let in, with this request"
    CLOSE = "end the connection"


class Verdict(NamedTuple):
    """What becomes of a request."""

    then: Then
    response: Response | None = None
    reason: str = ""
    """Of CLOSE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GreetingRules:
    """What a bookie asks of its clients."""

    offers_tls: bool = False
    needs_tls: bool = False
    """Nothing is served in clear."""
    may_enter: Callable[[str], bool] | None = None
    """Whether a user that SASL has authenticated may come in; None: there is no SASL."""
    has_role: Callable[[bytes | None], bool] | None = None
    """Whether a certificate has a role that may enter; None: roles do not matter."""


class Greeting:
    """The beginning of one connection."""

    def __init__(self, rules: GreetingRules, exchange: DigestServer | None = None) -> None:
        """`exchange`: of this connection, where there is SASL."""
        self._rules = rules
        self._exchange = exchange
        self._requests = 0
        self._is_inside = False
        self._is_known = exchange is None and rules.has_role is None

    @property
    def is_welcome(self) -> bool:
        """Whether requests are served from now on."""
        return self._is_known and self._may_authenticate

    def may_come_early(self, request: Request) -> bool:
        """Whether a request may stand in clear beside START_TLS, to be heard after the handshake.

        Java's client begins to authenticate as soon as it is connected, which is before TLS, and
        sends its START_TLS right before or behind that. There is nothing in the message; every
        other one might be of somebody between the two.
        """
        begins = isinstance(request, AuthRequest) and (request.plugin, request.payload) == (
            SASL,
            b"",
        )
        return (
            begins and self._exchange is not None and self._rules.offers_tls and not self._is_inside
        )

    @property
    def needs_tls(self) -> bool:
        """Whether nothing is served in clear."""
        return self._rules.needs_tls

    def enter_tls(self, certificate: bytes | None) -> bool:
        """Take note of the handshake; return whether what was shown in it may enter."""
        self._is_inside = True
        has_role = self._rules.has_role
        if has_role is None:
            return True
        self._is_known = has_role(certificate)
        return self._is_known

    def hear(self, request: Request, *, is_v2: bool) -> Verdict:
        """Say what becomes of a request."""
        self._requests += 1
        if isinstance(request, StartTlsRequest):
            verdict = self._start_tls(request)
        elif isinstance(request, AuthRequest):
            verdict = self._authenticate(request, is_v2=is_v2)
        elif self.is_welcome:
            return Verdict(Then.SUBMIT)
        else:
            verdict = _refused(request, is_v2=is_v2)
        if verdict.then is Then.GO_ON and self._requests >= REQUESTS_MAX:
            return Verdict(Then.CLOSE, verdict.response, "too many requests before it is known")
        return verdict

    def _start_tls(self, request: StartTlsRequest) -> Verdict:
        if self._is_inside or not self._rules.offers_tls:
            return Verdict(Then.GO_ON, ErrorResponse(StatusCode.EBADREQ, operation_of(request)))
        return Verdict(Then.START_TLS, StartTlsResponse(StatusCode.EOK))

    def _authenticate(self, request: AuthRequest, *, is_v2: bool) -> Verdict:
        if self._is_known:
            return Verdict(Then.GO_ON, AuthResponse(StatusCode.EOK, DISABLED, b""))
        exchange = self._exchange if self._may_authenticate and request.plugin == SASL else None
        if exchange is None:
            if is_v2:  # which has no words for it
                return Verdict(Then.CLOSE, reason=f"AUTH for plug-in {request.plugin[:64]!r}")
            return Verdict(Then.GO_ON, _EUA_TO_AUTH)
        try:
            token = exchange.evaluate(bytes(request.payload))
            self._check(exchange.user)
        except DigestFailed as error:
            return Verdict(Then.CLOSE, _EUA_TO_AUTH, f"authentication failed: {error}")
        then = Then.ADMIT if self.is_welcome else Then.GO_ON
        return Verdict(then, AuthResponse(StatusCode.EOK, SASL, token))

    @property
    def _may_authenticate(self) -> bool:
        """Whether this is the place: what belongs inside of TLS is not answered outside of it."""
        return self._is_inside or not self._rules.needs_tls

    def _check(self, user: str | None) -> None:
        """Know a client once the exchange is over."""
        if user is not None:
            assert self._rules.may_enter is not None, "there is SASL"
            if not self._rules.may_enter(user):
                raise DigestFailed(f"{user!r} is not among saslJaasClientAllowedIds")
            self._is_known = True


def _refused(request: Request, *, is_v2: bool) -> Verdict:
    if is_v2 and not isinstance(request, AddRequest | ReadRequest):
        return Verdict(Then.CLOSE, reason=f"{type(request).__name__} before it is known")
    return Verdict(Then.GO_ON, ErrorResponse(StatusCode.EUA, operation_of(request)))
