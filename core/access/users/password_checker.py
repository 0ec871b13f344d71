"""Whether a password that comes as it is (PLAIN, HTTP basic, gRPC) is a user's.

It costs milliseconds on purpose (PBKDF2), so threads do it, and few at a time. What was right is
remembered until the user changes; what was wrong never is. A user that is not there costs the same.
"""

import hmac
import secrets
from functools import partial
from typing import Final, NamedTuple

from tailrace.core.access.users.credentials import (
    ScramCredential,
    ScramMechanism,
    credential_from,
    salted_password,
)
from tailrace.core.access.users.lookup import UserLookup
from tailrace.core.runtime.job_pool import JobPool

THREADS: Final = 2
WAITING_MAX: Final = 1000
WITHIN_S: Final = 10.0
REMEMBERED_MAX: Final = 10_000
"""Users whose password was right: some 300 bytes each."""
PASSWORD_BYTES_MAX: Final = 4096


class _Right(NamedTuple):
    credential: ScramCredential
    digest: bytes


class PasswordChecker:
    """Checks passwords of users. All calls come from the loop."""

    def __init__(self, users: UserLookup) -> None:
        self._users = users
        self._pool = JobPool("password", THREADS, WAITING_MAX)
        self._key = secrets.token_bytes(32)
        """What digests of passwords mean nothing without."""
        self._remembered: dict[str, _Right] = {}
        """The user that was asked about longest ago comes first."""

    async def is_right(self, user: str, password: str) -> bool:
        """Whether `password` is the user's.

        Cost: some us if it was right before, else 2 to 20 ms in a thread. Cancel: nothing happened.
        Errors: OverCapacity, Unavailable: too many others are checked.
        """
        given = password.encode(errors="surrogatepass")[: PASSWORD_BYTES_MAX + 1]
        mechanism, credential, is_there = self._users.to_check(user)
        digest = hmac.digest(self._key, given, "sha256")
        known = self._remembered.get(user)
        if known is not None and known.credential == credential:
            if hmac.compare_digest(known.digest, digest):
                self._remembered[user] = self._remembered.pop(user)
                return True
        else:
            self._remembered.pop(user, None)
        fits = await self._pool.call(partial(_fits, mechanism, credential, given), WITHIN_S)
        is_right = fits and is_there and len(given) <= PASSWORD_BYTES_MAX
        if is_right:
            self._remember(user, _Right(credential, digest))
        return is_right

    async def close(self) -> None:
        """Let the threads end. Idempotent."""
        await self._pool.close(timeout_s=WITHIN_S)

    def _remember(self, user: str, right: _Right) -> None:
        self._remembered.pop(user, None)
        if len(self._remembered) >= REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[user] = right


def _fits(mechanism: ScramMechanism, credential: ScramCredential, password: bytes) -> bool:
    salted = salted_password(mechanism, password, credential.salt, credential.iterations)
    made = credential_from(mechanism, salted, credential.salt, credential.iterations)
    return hmac.compare_digest(made.stored_key, credential.stored_key)
