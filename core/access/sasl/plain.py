"""PLAIN, server side (RFC 4616): authorization id, NUL, user, NUL, password.

The password is what it is: listeners that take it should speak TLS.
Source: org.apache.kafka.common.security.plain.internals.PlainSaslServer.
"""

from typing import Final, Protocol

from tailrace.core.access.sasl.mechanism import (
    Authenticated,
    AuthenticationFailed,
    SaslExchange,
    Step,
)

MECHANISM: Final = "PLAIN"
MESSAGE_BYTES_MAX: Final = 16 * 1024

_OTHER_IDENTITY: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
_WRONG: Final = "Authentication failed: Invalid username or password"


class Passwords(Protocol):
    """Knows whether a password is a user's."""

    async def is_right(self, user: str, password: str) -> bool:
        """Whether it is. Errors: OverCapacity, Unavailable: it cannot be checked just now."""


class Plain:
    """The mechanism, as a server offers it."""

    name: Final = MECHANISM

    def __init__(self, passwords: Passwords) -> None:
        self._passwords = passwords

    def exchange(self) -> SaslExchange:
        """Begin an exchange."""
        return PlainServerExchange(self._passwords)


class PlainServerExchange:
    """One exchange: one message."""

    def __init__(self, passwords: Passwords) -> None:
        self._passwords = passwords

    async def evaluate(self, message: bytes) -> Step:
        """Answer the message. Errors: AuthenticationFailed; CoreError: it cannot be checked."""
        authorization_id, user, password = _parts(message)
        if not await self._passwords.is_right(user, password):
            raise AuthenticationFailed(_WRONG, "no such user, or wrong password")
        if authorization_id not in ("", user):
            raise AuthenticationFailed(_OTHER_IDENTITY)
        return Step(b"", Authenticated(user, MECHANISM))


def _parts(message: bytes) -> list[str]:
    if len(message) > MESSAGE_BYTES_MAX:
        raise AuthenticationFailed(_WRONG, "a message of more than 16 KiB")
    try:
        parts = str(message, "utf-8").split("\0")
    except UnicodeDecodeError:
        raise AuthenticationFailed(_WRONG, "a message that is not UTF-8") from None
    if len(parts) != 3:
        text = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
        raise AuthenticationFailed(text, "a message that is not of three parts")
    if not parts[1]:
        raise AuthenticationFailed("Authentication failed: username not specified")
    if not parts[2]:
        raise AuthenticationFailed("Authentication failed: password not specified")
    return parts
