"""A client on a plain socket that logs in by SCRAM, as a user or as the bearer of a token."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE
from tailrace.protocol.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from tailrace.protocol.kafka.messages.sasl_handshake import SaslHandshakeRequest
from tests.cluster.raw import RawClient
from tests.process import TailraceProcess
from tests.unit.core.access.sasl.scram_client import Client

AUTHENTICATE_VERSION = 2


class LogIn(NamedTuple):
    """Who logs in."""

    user: str
    password: str
    by_token: bool = False
    hash_name: str = "sha256"


class LogInFailed(Exception):
    """The broker did not let it in."""


class LoggedIn(NamedTuple):
    """A connection of one that was let in."""

    client: RawClient
    lifetime_ms: int
    """Of its session; 0: as long as the connection."""


@contextmanager
def logged_in(broker: TailraceProcess, who: LogIn) -> Iterator[LoggedIn]:
    """Log in at the broker's first listener. Errors: LogInFailed."""
    with RawClient(broker) as client:
        yield LoggedIn(client, _log_in(client, who))


def _log_in(client: RawClient, who: LogIn) -> int:
    mechanism = f"SCRAM-SHA-{who.hash_name.removeprefix('sha')}"
    client.ask(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=mechanism))
    exchange = Client(who.hash_name, who.user, who.password)
    challenge, _ = _step(client, exchange.first(more=",tokenauth=true" if who.by_token else ""))
    proof, lifetime_ms = _step(client, exchange.final(challenge))
    assert exchange.is_server(proof)
    return lifetime_ms


def _step(client: RawClient, message: bytes) -> tuple[bytes, int]:
    request = SaslAuthenticateRequest(auth_bytes=message)
    answer = client.ask(SASL_AUTHENTICATE, AUTHENTICATE_VERSION, request)
    if answer.error_code:
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        raise LogInFailed(answer.error_message)
    return bytes(answer.auth_bytes), answer.session_lifetime_ms
