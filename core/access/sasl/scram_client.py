"""SCRAM-SHA-256 and SCRAM-SHA-512, client side: the server has to know the password, too.

    client-first -> server-first (salt, iterations) -> client-final (proof) -> server-final

Names and passwords are UTF-8 as they are, as Kafka's clients send them: no SASLprep. No channel
binding. Source: RFC 5802, RFC 7677; Kafka's ScramSaslClient.
"""

import base64
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac
from typing import Final, NamedTuple

from tailrace.core.access.sasl.mechanism import AuthenticationFailed
from tailrace.core.access.users.credentials import ITERATIONS_MIN, ScramMechanism
from tailrace.core.runtime.config import Secret

ITERATIONS_ACCEPTED_MAX: Final = 1_000_000
"""A server that asks for more is not logged in to: each is work of ours. librdkafka's bound."""
MESSAGE_BYTES_MAX: Final = 64 * 1024
"""A longer message of a server is not read."""

_GS2: Final = b"n,,"
_NONCE_BYTES: Final = 24

Work = Callable[[Callable[[], bytes]], Awaitable[bytes]]
"""Does what takes milliseconds: at once, or in a thread beside a loop."""


class ScramUser(NamedTuple):
    """As whom to log in."""

    name: str
    password: Secret
    extensions: Mapping[str, str] = {}
    """Such as `tokenauth=true`, which says that name and password are a delegation token's."""


class ScramClientExchange:
    """One exchange."""

    def __init__(
        self, mechanism: ScramMechanism, user: ScramUser, work: Work, nonce: str | None = None
    ) -> None:
        """`nonce`: of tests; else it is drawn."""
        self.mechanism = mechanism.sasl_name
        self._hash = mechanism.hash_name
        self._user = user
        self._work = work
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()
        self._first = b""
        """client-first-message-bare, once it was sent."""
        self._signature: bytes | None = None
        """What the server has to show, once the proof was sent."""
        self._is_over = False

    async def respond(self, challenge: bytes | None) -> bytes | None:
        """Return what to send next; None: the server has proved that it knows the password.

        Errors: AuthenticationFailed, and AssertionError for a call after the end (our bug).
        """
        assert not self._is_over, "the exchange is over"
        if challenge is None:
            self._first = self._client_first()
            return _GS2 + self._first
        if self._signature is None:
            return await self._client_final(challenge)
        self._check_server_final(challenge, self._signature)
        self._is_over = True
        return None

    def _client_first(self) -> bytes:
        name = self._user.name.replace("=", "=3D").replace(",", "=2C")
        more = "".join(f",{name}={value}" for name, value in self._user.extensions.items())
        return f"n={name},r={self._nonce}{more}".encode()

    async def _client_final(self, challenge: bytes) -> bytes:
        given = _attributes(challenge)
        nonce, salt, iterations = self._server_first(given)
        without_proof = f"c={base64.b64encode(_GS2).decode()},r={nonce}".encode()
        signed = b",".join([self._first, challenge, without_proof])
        password = self._user.password.reveal().encode()
        salted = await self._work(lambda: pbkdf2_hmac(self._hash, password, salt, iterations))
        client_key = self._hmac(salted, b"Client Key")
        stored_key = new_hash(self._hash, client_key).digest()
        signature = self._hmac(stored_key, signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return without_proof + b",p=" + base64.b64encode(proof)

    def _server_first(self, given: Mapping[str, str]) -> tuple[str, bytes, int]:
        nonce = given.get("r", "")
        if "m" in given or not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise _failed("the server's nonce is not one for this exchange")
        salt, iterations = _decoded(given.get("s", "")), given.get("i", "")
        if not (iterations.isascii() and iterations.isdecimal() and len(iterations) <= 7):
            raise _failed("the server's number of iterations is not a number")
        if not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_ACCEPTED_MAX:
            raise _failed(
                f"the server asks for {iterations} iterations; {ITERATIONS_MIN} to "
                f"{ITERATIONS_ACCEPTED_MAX} are safe"
            )
        return nonce, salt, int(iterations)

    def _check_server_final(self, challenge: bytes, signature: bytes) -> None:
        given = _attributes(challenge)
        if "e" in given:
            raise _failed("the server refused the log-in")
        if not hmac.compare_digest(_decoded(given.get("v", "")), signature):
            raise _failed("the server does not know the password: it is another server")

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _attributes(message: bytes) -> dict[str, str]:
    """Split a server's message. Errors: AuthenticationFailed."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise _failed("the server's message is too long")
    try:
        parts = [part.partition("=") for part in message.decode().split(",")]
    except UnicodeDecodeError as error:
        raise _failed("the server's message is not SCRAM's") from error
    attributes = {name: value for name, equals, value in parts if equals and len(name) == 1}
    if len(attributes) < len(parts):
        raise _failed("the server's message is not SCRAM's")
    return attributes


def _decoded(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError as error:  # binascii.Error, and text that is not ASCII
        raise _failed("the server's message is not base64") from error
    if not data:
        raise _failed("the server's message lacks a value")
    return data


def _failed(text: str) -> AuthenticationFailed:
    return AuthenticationFailed(f"SCRAM: {text}")
