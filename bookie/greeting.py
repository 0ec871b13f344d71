"""What a bookie answers on a connection before the first request of a client that it knows. Pure.

    in clear --START_TLS--> inside of TLS --AUTH...--> known --> its requests are served

Until then every v3 request but START_TLS and AUTH gets EUA, a v2 add or read as well, and other v2
requests end the connection, as by Java's bookie. Source: reference BookKeeper 1.8; AuthHandler.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    AuthRequest,
    AuthResponse,
    ErrorResponse,
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
"""What Java's bookie calls itself where nobody need authenticate."""


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


@dataclass(frozen=True, slots=True)
class GreetingRules:
    """What a bookie asks of its clients."""

    offers_tls: bool
    needs_tls: bool
    """Nothing is served in clear."""


class Greeting:
    """The beginning of one connection."""

    def __init__(self, rules: GreetingRules) -> None:
        self._rules = rules
        self._requests = 0
        self._is_inside = False

    @property
    def is_welcome(self) -> bool:
        """Whether requests are served from now on."""
        return self._is_inside or not self._rules.needs_tls

    def enter_tls(self) -> None:
        """Take note that the handshake is over."""
        self._is_inside = True

    def hear(self, request: Request, *, is_v2: bool) -> Verdict:
        """Say what becomes of a request."""
        self._requests += 1
        if isinstance(request, StartTlsRequest):
            verdict = self._start_tls(request)
        elif isinstance(request, AuthRequest):
            verdict = Verdict(Then.GO_ON, AuthResponse(StatusCode.EOK, DISABLED, b""))
        elif self.is_welcome:
            return Verdict(Then.SUBMIT)
        else:
            verdict = self._refuse(request, is_v2=is_v2)
        if verdict.then is Then.GO_ON and self._requests >= REQUESTS_MAX:
            return Verdict(Then.CLOSE, verdict.response, "too many requests before it is known")
        return verdict

    def _refuse(self, request: Request, *, is_v2: bool) -> Verdict:
        if is_v2 and not isinstance(request, AddRequest | ReadRequest):
            return Verdict(Then.CLOSE, reason=f"{type(request).__name__} before it is known")
        return Verdict(Then.GO_ON, ErrorResponse(StatusCode.EUA, operation_of(request)))

    def _start_tls(self, request: StartTlsRequest) -> Verdict:
        if self._is_inside or not self._rules.offers_tls:
            return Verdict(Then.GO_ON, ErrorResponse(StatusCode.EBADREQ, operation_of(request)))
        return Verdict(Then.START_TLS, StartTlsResponse(StatusCode.EOK))
