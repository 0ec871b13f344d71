"""A bookie's registration: the ephemeral node by which clients find it, kept there.

Invariant: after `register`, the node of the wanted mode is there whenever the session answers; the
node of the other mode goes only after it. When a session is over, the node is made again in the new
one, with growing pauses while the store does not answer.

A node of another session is waited out for one session timeout: it is the trace of a process that
was killed. If it stays, another process lives under this id, and one of the two must end.
Source: BookKeeper ZKRegistrationManager.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tailrace.core.errors import CoreError, NodeExists
from tailrace.core.metadata.bookie_service_info import BookieServiceInfo, encode_service_info
from tailrace.core.metadata.ephemeral_node import EphemeralNode
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.store import MetadataStore, SessionEvent
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.metrics import counter, gauge
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.ids import BookieId

logger = logging.getLogger(__name__)

STALE_WAIT_MS: Final = 10_000
"""How long a node of another session may take to go: BookKeeper's zkTimeout."""

SIGN_OFF_S: Final = 2.0
"""How long a close waits for the store, which may be away."""

RETRY_S_MAX: Final = 5.0
"""Between attempts to register again, at most."""


@dataclass(slots=True)
class RegistrationMetrics:
    """Numbers of one registration. Register them as `bookie_registration`."""

    registered: int = gauge("1 while this bookie's node is there, as far as is known")
    registrations_total: int = counter("times that the node was made or found")
    failures_total: int = counter("attempts to register again that failed")


class BookieRegistration:
    """The registration of one bookie. All calls come from the loop.

    `on_refused` hears once of a node of another session that stays when this bookie has to register
    again: it must stop serving, because clients are sent to somebody else.
    """

    def __init__(
        self,
        store: MetadataStore,
        paths: LedgerPaths,
        bookie_id: BookieId,
        service_info: BookieServiceInfo,
        *,
        stale_wait_ms: int = STALE_WAIT_MS,
        on_refused: Callable[[NodeExists], None] | None = None,
    ) -> None:
        data = encode_service_info(service_info)
        self._store = store
        self._bookie_id = bookie_id
        # An old cluster may have no parent for read-only bookies yet.
        self._nodes = {
            False: EphemeralNode(store, paths.bookie(bookie_id), data),
            True: EphemeralNode(store, paths.read_only_bookie(bookie_id), data, parents=True),
        }
        self._stale_wait_ms = stale_wait_ms
        self._on_refused = on_refused
        self._read_only: bool | None = None
        # The caller's changes of mode and our own re-registration take turns: each is several
        # operations, and two of them interleaved could delete the node that the other has made.
        self._turn = asyncio.Lock()
        self._tasks = Tasks("registration")
        self._again = Forever("registration.again", about=bookie_id, pause_s_max=RETRY_S_MAX)
        self._is_retrying = False
        self.metrics = RegistrationMetrics()
        store.on_session(self._on_session)

    @property
    def read_only(self) -> bool | None:
        """The mode that is wanted; None before `register` and after `close`."""
        return self._read_only

    async def register(self, *, read_only: bool) -> None:
        """Make the node of a mode, waiting out one of another session.

        Errors: NodeExists (another process has this id), NoNode (no cluster there), Unavailable.
        Cancel and errors: the mode stays wanted.
        """
        self._read_only = read_only
        async with self._turn:
            await self._make_so()

    async def set_read_only(self, value: bool) -> None:  # noqa: FBT001 - as it is spoken
        """Change the mode: the new node comes before the old one goes.

        Errors: as `register`; the change is then tried again and again behind the caller's back.
        """
        if value == self._read_only:
            return
        try:
            await self.register(read_only=value)
        except CoreError:
            self._start_retrying()
            raise

    async def close(self) -> None:
        """Sign off, within `SIGN_OFF_S`. Idempotent.

        If the store does not answer in time, the end of its session takes the node away.
        """
        self._read_only = None
        await self._tasks.close()
        try:
            async with asyncio.timeout(SIGN_OFF_S), self._turn:
                self.metrics.registered = 0
                for node in self._nodes.values():
                    await node.remove()
        except (CoreError, TimeoutError) as error:
            logger.warning("bookie_sign_off_failed id=%s error=%r", self._bookie_id, error)

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.NEW_SESSION:
            self.metrics.registered = 0
        if event is not SessionEvent.LOST:
            self._start_retrying()

    def _start_retrying(self) -> None:
        if self._read_only is not None and not self._is_retrying:
            self._is_retrying = True
            self._tasks.start(self._register_again(), "register again")

    async def _register_again(self) -> None:
        """Make the node again until it is there; the pauses bound the load, not the time."""
        try:
            await self._again.until_done(self._try_again)
        finally:
            self._is_retrying = False

    async def _try_again(self) -> None:
        try:
            async with self._turn:
                await self._make_so()
        except NodeExists as error:
            self._refuse(error)
        except Exception:
            self.metrics.failures_total += 1
            raise

    def _refuse(self, error: NodeExists) -> None:
        logger.error("bookie_id_taken id=%s error=%s", self._bookie_id, error)
        if self._on_refused is not None:
            self._on_refused(error)

    async def _make_so(self) -> None:
        read_only = self._read_only
        if read_only is None:
            return
        session_id = None
        while session_id != self._store.session_id:  # one that ended meanwhile took the node along
            session_id = self._store.session_id
            await self._nodes[read_only].make(self._stale_wait_ms)
            await self._nodes[not read_only].remove()
        self.metrics.registrations_total += 1
        self.metrics.registered = 1
        logger.info("bookie_registered id=%s read_only=%s", self._bookie_id, read_only)
