"""Making credentials of a password, and refusing what may not become one.

Source: org.apache.kafka.controller.ScramControlManager; org.apache.kafka.common.security.scram.
internals.ScramFormatter (the form of salts).
"""

import secrets
from typing import Final

from tailrace.core.access.users.credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    credential_from,
    salted_password,
)
from tailrace.core.access.users.fakes import LETTERS, SALT_LENGTH
from tailrace.core.access.users.prepared import check_prepared

SALT_BYTES_MAX: Final = 1024
PASSWORD_LENGTH_MIN: Final = 8


class UnacceptableCredential(ValueError):
    """What is to become a credential may not; the text has no secret."""


def check_user(name: str) -> None:
    """Refuse what cannot be a user's name. Errors: UnacceptableCredential."""
    if not name:
        raise UnacceptableCredential("Username must not be empty")
    try:
        check_prepared(name)
    except ValueError as error:
        raise UnacceptableCredential(f"Username is not acceptable: {error}") from None


def check_iterations(iterations: int) -> None:
    """Refuse what is too easily guessed, or too much work. Errors: UnacceptableCredential."""
    if iterations < ITERATIONS_MIN:
        raise UnacceptableCredential("Too few iterations")
    if iterations > ITERATIONS_MAX:
        raise UnacceptableCredential("Too many iterations")


def check_salted(salt: bytes, salted: bytes) -> None:
    """Refuse a salted password that is none. Errors: UnacceptableCredential."""
    if not 1 <= len(salt) <= SALT_BYTES_MAX:
        raise UnacceptableCredential(f"The salt must have 1 to {SALT_BYTES_MAX} bytes")
    if not 1 <= len(salted) <= SALT_BYTES_MAX:
        raise UnacceptableCredential(f"The salted password must have 1 to {SALT_BYTES_MAX} bytes")


def check_password(password: str) -> None:
    """Refuse what is not to be a password of a new user. Errors: UnacceptableCredential."""
    if len(password) < PASSWORD_LENGTH_MIN:
        raise UnacceptableCredential(
            f"The password has fewer than {PASSWORD_LENGTH_MIN} characters"
        )
    try:
        check_prepared(password)
    except ValueError as error:
        raise UnacceptableCredential(f"The password is not acceptable: {error}") from None


def new_salt() -> bytes:
    """Return a new salt, of the form of those that Kafka's tools make: 134 bits."""
    return bytes(secrets.choice(LETTERS) for _ in range(SALT_LENGTH))


def new_credential(
    mechanism: ScramMechanism, password: str, iterations: int = ITERATIONS_MIN
) -> ScramCredential:
    """Return what is kept of a password. Cost: 2 to 20 ms of CPU.

    Errors: UnacceptableCredential.
    """
    check_iterations(iterations)
    salt = new_salt()
    salted = salted_password(mechanism, password.encode(), salt, iterations)
    return credential_from(mechanism, salted, salt, iterations)
