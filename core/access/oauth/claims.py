"""What a token's claims have to say to let a client in, and as which user. Pure.

Source: Kafka 4.3.1 BrokerJwtValidator and ClaimValidationUtils, over jose4j's JwtConsumer.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tailrace.core.access.oauth.compact import NAME_CHARS_MAX, TokenRefused
from tailrace.core.access.oauth.config import OAuthConfig

SECONDS_MAX: Final = 1 << 48
"""Of a time in a token. Unit: seconds since 1970."""


class Bearer(NamedTuple):
    """Who brings a token that is in order."""

    user: str
    expires_at_ms: int


def check_claims(claims: Mapping[str, Any], config: OAuthConfig, now_ms: int) -> Bearer:
    """Return whom a token is for. Errors: TokenRefused."""
    expires_ms = _check_times(claims, config.clock_skew_s * 1000, now_ms)
    _check_issuer(claims, config.expected_issuer)
    _check_audience(claims, config.expected_audience)
    _check_scope(claims.get(config.scope_claim))
    if not isinstance(claims.get("jti"), str | None):
        raise TokenRefused("its jti is not a text")
    return Bearer(_user(claims, config.subject_claim), expires_ms)


def _check_times(claims: Mapping[str, Any], skew_ms: int, now_ms: int) -> int:
    expires_ms, issued_ms = _time(claims, "exp"), _time(claims, "iat")
    if expires_ms is None or issued_ms is None:
        raise TokenRefused(f"it has no {'exp' if expires_ms is None else 'iat'}")
    not_before_ms = _time(claims, "nbf")
    if now_ms - skew_ms >= expires_ms:
        raise TokenRefused("it has expired")
    if not_before_ms is not None and now_ms + skew_ms < not_before_ms:
        raise TokenRefused("it is not valid yet")
    if expires_ms < max(issued_ms, not_before_ms or 0):
        raise TokenRefused("it expires before it begins")
    return expires_ms


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and 0 <= value <= SECONDS_MAX):
        raise TokenRefused(f"its {name} is not a time")
    return int(value) * 1000


def _check_issuer(claims: Mapping[str, Any], expected: str) -> None:
    if expected and claims.get("iss") != expected:
        raise TokenRefused("it is of another issuer")


def _check_audience(claims: Mapping[str, Any], expected: tuple[str, ...]) -> None:
    value = claims.get("aud")
    audience = [value] if isinstance(value, str) else value
    if audience is not None and not _is_texts(audience):
        raise TokenRefused("its aud is not a name or a list of names")
    if expected:
        if audience is None or not set(expected).intersection(audience):
            raise TokenRefused("it is for another audience")
    elif audience is not None:
        raise TokenRefused("it is for an audience and sasl.oauthbearer.expected.audience has none")


def _check_scope(value: Any) -> None:
    scopes = [value] if isinstance(value, str) else value
    if not isinstance(scopes, list):
        return  # as in Kafka: no scope
    if not _is_texts(scopes):
        raise TokenRefused("its scope is not a text or a list of texts")
    stripped = [each.strip() for each in scopes]
    if not all(stripped) or len(set(stripped)) < len(stripped):
        raise TokenRefused("its scope has one that is empty, or there twice")


def _user(claims: Mapping[str, Any], name: str) -> str:
    user = claims.get(name)
    if not isinstance(user, str) or not user.strip():
        raise TokenRefused("it names no user")
    try:
        user.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        raise TokenRefused("its user's name is not Unicode text") from None
    if len(user) > NAME_CHARS_MAX:
        raise TokenRefused(f"its user's name has more than {NAME_CHARS_MAX} characters")
    return user.strip()


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)
