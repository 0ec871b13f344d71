"""Who calls over HTTP or gRPC, where each call brings what it proves itself by.

    header, certificate -> scheme -> password or token is checked -> requester

A call that fails is answered late, as Kafka's failed authentications are. An address has so many
calls being checked and no more, the others wait: so it fails at most `ADDRESS_CHECKS_MAX` times in
that time. How many may wait is the limit of the server's calls.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from tailrace.core.access.authorization_header import (
    BadAuthorization,
    Basic,
    BearerToken,
    authorization_of,
)
from tailrace.core.access.oauth.claims import Bearer
from tailrace.core.access.oauth.compact import TokenRefused
from tailrace.core.access.oauth.config import OAuthConfig
from tailrace.core.access.principals import NoUser, PrincipalRules
from tailrace.core.access.requester import Requester
from tailrace.core.access.sasl.mechanism import AuthenticationFailed
from tailrace.core.errors import OverCapacity
from tailrace.core.runtime.config import ConfigError

Scheme: TypeAlias = Literal["basic", "bearer", "certificate"]
"""How a caller may prove itself."""

ADDRESS_CHECKS_MAX: Final = 16
"""Calls of one address that are checked, or wait for the answer that they failed, at once."""
TURN_S: Final = 10.0
"""How long a call waits for its turn among those of its address."""
ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a call without authentication, as in Kafka."""

_WRONG: Final = "the user or the password is wrong"


class Passwords(Protocol):
    """What knows users' passwords."""

    async def is_right(self, user: str, password: str) -> bool:
        """Return whether it is the user's; as fast for an unknown one.

        Errors: OverCapacity, Unavailable: it could not be checked.
        """


Tokens: TypeAlias = Callable[[str], Awaitable[Bearer]]
"""Says whom a token is for. Errors: TokenRefused."""


class Call(NamedTuple):
    """What is known of a call before it is let in."""

    host: str
    """Address of the caller."""
    authorization: str | None = None
    """Its header."""
    certificate: bytes | None = None
    """What the caller showed in the TLS handshake, which has verified it. Shape: DER."""

    @property
    def brings(self) -> str:
        """By what the caller means to prove itself, for an audit log; empty: by nothing."""
        if self.authorization is None:
            return "" if self.certificate is None else "certificate"
        scheme = self.authorization.partition(" ")[0].lower()
        return scheme if scheme in ("basic", "bearer") else "unknown"


class Caller(NamedTuple):
    """Who calls."""

    requester: Requester
    expires_at_ms: int | None = None
    """When what it proved itself by ends; None: never."""


class Means(NamedTuple):
    """By what callers can be known; None: not by this."""

    passwords: Passwords | None = None
    tokens: Tokens | None = None
    user_of_certificate: Callable[[bytes], str] | None = None
    """Errors: AuthenticationFailed: the name in it is nobody's."""

    @property
    def schemes(self) -> tuple[str, ...]:
        """Those of the header, as WWW-Authenticate names them."""
        found = (("Basic", self.passwords), ("Bearer", self.tokens))
        return tuple(name for name, means in found if means is not None)

    @property
    def is_open(self) -> bool:
        """Whether callers stay unknown."""
        return not self.schemes and self.user_of_certificate is None


class _Address:
    """The calls of one address."""

    __slots__ = ("calls", "turns")

    def __init__(self) -> None:
        self.calls = 0
        self.turns = asyncio.Semaphore(ADDRESS_CHECKS_MAX)


class Callers:
    """Says who calls. All calls come from the loop.

    Invariant: of an address at most `ADDRESS_CHECKS_MAX` calls are checked, or about to be told
    that they failed.
    """

    def __init__(self, means: Means, failure_delay_ms: Callable[[], int]) -> None:
        self.means = means
        self._failure_delay_ms = failure_delay_ms
        self._addresses: dict[str, _Address] = {}

    async def caller(self, call: Call) -> Caller:
        """Return who calls. Of several things that a call brings, its header counts.

        Errors: AuthenticationFailed, after the delay of failures; OverCapacity: too many calls of
        this address were checked for `TURN_S`, or too many of all are; Unavailable: it could not be
        checked. Cost: microseconds for a password that was right before.
        """
        if self.means.is_open:
            return Caller(Requester(ANONYMOUS, call.host))
        if call.authorization is None and call.certificate is None:
            raise AuthenticationFailed("authentication is needed")
        address = self._addresses.setdefault(call.host, _Address())
        address.calls += 1
        try:
            return await self._checked(call, address)
        finally:
            address.calls -= 1
            if not address.calls:
                del self._addresses[call.host]

    async def _checked(self, call: Call, address: _Address) -> Caller:
        try:
            async with asyncio.timeout(TURN_S):
                await address.turns.acquire()
        except TimeoutError:
            raise OverCapacity("too many calls of this address are being checked") from None
        try:
            user, expires_at_ms = await self._known(call)
            return Caller(Requester(f"User:{user}", call.host), expires_at_ms)
        except AuthenticationFailed:
            await asyncio.sleep(self._failure_delay_ms() / 1000)
            raise
        finally:
            address.turns.release()

    async def _known(self, call: Call) -> tuple[str, int | None]:
        """Return the user, and until when. Errors: as `caller`."""
        passwords, tokens, of_certificate = self.means
        if call.authorization is None:
            if of_certificate is None or call.certificate is None:
                raise AuthenticationFailed("authentication is needed")
            return of_certificate(call.certificate), None
        try:
            brought = authorization_of(call.authorization)
        except BadAuthorization as error:
            raise AuthenticationFailed(f"authorization: {error}") from None
        if isinstance(brought, BearerToken) and tokens is not None:
            try:
                return await tokens(brought.token)
            except TokenRefused as error:
                raise AuthenticationFailed("the token is not valid", str(error)) from None
        if isinstance(brought, Basic) and passwords is not None:
            if await passwords.is_right(brought.user, brought.password):
                return brought.user, None
            raise AuthenticationFailed(_WRONG, f"wrong password, or unknown user {brought.user!r}")
        raise AuthenticationFailed("authorization: this scheme is not accepted here")


def check_schemes(setting: str, schemes: Collection[Scheme], oauth: OAuthConfig) -> None:
    """Refuse schemes for which something is missing. Errors: ConfigError names `setting`."""
    if "bearer" in schemes and not oauth.jwks_url:
        raise ConfigError(f"{setting}: bearer needs sasl.oauthbearer.jwks.endpoint.url")


def user_of_certificate(rules: PrincipalRules) -> Callable[[bytes], str]:
    """Return what finds the user of a client's certificate, as a Kafka listener does."""

    def user_of(certificate: bytes) -> str:
        from tailrace.core.security.distinguished_name import subject_of  # 60 ms, once

        try:
            return rules.user_of(subject_of(certificate))
        except NoUser as error:
            text = "the certificate is not that of a user"
            raise AuthenticationFailed(text, str(error)) from None

    return user_of
