"""What a client of a SASL listener may ask when, and how long it is known. Pure.

    START --ApiVersions--> VERSIONED --SaslHandshake--> EXCHANGE --tokens--> KNOWN
      `-------------------SaslHandshake-------------------^ |                  |
                                              failed: OVER <'  re-authentication: SaslHandshake

A refusal says what the client is answered, and whether its connection ends. Times are the caller's.
Source: org.apache.kafka.common.security.authenticator.SaslServerAuthenticator, KafkaChannel.
maybeBeginServerReauthentication, KafkaApis.handleSaslHandshakeRequest; KIP-43, 152, 368.
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from tailrace.core.access.sasl.mechanism import Authenticated
from tailrace.protocol.errors import ErrorCode

REAUTH_DISTANCE_S: Final = 1.0
"""A connection authenticates again once in so long at most."""

SHOWN: Final = 32
"""Characters of a mechanism that is not one, for the log."""


class Phase(Enum):
    """Where a connection is."""

    START = auto()
    """Nothing came yet."""
    VERSIONED = auto()
    """ApiVersions was answered."""
    EXCHANGE = auto()
    """A mechanism was chosen; its tokens come."""
    KNOWN = auto()
    """It is authenticated."""
    OVER = auto()
    """It failed, and is closed."""


class Refusal(NamedTuple):
    """Why something is not done."""

    code: ErrorCode
    text: str
    """For the client."""
    ends: bool = True
    """Whether the connection is closed after the answer, if the request has a place for one."""
    is_silent: bool = False
    """Whether the client is not answered, only closed, as Kafka does."""


class SaslSession:
    """One connection's authentication, from its first byte to its last."""

    def __init__(self, mechanisms: Sequence[str], reauth_ms_max: int) -> None:
        """`reauth_ms_max`: how long a client is known; 0: as long as its connection."""
        self.phase = Phase.START
        self.mechanism = ""
        """The one that was chosen last."""
        self.known: Authenticated | None = None
        """Who it is; kept while it authenticates again."""
        self.ends_s: float | None = None
        """When it is not known any more; None: never."""
        self.is_bare = False
        """Whether tokens come in frames of their own, without a request around (handshake v0)."""
        self._mechanisms = tuple(mechanisms)
        self._reauth_ms_max = reauth_ms_max
        self._began_again_s = float("-inf")
        self._other_mechanism = ""
        """What the tokens of an exchange that may not be are answered with."""

    def versions(self) -> Refusal | None:
        """Take an ApiVersions request of a version that is served."""
        if self.phase is Phase.START:
            self.phase = Phase.VERSIONED
            return None
        if self.phase is Phase.EXCHANGE:
            return self._unexpected("ApiVersions")
        return self._silently("a second ApiVersions")

    def handshake(self, mechanism: str, version: int, now_s: float) -> Refusal | None:
        """Take the choice of a mechanism."""
        if self.phase is Phase.KNOWN:
            return self._handshake_again(mechanism, version, now_s)
        if self.phase is Phase.EXCHANGE:
            return self._unexpected("SaslHandshake")
        if self.phase is Phase.OVER:
            return self._silently("SaslHandshake after the end")
        return self._choose(mechanism, is_bare=version == 0)

    def token(self) -> Refusal | None:
        """Take a token, bare or in a SaslAuthenticate."""
        if self.phase is Phase.EXCHANGE:
            if not self._other_mechanism:
                return None
            self.phase = Phase.OVER
            return Refusal(ErrorCode.SASL_AUTHENTICATION_FAILED, self._other_mechanism)
        if self.phase is Phase.KNOWN:
            text = "SaslAuthenticate request received after successful authentication"
            return Refusal(ErrorCode.ILLEGAL_SASL_STATE, text, ends=False)
        return self._silently("Unexpected Kafka request of type SASL_AUTHENTICATE")

    def other(self, api: str, now_s: float) -> Refusal | None:
        """Take a request that is not about authentication; None: it may be done."""
        if self.phase is Phase.KNOWN:
            return self._silently("its session is over") if self.is_expired(now_s) else None
        if self.phase is Phase.EXCHANGE:
            return self._unexpected(api)
        return self._silently(f"Unexpected Kafka request of type {api} during SASL handshake.")

    def succeed(self, who: Authenticated, now_ms: int, now_s: float) -> int | Refusal:
        """Note who it is; return how long it is known (ms, 0: as long as the connection).

        A refusal: it is another than before.
        """
        if self.known is not None and who.user != self.known.user:
            self.phase = Phase.OVER
            text = (
                "Cannot change principals during re-authentication from "
                f"User.{self.known.user}: User.{who.user}"
            )
            return Refusal(ErrorCode.SASL_AUTHENTICATION_FAILED, text)
        self.phase, self.known = Phase.KNOWN, who
        limits = [self._reauth_ms_max] if self._reauth_ms_max else []
        if who.expires_at_ms is not None:
            limits.append(max(who.expires_at_ms - now_ms, 0))
        self.ends_s = now_s + min(limits) / 1000 if limits else None
        return min(limits, default=0)

    def fail(self) -> None:
        """Note that the exchange failed."""
        self.phase = Phase.OVER

    def is_expired(self, now_s: float) -> bool:
        """Whether it was known, and is not any more."""
        return self.ends_s is not None and now_s > self.ends_s

    def _handshake_again(self, mechanism: str, version: int, now_s: float) -> Refusal | None:
        too_soon = now_s - self._began_again_s < REAUTH_DISTANCE_S
        if self.ends_s is None or too_soon or version == 0:
            text = "SaslHandshake request received after successful authentication"
            return Refusal(ErrorCode.ILLEGAL_SASL_STATE, text, ends=False)
        self._began_again_s = now_s
        if mechanism != self.mechanism:
            self._other_mechanism = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{self.mechanism}'"
            )
        return self._choose(mechanism, is_bare=False)

    def _choose(self, mechanism: str, *, is_bare: bool) -> Refusal | None:
        if mechanism not in self._mechanisms:
            self.phase = Phase.OVER
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return Refusal(code, f"Unsupported SASL mechanism {mechanism[:SHOWN]!r}")
        self.phase, self.mechanism, self.is_bare = Phase.EXCHANGE, mechanism, is_bare
        return None

    def _unexpected(self, api: str) -> Refusal:
        self.phase = Phase.OVER
        text = f"Unexpected Kafka request of type {api} during SASL authentication."
        return Refusal(ErrorCode.ILLEGAL_SASL_STATE, text)

    def _silently(self, text: str) -> Refusal:
        self.phase = Phase.OVER
        return Refusal(ErrorCode.ILLEGAL_SASL_STATE, text, is_silent=True)
