"""A stream's lock that names this proxy, but is of another session: what the process makes of it.

Either a former run of this proxy was killed, and its session is not over yet: that passes. Or
another process runs under this location: redirects would send clients in circles, so this process
ends, as Java's does, and says what to change.

Invariant: a former run cannot end the process. It died before this session began, so its session
ends within one timeout from then; for twice that time such a lock is taken for its.
Source: StreamImpl, on OwnershipAcquireFailedException with the own client id.
"""

import asyncio
import logging
from typing import Final

from tailrace.core.metadata.store import MetadataStore, SessionEvent
from tailrace.core.runtime.clock import Clock

logger = logging.getLogger(__name__)

SESSIONS: Final = 2
"""Session timeouts for which a lock may be of a former session: ZooKeeper ends one a tick late."""


class OwnLocks:
    """Hears of such locks (OwnerEvents). All calls come from the loop."""

    def __init__(self, store: MetadataStore, clock: Clock, session_timeout_ms: int) -> None:
        self.taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Has a result once another process has this proxy's location: this one should end."""
        self._clock = clock
        self._grace_s = SESSIONS * session_timeout_ms / 1000
        self._began_s = clock.monotonic_s()
        store.on_session(self._on_session)

    def on_acquired(self, stream: str) -> None:
        """Do nothing (OwnerEvents)."""

    def on_released(self, stream: str) -> None:
        """Do nothing (OwnerEvents)."""

    def on_inconsistent(self, stream: str) -> None:
        """Wait for the former session's end, or have the process end (OwnerEvents)."""
        if self._clock.monotonic_s() < self._began_s + self._grace_s:
            logger.warning("lock_of_a_former_session stream=%s", stream)
        elif not self.taken.done():
            logger.error(
                "location_in_use stream=%s remedy=%s",
                stream,
                "another process has this proxy's address and shard: stop it, or give another"
                " --listen, --advertise or --shard",
            )
            self.taken.set_result(None)

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.NEW_SESSION:
            self._began_s = self._clock.monotonic_s()
