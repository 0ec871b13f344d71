"""The delegation tokens of a cluster: made, renewed, ended, and what their bearers log in with.

A token's password is the HMAC of its id under `delegation.token.secret.key`, as in Kafka; it is
made whenever it is needed and kept nowhere but in memory. Tokens that are over let nobody in from
that moment on, and are removed by and by.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from tailrace.core.access.tokens.config import TokensConfig
from tailrace.core.access.tokens.token import (
    Token,
    TokenRefused,
    Wanted,
    expiring,
    new_token,
    renewed,
)
from tailrace.core.access.users.credentials import (
    ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
    credential_from,
    salted_password,
)
from tailrace.core.metadata.stored_entities import StoredEntities
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.metrics import counter, gauge
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class TokensMetrics:
    """Numbers of delegation tokens. Register them as `broker_delegation_tokens`."""

    known: int = gauge("delegation tokens that are known, also those that are over")
    created_total: int = counter("delegation tokens that this broker made")
    ended_total: int = counter("delegation tokens that clients ended at this broker")
    expired_total: int = counter("delegation tokens that this broker removed as they were over")


TOKENS_MAX: Final = 10_000
"""Of a cluster; some more where several brokers make them at the same time."""
REQUESTER_TOKENS_MAX: Final = 1_000
"""That one principal had made."""
REMOVED_AT_ONCE: Final = 100
"""In one transaction of the metadata store."""


class DelegationTokens:
    """All tokens. Look-ups are plain calls. All calls come from the loop."""

    def __init__(
        self, config: TokensConfig, stored: StoredEntities[Token], clock: Clock, random: Random
    ) -> None:
        self.metrics = TokensMetrics()
        self._config = config
        self._secret = config.secret_key.reveal().encode()
        self._stored = stored
        self._clock = clock
        self._random = random
        self._ids: dict[bytes, str] = {}
        """By the digest of the HMAC: what is looked up tells nothing of what is there."""
        self._credentials: dict[tuple[str, ScramMechanism], ScramCredential] = {}
        self._tasks = Tasks("delegation tokens")
        self._removal = Forever("delegation_tokens.removal")
        stored.listen(self._note)

    @property
    def is_enabled(self) -> bool:
        """Whether there are tokens at all."""
        return bool(self._secret)

    async def start(self) -> None:
        """Learn of all tokens, and begin to remove those that are over. Errors: Unavailable."""
        if self.is_enabled:
            await self._stored.start()
            self._tasks.start(self._removal.run(self._remove_later), "removal")

    async def close(self) -> None:
        """End it. Idempotent."""
        await self._tasks.close()
        await self._stored.close()

    def __iter__(self) -> Iterator[Token]:
        """Iterate over all tokens, also those that are over and not removed yet."""
        return filter(None, map(self._stored.get, self._stored))

    def hmac_of(self, token_id: str) -> bytes:
        """Return a token's HMAC: base64 of it is its password."""
        return hmac.digest(self._secret, token_id.encode(), "sha512")

    async def create(self, wanted: Wanted) -> Token:
        """Make a token; it is in the store before it is returned.

        Errors: TokenRefused, CoreError. Cancel: it may be there.
        """
        self._check_enabled()
        self._check_room(wanted.requester)
        token_id = base64.urlsafe_b64encode(self._random.randbytes(16)).rstrip(b"=").decode()
        token = new_token(wanted, token_id, self._config, self._clock.now_ms())
        await self._stored.change({token_id: lambda _: token})
        self.metrics.created_total += 1
        logger.info("delegation_token_created id=%s owner=%r", token_id, token.owner)
        return token

    async def renew(self, given: bytes, principal: str, period_ms: int) -> int:
        """Have a token be good for longer; return until when (ms since 1970).

        `given`: its HMAC. `period_ms` not above 0: as long as is possible. Errors: TokenRefused,
        CoreError. Cancel: it happened or not.
        """
        self._check_enabled()
        made: list[Token] = []

        def change(token: Token | None) -> Token:
            now_ms = self._clock.now_ms()
            made[:] = [renewed(token, principal, period_ms, self._config, now_ms)]
            return made[0]

        await self._stored.change({self._found(given): change})
        return made[0].expires_ms

    async def expire(self, given: bytes, principal: str, period_ms: int) -> int:
        """Have a token end after a period, or at once (below 0); return when (ms since 1970).

        `given`: its HMAC. Errors: TokenRefused, CoreError. Cancel: it happened or not.
        """
        self._check_enabled()
        now_ms = self._clock.now_ms()
        made: list[Token | None] = []

        def change(token: Token | None) -> Token | None:
            made[:] = [expiring(token, principal, period_ms, now_ms)]
            return made[0]

        token_id = self._found(given)
        await self._stored.change({token_id: change})
        left = made[0]
        if left is None:
            self.metrics.ended_total += 1
            logger.info("delegation_token_removed id=%s", token_id)
        return now_ms if left is None else left.expires_ms

    def bearer(
        self, mechanism: ScramMechanism, token_id: str
    ) -> tuple[Token, ScramCredential] | None:
        """Return a token and what its bearer proves itself by; None: it lets nobody in.

        Cost: some us; 1 to 3 ms the first time, which only a bearer's knowledge of an id causes.
        """
        token = self._stored.get(token_id) if self.is_enabled else None
        if token is None or token.is_over(self._clock.now_ms()):
            return None
        known = self._credentials.get((token_id, mechanism))
        if known is None:
            known = self._credentials[token_id, mechanism] = self._credential(mechanism, token_id)
        return token, known

    def _credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        salt = hmac.digest(self._secret, f"salt {mechanism.name} {token_id}".encode(), "sha256")
        password = base64.b64encode(self.hmac_of(token_id))
        salted = salted_password(mechanism, password, salt, ITERATIONS_MIN)
        return credential_from(mechanism, salted, salt, ITERATIONS_MIN)

    def _found(self, given: bytes) -> str:
        """Return the id of the token with an HMAC. Errors: TokenRefused."""
        token_id = self._ids.get(hashlib.sha256(given).digest())
        if token_id is None or not hmac.compare_digest(self.hmac_of(token_id), given):
            raise TokenRefused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "there is no such token")
        return token_id

    def _check_enabled(self) -> None:
        if not self.is_enabled:
            code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
            raise TokenRefused(code, "delegation.token.secret.key is not set")

    def _check_room(self, requester: str) -> None:
        of_one = sum(each.requester == requester for each in self)
        if len(self._stored) >= TOKENS_MAX or of_one >= REQUESTER_TOKENS_MAX:
            raise TokenRefused(
                ErrorCode.POLICY_VIOLATION,
                f"there are {TOKENS_MAX} tokens already, or {REQUESTER_TOKENS_MAX} of one user",
            )

    def _note(self, token_id: str) -> None:
        """Take note of a token that came or went."""
        self.metrics.known = len(self._stored)
        digest = hashlib.sha256(self.hmac_of(token_id)).digest()
        if self._stored.get(token_id) is None:
            self._ids.pop(digest, None)
            for mechanism in ScramMechanism:
                self._credentials.pop((token_id, mechanism), None)
        else:
            self._ids[digest] = token_id

    async def _remove_later(self) -> None:
        await asyncio.sleep(self._config.check_ms / 1000)
        now_ms = self._clock.now_ms()

        def change(token: Token | None) -> Token | None:
            return None if token is None or token.is_over(now_ms) else token

        over = [each.token_id for each in self if each.is_over(now_ms)]
        for at in range(0, len(over), REMOVED_AT_ONCE):
            await self._stored.change(dict.fromkeys(over[at : at + REMOVED_AT_ONCE], change))
        if over:
            self.metrics.expired_total += len(over)
            logger.info("delegation_tokens_expired count=%d", len(over))
