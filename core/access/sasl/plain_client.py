"""PLAIN, client side: the server hears the password, so only over TLS. Source: RFC 4616."""

from tailrace.core.access.sasl.mechanism import AuthenticationFailed
from tailrace.core.runtime.config import Secret


class PlainClientExchange:
    """One exchange."""

    mechanism = "PLAIN"

    def __init__(self, user: str, password: Secret) -> None:
        """Errors: AuthenticationFailed for what the mechanism cannot carry."""
        if "\0" in user or "\0" in password.reveal():
            raise AuthenticationFailed("PLAIN: no name and no password may have a NUL")
        self._user = user
        self._password = password

    async def respond(self, challenge: bytes | None) -> bytes | None:
        """Return the one message; None after the server's answer, which is empty.

        Errors: AuthenticationFailed.
        """
        if challenge is None:
            return f"\0{self._user}\0{self._password.reveal()}".encode()
        if challenge:
            raise AuthenticationFailed("PLAIN: the server's answer is not empty")
        return None
