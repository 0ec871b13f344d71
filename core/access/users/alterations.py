"""Changing users' credentials as Kafka does: each once a request, all that are right together.

Source: org.apache.kafka.controller.ScramControlManager.alterCredentials.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from tailrace.core.access.users.codec import Credentials
from tailrace.core.access.users.credentials import ScramCredential, ScramMechanism
from tailrace.core.metadata.stored_entities import StoredEntities

ALTERED_MAX: Final = 1000
"""Users of one request: they are written in one piece."""


class Alteration(NamedTuple):
    """What becomes of one user's credential of one mechanism."""

    mechanism: ScramMechanism
    credential: ScramCredential | None
    """None: it is deleted."""


async def alter_users(
    users: StoredEntities[Credentials], alterations: Mapping[str, Alteration]
) -> set[str]:
    """Change users, in one piece; return those that had no credential to delete.

    Errors: MetadataConflict, OverCapacity, CoreError: nothing is changed, or (Unavailable) it may
    be. Cancel: it happened or not.
    """
    missing: set[str] = set()
    changes = {name: partial(_altered, name, each, missing) for name, each in alterations.items()}
    await users.change(changes)
    return missing


def _altered(
    name: str, alteration: Alteration, missing: set[str], now: Credentials | None
) -> Credentials | None:
    credentials = dict(now or {})
    missing.discard(name)  # a change may run twice
    if alteration.credential is not None:
        credentials[alteration.mechanism] = alteration.credential
    elif credentials.pop(alteration.mechanism, None) is None:
        missing.add(name)
    return credentials or None
