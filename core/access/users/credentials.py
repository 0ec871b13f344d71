"""What a user's password leaves behind: salted keys (RFC 5802), by mechanism. Pure."""

import hashlib
import hmac
from enum import IntEnum
from typing import Final, NamedTuple

from typing_extensions import override

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
"""Kafka's own bounds."""


class ScramMechanism(IntEnum):
    """The mechanisms, by Kafka's codes (AlterUserScramCredentials)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """As clients call it: SCRAM-SHA-256."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """As hashlib calls it."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


class ScramCredential(NamedTuple):
    """Enough to check a password, not enough to log in anywhere with it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @override
    def __repr__(self) -> str:
        """Return nothing that helps to guess the password."""
        return f"ScramCredential(iterations={self.iterations})"


def salted_password(
    mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int
) -> bytes:
    """Return a password's key: Hi(). Cost: 0.4 to 1 us an iteration: run it off the loop."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)


def credential_from(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return what a server keeps of a salted password."""
    name = mechanism.hash_name
    stored_key = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", name), iterations)
