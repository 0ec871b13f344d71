"""SCRAM-SHA-256 and SCRAM-SHA-512, client side: the server has to know the password, too.

Names and passwords are UTF-8 as they are, as Kafka's clients send them: no SASLprep. No channel
binding. Source: RFC 5802, RFC 7677; Kafka's ScramSaslClient.
"""

import base64
import hmac
import secrets
from typing import Final

from tailrace.core.access.sasl.mechanism import AuthenticationFailed
from tailrace.core.access.sasl.scram_messages import (
    BadMessage,
    ClientFirst,
    client_proof,
    parse_server_final,
    parse_server_first,
    server_signature,
)
from tailrace.core.access.sasl.work import Work
from tailrace.core.access.users.credentials import (
    ITERATIONS_MIN,
    ScramMechanism,
    credential_from,
    salted_password,
)
from tailrace.core.runtime.config import Secret

ITERATIONS_ACCEPTED_MAX: Final = 1_000_000
"""A server that asks for more is not logged in to: each is work of ours. librdkafka's bound."""

_NONCE_BYTES: Final = 24


class ScramClientExchange:
    """One exchange."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        first: ClientFirst,
        password: Secret,
        work: Work,
    ) -> None:
        """`first`: the message to begin with; its nonce is `fresh_nonce()`."""
        self.mechanism = mechanism.sasl_name
        self._kind = mechanism
        self._first = first
        self._password = password
        self._work = work
        self._signature: bytes | None = None
        """What the server has to show, once the proof was sent."""

    async def respond(self, challenge: bytes | None) -> bytes | None:
        """Return what to send next; None: the server has proved that it knows the password.

        Errors: AuthenticationFailed.
        """
        if challenge is None:
            return f"{self._first.gs2_header}{self._first.bare}".encode()
        try:
            if self._signature is None:
                return await self._proof(challenge)
            shown = parse_server_final(challenge)
        except BadMessage as error:
            raise AuthenticationFailed(f"{self.mechanism}: {error}") from error
        if not hmac.compare_digest(shown, self._signature):
            raise self._failed("the server does not know the password: it is another server")
        return None

    async def _proof(self, challenge: bytes) -> bytes:
        """Return the last message. Errors: AuthenticationFailed, BadMessage."""
        asked = parse_server_first(challenge)
        if not asked.nonce.startswith(self._first.nonce) or asked.nonce == self._first.nonce:
            raise self._failed("the server's nonce is not one for this exchange")
        if not ITERATIONS_MIN <= asked.iterations <= ITERATIONS_ACCEPTED_MAX:
            raise self._failed(
                f"the server asks for {asked.iterations} iterations; {ITERATIONS_MIN} to "
                f"{ITERATIONS_ACCEPTED_MAX} are accepted"
            )
        header = base64.b64encode(self._first.gs2_header.encode()).decode()
        without_proof = f"c={header},r={asked.nonce}"
        signed = b",".join([self._first.bare.encode(), challenge, without_proof.encode()])
        password = self._password.reveal().encode()
        salted = await self._work(
            lambda: salted_password(self._kind, password, asked.salt, asked.iterations)
        )
        server_key = credential_from(self._kind, salted, asked.salt, asked.iterations).server_key
        self._signature = server_signature(self._kind, server_key, signed)
        proof = base64.b64encode(client_proof(self._kind, salted, signed)).decode()
        return f"{without_proof},p={proof}".encode()

    def _failed(self, text: str) -> AuthenticationFailed:
        return AuthenticationFailed(f"{self.mechanism}: {text}")


def fresh_nonce() -> str:
    """Return what no other exchange begins with."""
    return base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()
