"""A delegation token, and what time and its holders do to it. Pure.

Source: Kafka 4.3.1 DelegationTokenControlManager, TokenInformation.
"""

from typing import Final, NamedTuple

from tailrace.core.access.tokens.config import TokensConfig
from tailrace.protocol.errors import ErrorCode

RENEWERS_MAX: Final = 100
PRINCIPALS_CHARS_MAX: Final = 16 * 1024
"""Of all that one token names."""


class TokenRefused(Exception):
    """Something that is not done with a token, by Kafka's code."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class Token(NamedTuple):
    """One token. Principals are TYPE:NAME; times are ms since 1970."""

    token_id: str
    owner: str
    """As whom its bearer acts."""
    requester: str
    """Who had it made."""
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    """When it has to have been renewed."""
    ends_ms: int
    """Until when it can be."""

    def is_over(self, now_ms: int) -> bool:
        """Whether it lets nobody in any more."""
        return min(self.expires_ms, self.ends_ms) < now_ms

    @property
    def principals(self) -> tuple[str, ...]:
        """All that it has to do with; they may see it without being allowed to see others'."""
        return self.owner, self.requester, *self.renewers


class Wanted(NamedTuple):
    """A token that somebody asks for."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    lifetime_ms: int
    """Not above 0: as long as is possible."""


def new_token(wanted: Wanted, token_id: str, config: TokensConfig, now_ms: int) -> Token:
    """Return what is made of a wish. Errors: TokenRefused."""
    principals = (wanted.owner, wanted.requester, *wanted.renewers)
    if any(not each.startswith("User:") for each in principals):
        code = ErrorCode.INVALID_PRINCIPAL_TYPE
        raise TokenRefused(code, "owners and renewers of tokens are users")
    if len(wanted.renewers) > RENEWERS_MAX or sum(map(len, principals)) > PRINCIPALS_CHARS_MAX:
        raise TokenRefused(
            ErrorCode.INVALID_REQUEST,
            f"more than {RENEWERS_MAX} renewers, or {PRINCIPALS_CHARS_MAX} characters of names",
        )
    lifetime_ms = config.lifetime_ms_max
    if wanted.lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, wanted.lifetime_ms)
    ends_ms = now_ms + lifetime_ms
    expires_ms = min(ends_ms, now_ms + config.renewal_ms)
    renewers = tuple(dict.fromkeys(wanted.renewers))
    return Token(token_id, wanted.owner, wanted.requester, renewers, now_ms, expires_ms, ends_ms)


def renewed(
    token: Token | None, principal: str, period_ms: int, config: TokensConfig, now_ms: int
) -> Token:
    """Return a token that can be used for longer. Errors: TokenRefused."""
    token = _there(token)
    _check_is_not_over(token, now_ms)
    _check_may_change(token, principal)
    period_ms = min(config.renewal_ms, period_ms) if period_ms > 0 else config.renewal_ms
    return token._replace(expires_ms=min(token.ends_ms, now_ms + period_ms))


def expiring(token: Token | None, principal: str, period_ms: int, now_ms: int) -> Token | None:
    """Return a token that ends after a period; None: at once, below 0. Errors: TokenRefused."""
    token = _there(token)
    _check_may_change(token, principal)
    if period_ms < 0:
        return None
    _check_is_not_over(token, now_ms)
    return token._replace(expires_ms=min(token.ends_ms, now_ms + period_ms))


def _there(token: Token | None) -> Token:
    if token is None:
        raise TokenRefused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "there is no such token")
    return token


def _check_is_not_over(token: Token, now_ms: int) -> None:
    if token.is_over(now_ms):
        raise TokenRefused(ErrorCode.DELEGATION_TOKEN_EXPIRED, "the token has expired")


def _check_may_change(token: Token, principal: str) -> None:
    """As in Kafka, not its requester, though it may see it."""
    if principal not in (token.owner, *token.renewers):
        code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        raise TokenRefused(code, "only its owner and renewers may change a token")
