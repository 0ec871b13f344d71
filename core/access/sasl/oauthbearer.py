"""OAUTHBEARER, server side (RFC 7628): a client proves itself by a bearer token.

A token that is refused is answered as the RFC says, by a JSON object that names the kind of error
and nothing of the reason; the client's answer to that ends the exchange. Extensions are read and,
as in Kafka without a handler of one's own, of no effect.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from tailrace.core.access.oauth.claims import Bearer
from tailrace.core.access.oauth.compact import TokenRefused
from tailrace.core.access.sasl.mechanism import (
    Authenticated,
    AuthenticationFailed,
    SaslExchange,
    Step,
)
from tailrace.core.access.sasl.oauthbearer_messages import (
    ABORT,
    INVALID_TOKEN,
    BadMessage,
    parse_initial_response,
)

OAUTHBEARER: Final = "OAUTHBEARER"
FAILED: Final = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism "
    f"{OAUTHBEARER}"
)
OTHER_IDENTITY: Final = (
    "Authentication failed: Client requested an authorization id that is different from the "
    "token's principal name"
)


class OAuthBearer:
    """The mechanism, as a server offers it."""

    def __init__(self, check: Callable[[str], Awaitable[Bearer]]) -> None:
        """`check`: as TokenValidator's, raises TokenRefused."""
        self._check = check

    @property
    def name(self) -> str:
        """As clients call it."""
        return OAUTHBEARER

    def exchange(self) -> SaslExchange:
        """Begin an exchange."""
        return OAuthBearerExchange(self._check)


class OAuthBearerExchange:
    """One exchange: a token, and after one that was refused the client's acknowledgement."""

    def __init__(self, check: Callable[[str], Awaitable[Bearer]]) -> None:
        self._check = check
        self._refusal: str | None = None

    async def evaluate(self, message: bytes) -> Step:
        """Answer a message. Errors: AuthenticationFailed."""
        if self._refusal is not None:
            text = '{"status":"invalid_token"}' if message == ABORT else FAILED
            raise AuthenticationFailed(text, self._refusal)
        try:
            first = parse_initial_response(message)
        except BadMessage as error:
            raise AuthenticationFailed(FAILED, str(error)) from None
        try:
            bearer = await self._check(first.token)
        except TokenRefused as error:
            self._refusal = f"token refused: {error}"
            return Step(INVALID_TOKEN)
        if first.authorization_id not in ("", bearer.user):
            raise AuthenticationFailed(OTHER_IDENTITY, "authorization id of another user")
        return Step(b"", Authenticated(bearer.user, OAUTHBEARER, bearer.expires_at_ms))
