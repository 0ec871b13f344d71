"""Credentials of users that there are not, so that nobody learns which users there are. Pure.

They are made from the user's name and a secret of the cluster, so they are the same each time, at
each broker, after each restart; and they have the form of most users that there are: as many
iterations, a salt as long and of the same letters.
"""

import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

from tailrace.core.access.users.credentials import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
)

LETTERS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
"""Of the salts that Kafka's tools make."""
SALT_LENGTH: Final = 26
"""Theirs, too."""


class CredentialForm(NamedTuple):
    """What anybody sees of a credential who begins an exchange."""

    iterations: int
    salt_length: int
    is_text: bool
    """Whether the salt is made of letters."""


USUAL_FORM: Final = CredentialForm(ITERATIONS_MIN, SALT_LENGTH, is_text=True)


def form_of(credential: ScramCredential) -> CredentialForm:
    """Return a credential's form."""
    salt = credential.salt
    return CredentialForm(credential.iterations, len(salt), not salt.translate(None, LETTERS))


def most_usual(forms: Mapping[CredentialForm, int]) -> CredentialForm | None:
    """Return the form that most have; of several the least, so that no order matters."""
    if not forms:
        return None
    most = max(forms.values())
    return min(form for form, count in forms.items() if count == most)


def fake_credential(
    secret: bytes, mechanism: ScramMechanism, user: str, form: CredentialForm
) -> ScramCredential:
    """Return the credential of a user that there is not. Cost: some us."""
    seed = hmac.digest(secret, f"{mechanism.sasl_name},{user}".encode(), "sha512")
    salt = _stretched(seed, form.salt_length)
    if form.is_text:
        salt = bytes(LETTERS[each % len(LETTERS)] for each in salt)
    size = len(hmac.digest(seed, b"", mechanism.hash_name))
    keys = _stretched(hmac.digest(seed, b"keys", "sha512"), 2 * size)
    return ScramCredential(salt, keys[:size], keys[size:], form.iterations)


def _stretched(seed: bytes, size: int) -> bytes:
    blocks = (size + 63) // 64
    return b"".join(hmac.digest(seed, b"%d" % each, "sha512") for each in range(blocks))[:size]
