"""The issuer's keys as they are now: read from a URL, kept in memory, read again in the background.

Invariant: what could not be read changes nothing. Keys are read every `refresh.ms`, after a failure
with pauses that double, and when a token names a key that is not there: not more often than every
`retry.backoff.max.ms`, however many such tokens there are.
"""

import asyncio
import contextlib
import importlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from tailrace.core.access.oauth.compact import KEY_SET_BYTES_MAX, TokenRefused, UnverifiedToken
from tailrace.core.access.oauth.config import OAuthConfig
from tailrace.core.errors import CoreError
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.http_get import http_get
from tailrace.core.runtime.job_pool import JobPool
from tailrace.core.runtime.metrics import counter, gauge
from tailrace.core.runtime.tasks import Tasks

if TYPE_CHECKING:
    from tailrace.core.access.oauth.key_set import KeySet, PublicKey

logger = logging.getLogger(__name__)

READ_S_MAX: Final = 10.0
"""Of one reading; a login that needs it waits so long at most."""


@dataclass(slots=True)
class KeySourceMetrics:
    """Numbers of the issuer's keys. Register them as `broker_oauth_keys`."""

    known: int = gauge("public keys of the issuer that are known")
    reads_total: int = counter("times that the keys were read")
    read_failures_total: int = counter("times that the keys could not be read")


class KeySource:
    """The keys. All calls come from the loop."""

    def __init__(self, config: OAuthConfig, clock: Clock) -> None:
        self.metrics = KeySourceMetrics()
        self._config = config
        self._clock = clock
        self._keys: KeySet | None = None
        self._pool = JobPool("oauth keys", 1)
        self._tasks = Tasks("oauth keys")
        self._reading = Forever("oauth_keys.reading", pause_s_max=READ_S_MAX)
        self._due = asyncio.Event()
        self._over: asyncio.Event | None = None
        """Of the reading that is going on, or about to begin."""
        self._is_closed = False
        self._pause_s = 0.0
        self._failures = 0
        self._last_s = 0.0
        """When a reading ended."""

    def start(self) -> None:
        """Begin to read."""
        self._over = asyncio.Event()
        self._tasks.start(self._reading.run(self._step), "reading")

    async def close(self) -> None:
        """Read no more; who waits goes on without. Idempotent."""
        self._is_closed = True
        await self._tasks.close()
        if self._over is not None:
            self._over.set()
        await self._pool.close(READ_S_MAX)

    async def find(self, token: UnverifiedToken) -> "PublicKey":
        """Return the key that a token is signed with, if need be after one reading.

        Errors: TokenRefused. Cancel: the reading goes on.
        """
        found = self._known(token)
        if found is None:
            if self._over is None and self._may_hurry():
                self._over = asyncio.Event()
                self._due.set()
            if self._over is not None:
                await self._over.wait()
                found = self._known(token)
        if found is None:
            raise TokenRefused("none of the issuer's keys is the one that it names")
        return found

    def _known(self, token: UnverifiedToken) -> "PublicKey | None":
        return None if self._keys is None else self._keys.find(token)

    def _may_hurry(self) -> bool:
        if self._is_closed:
            return False
        since_s = self._clock.monotonic_s() - self._last_s
        return since_s >= self._config.retry_ms_max / 1000

    async def _step(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s):
                await self._due.wait()
        self._due.clear()
        self._over = self._over or asyncio.Event()
        try:
            await self._read()
        finally:
            self._last_s = self._clock.monotonic_s()
            self._over.set()
            self._over = None

    async def _read(self) -> None:
        try:
            data = await self._fetched()
            made = await self._pool.call(lambda: _parsed(data), READ_S_MAX)
        except (CoreError, OSError) as error:
            made = str(error)
        if isinstance(made, str):
            self._failed(made)
            return
        self.metrics.reads_total += 1
        self.metrics.known = len(made.keys)
        self._keys = made
        self._failures = 0
        self._pause_s = self._config.refresh_ms / 1000

    def _failed(self, why: str) -> None:
        """Keep what was known, and try again soon."""
        self.metrics.read_failures_total += 1
        pause_ms = self._config.retry_ms * 2 ** min(self._failures, 32)
        self._pause_s = min(pause_ms, self._config.retry_ms_max) / 1000
        self._failures += 1
        if self._failures & (self._failures - 1) == 0:  # ever more rarely
            logger.error(
                "oauth_keys_not_read: those that are known stay known=%d failures=%d error=%s",
                self.metrics.known,
                self._failures,
                why,
            )

    async def _fetched(self) -> bytes:
        parts = urlsplit(self._config.jwks_url)
        if parts.scheme == "file":
            path = Path(unquote(parts.path))
            return await self._pool.call(lambda: _file(path), READ_S_MAX)
        return await http_get(
            self._config.jwks_url, bytes_max=KEY_SET_BYTES_MAX, timeout_s=READ_S_MAX
        )


def _file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(KEY_SET_BYTES_MAX + 1)


def _parsed(data: bytes) -> "KeySet | str":
    """Read a set, in a thread; return why it cannot be used."""
    key_set = importlib.import_module("tailrace.core.access.oauth.key_set")
    try:
        return key_set.parse_key_set(data)  # type: ignore[no-any-return]
    except key_set.UnusableKeys as error:
        return str(error)
