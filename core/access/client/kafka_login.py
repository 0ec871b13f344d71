"""A log-in by SASL in Kafka's requests (KIP-43, KIP-152, KIP-368). What carries them is elsewhere.

    SaslHandshake v1: the mechanism  ->  SaslAuthenticate, until the exchange is over

One coroutine for clients on a loop and for those that block: the latter run it at once, since what
they hand to it never waits.
"""

from collections.abc import Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar

from tailrace.core.access.sasl.mechanism import AuthenticationFailed, SaslClientExchange
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE
from tailrace.protocol.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from tailrace.protocol.kafka.messages.sasl_handshake import SaslHandshakeRequest

Q = TypeVar("Q")
R = TypeVar("R")

RENEWED_AT: Final = 0.85
"""Of a session's time; Kafka's clients log in again after 85 to 95 % of it."""
TEXT_CHARS_MAX: Final = 200
"""Of a broker's words in an error."""


class Ask(Protocol):
    """Asks by one connection, one request at a time."""

    async def __call__(self, api: Api[Q, R], request: Q, /) -> R:
        """Return the answer, in the highest version that both sides speak. Errors: its own."""


async def log_in(ask: Ask, exchange: SaslClientExchange) -> float | None:
    """Log in; return after how long to do it again. Unit: s. None: never.

    Errors: AuthenticationFailed, those of `ask`. Cost: two or three requests; with SCRAM
    some milliseconds of CPU.
    """
    wanted = SaslHandshakeRequest(mechanism=exchange.mechanism)
    offered = await ask(SASL_HANDSHAKE, wanted)
    if offered.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationFailed(_not_offered(exchange.mechanism, offered.mechanisms))
    if offered.error_code:
        raise AuthenticationFailed(_refused(offered.error_code, None))
    lasts_ms = 0
    message = await exchange.respond(None)
    while message is not None:  # an exchange has a few messages, and refuses more
        sent = SaslAuthenticateRequest(auth_bytes=message)
        answer = await ask(SASL_AUTHENTICATE, sent)
        if answer.error_code:
            raise AuthenticationFailed(_refused(answer.error_code, answer.error_message))
        lasts_ms = answer.session_lifetime_ms
        message = await exchange.respond(bytes(answer.auth_bytes))
    return lasts_ms / 1000 * RENEWED_AT if lasts_ms > 0 else None


def run_at_once(work: Coroutine[Any, Any, R]) -> R:
    """Run what never waits to its end. Errors: its own."""
    try:
        work.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    work.close()
    raise AssertionError("it waits for something")


def _not_offered(mechanism: str, offered: Sequence[str]) -> str:
    names = ", ".join(offered)[:TEXT_CHARS_MAX]
    return f"the broker does not offer {mechanism}; it offers {names!r}"


def _refused(code: int, text: str | None) -> str:
    name = ErrorCode(code).name if code in ErrorCode._value2member_map_ else str(code)
    return f"the broker refused the log-in: {name}: {(text or '')[:TEXT_CHARS_MAX]!r}"
