"""What a SASL mechanism is to the door that it stands at: a Kafka listener, a bookie, gRPC."""

from typing import NamedTuple, Protocol


class Authenticated(NamedTuple):
    """Who came in."""

    user: str
    mechanism: str
    expires_at_ms: int | None = None
    """When what it proved itself by ends (a token's time); None: never."""
    token_id: str | None = None
    """The delegation token that it came by (KIP-48): with one it may not make others."""


class Step(NamedTuple):
    """A server's answer to one message of a client."""

    message: bytes
    authenticated: Authenticated | None = None
    """None: the exchange goes on."""


class AuthenticationFailed(Exception):
    """The exchange is over. The text goes to the client: it says nothing of users or passwords."""

    def __init__(self, text: str, reason: str = "") -> None:
        """`reason`: for the own log and the audit log, without secrets."""
        super().__init__(text)
        self.reason = reason or text


class SaslExchange(Protocol):
    """One exchange with one client, server side. A message at a time, in order."""

    async def evaluate(self, message: bytes) -> Step:
        """Answer a message. Errors: AuthenticationFailed. What takes long runs off the loop."""


class SaslMechanism(Protocol):
    """One mechanism, as a server offers it; the exchanges share it."""

    @property
    def name(self) -> str:
        """As clients call it: PLAIN, SCRAM-SHA-256."""

    def exchange(self) -> SaslExchange:
        """Begin an exchange."""


class SaslClientExchange(Protocol):
    """One exchange, client side."""

    @property
    def mechanism(self) -> str:
        """As servers call it."""

    async def respond(self, challenge: bytes | None) -> bytes | None:
        """Return what to send next, None when the server has proved itself and all is over.

        `challenge` None: the first message. Errors: AuthenticationFailed: it is not the server that
        knows the password, or it sent what is not the mechanism's.
        """
