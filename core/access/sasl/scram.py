"""SCRAM-SHA-256 and SCRAM-SHA-512, server side (RFC 5802, RFC 7677).

A user that is not known gets an exchange like any other, with a credential that no password fits:
so its answers are those of a wrong password, in bytes and in work. All of it takes some 20 us, as
the hard part (PBKDF2) is the client's.
"""

import base64
import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from tailrace.core.access.sasl.mechanism import (
    Authenticated,
    AuthenticationFailed,
    SaslExchange,
    Step,
)
from tailrace.core.access.sasl.scram_messages import (
    BadMessage,
    ClientFinal,
    ClientFirst,
    ServerFirst,
    is_proof,
    parse_client_final,
    parse_client_first,
    server_signature,
    signed_text,
)
from tailrace.core.access.users.credentials import ScramCredential, ScramMechanism

OTHER_IDENTITY: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
"""Kafka's words."""


class ScramIdentity(NamedTuple):
    """Who proves itself by a credential."""

    credential: ScramCredential
    user: str
    """The owner, where the name in the exchange is a delegation token's."""
    expires_at_ms: int | None = None
    token_id: str | None = None


Find: TypeAlias = Callable[[str, Mapping[str, str]], ScramIdentity | None]
"""From the name in an exchange and its extensions; None: that user does not exist."""
MakeFake: TypeAlias = Callable[[ScramMechanism, str], ScramCredential]
"""The credential of a user that there is not: always the same, and no password fits."""


class Scram:
    """One of the two mechanisms, as a server offers it."""

    def __init__(self, mechanism: ScramMechanism, find: Find, fake: MakeFake) -> None:
        self._mechanism = mechanism
        self._find = find
        self._fake = fake

    @property
    def name(self) -> str:
        """As clients call it."""
        return self._mechanism.sasl_name

    def exchange(self) -> SaslExchange:
        """Begin an exchange."""
        return ScramServerExchange(
            self._mechanism, self._find, self._fake, secrets.token_urlsafe(24)
        )


class ScramServerExchange:
    """One exchange: two messages of a client, two answers."""

    def __init__(
        self, mechanism: ScramMechanism, find: Find, fake: MakeFake, server_nonce: str
    ) -> None:
        self._mechanism = mechanism
        self._find = find
        self._fake = fake
        self._server_nonce = server_nonce
        self._first: ClientFirst | None = None
        self._challenge: ServerFirst | None = None
        self._identity: ScramIdentity | None = None
        self._credential: ScramCredential | None = None

    async def evaluate(self, message: bytes) -> Step:
        """Answer a message. Errors: AuthenticationFailed."""
        try:
            if self._first is None:
                return self._begin(parse_client_first(message))
            return self._finish(self._first, parse_client_final(message))
        except BadMessage as error:
            raise self._failed(str(error)) from None

    def _begin(self, first: ClientFirst) -> Step:
        if first.authorization_id not in ("", first.user):
            raise AuthenticationFailed(OTHER_IDENTITY, "authorization id of another user")
        self._first = first
        self._identity = self._find(first.user, first.extensions)
        fake = self._fake(self._mechanism, first.user)  # made for all: the same work
        self._credential = fake if self._identity is None else self._identity.credential
        self._challenge = ServerFirst(
            first.nonce + self._server_nonce, self._credential.salt, self._credential.iterations
        )
        return Step(self._challenge.text.encode())

    def _finish(self, first: ClientFirst, final: ClientFinal) -> Step:
        challenge, credential, identity = self._challenge, self._credential, self._identity
        assert challenge is not None, "the first message sets it"
        assert credential is not None, "the first message sets it"
        if not hmac.compare_digest(final.nonce, challenge.nonce):
            raise self._failed("the nonce is another exchange's")
        if final.gs2_header != first.gs2_header:
            raise self._failed("the channel binding is not the one that was begun with")
        signed = signed_text(first, challenge, final.without_proof)
        is_right = is_proof(self._mechanism, credential, signed, final.proof)
        if identity is None or not is_right:
            raise self._failed("no such user" if identity is None else "wrong password")
        signature = server_signature(self._mechanism, credential.server_key, signed)
        return Step(
            b"v=" + base64.b64encode(signature),
            Authenticated(
                identity.user, self._mechanism.sasl_name, identity.expires_at_ms, identity.token_id
            ),
        )

    def _failed(self, reason: str) -> AuthenticationFailed:
        """Return the one answer to all that is wrong: Kafka's words."""
        name = self._mechanism.sasl_name
        text = "Authentication failed during authentication due to invalid credentials"
        return AuthenticationFailed(f"{text} with SASL mechanism {name}", reason)
