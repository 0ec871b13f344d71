"""SCRAM's messages and arithmetic, for both sides. Pure.

    client first  n,[a=authzid],n=user,r=nonce[,extensions]     server first  r=nonce,s=salt,i=count
    client final  c=base64(gs2 header),r=nonce,p=proof          server final  v=signature

Channel binding is neither offered nor taken. Values are bytes of UTF-8; `,` and `=` in names are
escaped. Source: RFC 5802 section 7; org.apache.kafka.common.security.scram.internals.ScramMessages
(extensions of several letters, as `tokenauth=true`).
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tailrace.core.access.users.credentials import ScramCredential, ScramMechanism

MESSAGE_BYTES_MAX: Final = 16 * 1024
"""Of one message: names, nonces and extensions are short; Kafka's clients send some 100 bytes."""

NO_EXTENSIONS: Final[Mapping[str, str]] = MappingProxyType({})

_PRINTABLE = r"[\x21-\x2B\x2D-\x7E]"  # all of ASCII that is visible, but the comma
_NAME = r"(?:[^,=\x00]|=2C|=3D)"
_EXTENSION = r"[A-Za-z]+=[^,\x00]*"
_CLIENT_FIRST = re.compile(
    rf"([ny]),(?:a=({_NAME}+))?,n=({_NAME}+),r=({_PRINTABLE}+)((?:,{_EXTENSION})*)"
)
_CLIENT_FINAL = re.compile(
    rf"c=([^,]+),r=({_PRINTABLE}+)(?:,{_EXTENSION})*,p=([A-Za-z0-9+/=]+)",
)

_SERVER_FIRST = re.compile(
    rf"r=({_PRINTABLE}+),s=([A-Za-z0-9+/=]+),i=([1-9][0-9]{{0,8}})(?:,{_EXTENSION})*"
)


class BadMessage(Exception):
    """A peer sent what is not SCRAM's. The text has nothing of the message."""


class ClientFirst(NamedTuple):
    """What a client begins with."""

    user: str
    nonce: str
    authorization_id: str = ""
    """As whom it wants to act; empty: as itself."""
    extensions: Mapping[str, str] = NO_EXTENSIONS
    gs2_header: str = "n,,"

    @property
    def bare(self) -> str:
        """The part that is signed."""
        more = "".join(f",{key}={value}" for key, value in self.extensions.items())
        return f"n={escaped(self.user)},r={self.nonce}{more}"


class ServerFirst(NamedTuple):
    """What a client needs to derive its key."""

    nonce: str
    """The client's, continued by the server's."""
    salt: bytes
    iterations: int

    @property
    def text(self) -> str:
        """As it is sent and signed."""
        return f"r={self.nonce},s={base64.b64encode(self.salt).decode()},i={self.iterations}"


class ClientFinal(NamedTuple):
    """A client's proof."""

    gs2_header: str
    nonce: str
    proof: bytes
    without_proof: str
    """The part that is signed."""


def escaped(name: str) -> str:
    """Return a name as it stands in a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(text: str) -> str:
    """Return the name that stands in a message."""
    return text.replace("=2C", ",").replace("=3D", "=")


def parse_client_first(message: bytes) -> ClientFirst:
    """Read a client's first message. Errors: BadMessage."""
    found = _CLIENT_FIRST.fullmatch(_text(message))
    if found is None:
        raise BadMessage("the client's first message is not SCRAM's")
    flag, authorization_id, user, nonce, rest = found.groups()
    extensions = dict(each.split("=", 1) for each in rest.split(",")[1:])
    if "m" in extensions or len(extensions) < rest.count(","):
        raise BadMessage("an extension is mandatory, or there twice")
    header = f"{flag},{f'a={authorization_id}' if authorization_id else ''},"
    return ClientFirst(
        unescaped(user), nonce, unescaped(authorization_id or ""), extensions, header
    )


def parse_client_final(message: bytes) -> ClientFinal:
    """Read a client's proof. Errors: BadMessage."""
    text = _text(message)
    found = _CLIENT_FINAL.fullmatch(text)
    if found is None:
        raise BadMessage("the client's final message is not SCRAM's")
    header, nonce, proof = found.groups()
    try:
        gs2_header = str(_base64(header), "utf-8")
    except UnicodeDecodeError:
        raise BadMessage("the client's channel binding is not UTF-8") from None
    return ClientFinal(gs2_header, nonce, _base64(proof), text[: text.rindex(",p=")])


def parse_server_first(message: bytes) -> ServerFirst:
    """Read a server's challenge. Errors: BadMessage."""
    found = _SERVER_FIRST.fullmatch(_text(message))
    if found is None:
        raise BadMessage("the server's first message is not SCRAM's")
    return ServerFirst(found[1], _base64(found[2]), int(found[3]))


def parse_server_final(message: bytes) -> bytes:
    """Return a server's signature. Errors: BadMessage, also for `e=...`, its refusal."""
    text = _text(message)
    if not text.startswith("v="):
        raise BadMessage("the server's final message has no signature")
    return _base64(text[2:].split(",", 1)[0])


def signed_text(first: ClientFirst, challenge: ServerFirst, without_proof: str) -> bytes:
    """Return what both sides sign: AuthMessage."""
    return f"{first.bare},{challenge.text},{without_proof}".encode()


def client_proof(mechanism: ScramMechanism, salted: bytes, signed: bytes) -> bytes:
    """Return what proves that a client knows the salted password."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return _xor(client_key, hmac.digest(stored_key, signed, name))


def is_proof(
    mechanism: ScramMechanism, credential: ScramCredential, signed: bytes, proof: bytes
) -> bool:
    """Whether a proof is one of this credential's password. Constant time for one length."""
    name = mechanism.hash_name
    signature = hmac.digest(credential.stored_key, signed, name)
    if len(proof) != len(signature):
        return False
    client_key = _xor(proof, signature)
    return hmac.compare_digest(hashlib.new(name, client_key).digest(), credential.stored_key)


def server_signature(mechanism: ScramMechanism, server_key: bytes, signed: bytes) -> bytes:
    """Return what proves that a server knows the user."""
    return hmac.digest(server_key, signed, mechanism.hash_name)


def _text(message: bytes) -> str:
    if len(message) > MESSAGE_BYTES_MAX:
        raise BadMessage(f"a SCRAM message of {len(message)} bytes, limit {MESSAGE_BYTES_MAX}")
    try:
        return str(message, "utf-8")
    except UnicodeDecodeError:
        raise BadMessage("a SCRAM message is not UTF-8") from None


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadMessage("a SCRAM message has bad base64") from None


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
