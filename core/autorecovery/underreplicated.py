"""Ledgers that lack replicas, as one process of auto-recovery deals with them.

The auditor marks; a worker takes a marked ledger by its lock, copies it, and is done with it: the
mark goes if nobody marked the ledger anew meanwhile, which its version tells.

    mark --> marked --take--> locked --done--> gone, or marked (anew) --> ...
                ^------release------+   (the lock also goes with its session)

Who finds nothing to take waits for what the way through the tree would find otherwise: each
directory on it is watched, and so are the locks. Nothing is asked again meanwhile.
Source: BookKeeper ZkLedgerUnderreplicationManager.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from random import Random
from typing import Final

from tailrace.core.autorecovery.marks import MarkedLedger, Marks, MarkWalk, read_mark
from tailrace.core.autorecovery.shared_state import SharedState
from tailrace.core.errors import BadVersion, NoNode
from tailrace.core.metadata.ledger_locks import LedgerLocks
from tailrace.core.metadata.store import Delete, MetadataStore, SetData, WatchEvent
from tailrace.core.metadata.underreplication import Mark
from tailrace.core.runtime.clock import Clock
from tailrace.protocol.ids import BookieId, LedgerId

_ASIDE_MAX: Final = 100_000
"""Ledgers that are set aside; with one more, all wait for a while."""
_FULL_PAUSE_S: Final = 10.0


@dataclass(slots=True)
class TakenLedger:
    """A marked ledger that is locked by us."""

    ledger_id: LedgerId
    mark: Mark
    version: int
    """The mark's, when it was taken or written by us last."""
    data: bytes
    """The mark's bytes."""
    made_ms: int
    """When the mark was made, by the store's clock: another one tells that this is a new mark."""
    is_anew: bool = False
    """Somebody else wrote the mark since: what was looked at may be older."""


class UnderreplicatedLedgers(SharedState):
    """The marked ledgers of one cluster. Any number of tasks of one loop may call.

    Errors of every method: Unavailable; a write may have happened, and may be done again.
    """

    def __init__(
        self, store: MetadataStore, root: str, owner: str, clock: Clock, rng: Random
    ) -> None:
        """`owner`: what a lock says to people. `rng`: keeps workers out of each other's way."""
        super().__init__(store, root)
        self._clock = clock
        self._rng = rng
        self._marks = Marks(store, self._paths, clock)
        self._locks = LedgerLocks(store, self._paths, owner)
        self._turn = asyncio.Lock()
        """Of taking: all tasks go one way through the tree."""
        self._walk: MarkWalk | None = None
        self._ahead: list[LedgerId] = []
        self._locked: set[LedgerId] = set()
        """As it was when the way was begun."""
        self._resume_s = 0.0
        """Until when nothing is taken, by the monotonic clock."""
        self._aside: dict[LedgerId, float] = {}
        """Until when a ledger is not taken, by the monotonic clock."""
        self._news = asyncio.Event()
        """Something is not what the last whole way through the tree found."""
        self._news.set()

    # -- marks ---

    async def mark(self, ledger_id: LedgerId, missing: Collection[BookieId]) -> None:
        """Note missing replicas; see `Marks.mark`."""
        await self._marks.mark(ledger_id, missing)

    def marked(self) -> AsyncIterator[MarkedLedger]:
        """Yield all marks in the order of ledger ids; see `Marks.marked`."""
        return self._marks.marked()

    async def get(self, ledger_id: LedgerId) -> Mark | None:
        """Return a ledger's mark, None if it has none."""
        return await self._marks.get(ledger_id)

    # -- copying ---

    async def take(self) -> TakenLedger | None:
        """Lock any marked ledger that nobody has and that is not set aside, and return it.

        None: there is nothing to take; `wait_for_work` tells when to try again. In random order.
        Cancel: a lock that was made goes with the next call. Cost: three round trips usually; for
        None all directories above marks, and two reads for each mark whose lock went meanwhile.
        """
        async with self._turn:
            if self._resume_s > self._clock.monotonic_s():
                return None
            try:
                taken = await self._take_on_the_way()
                if taken is None:
                    await self._begin_anew()
                    taken = await self._take_on_the_way()
            except BaseException:
                self._news.set()  # what was not looked at may be there to take
                raise
            return taken

    async def wait_for_work(self) -> None:
        """Return when `take` may find what it did not find before; perhaps for nothing."""
        pause_s = self._resume_s - self._clock.monotonic_s()
        if pause_s > 0:
            await asyncio.sleep(pause_s)
        if self._walk is not None:
            return
        wait_s = None
        if self._aside:
            wait_s = max(0.0, min(self._aside.values()) - self._clock.monotonic_s())
        try:
            async with asyncio.timeout(wait_s):
                await self._news.wait()
        except TimeoutError:
            return

    def is_held(self, taken: TakenLedger) -> bool:
        """Tell whether the ledger is still locked by us, as far as is known."""
        return self._locks.is_held(taken.ledger_id)

    def set_aside(self, ledger_id: LedgerId, pause_s: float) -> None:
        """Have `take` of this process pass a ledger by for so long; its lock is another matter."""
        self._aside.pop(ledger_id, None)
        now_s = self._clock.monotonic_s()
        if len(self._aside) < _ASIDE_MAX:
            self._aside[ledger_id] = now_s + pause_s
        else:
            self._resume_s = max(self._resume_s, now_s + min(pause_s, _FULL_PAUSE_S))

    def written_anew(self, taken: TakenLedger) -> SetData:
        """Return what writes a mark again as it is, if it is still in the version of `taken`.

        With it in one `multi`, a change of the ledger is seen by everybody who took the ledger
        before: none of them is `done` with that mark. Then `taken.version` is one more.
        """
        return SetData(self._paths.mark(taken.ledger_id), taken.data, taken.version)

    async def renew(self, taken: TakenLedger) -> bool:
        """Take note of how a mark is written by now; False if it is gone.

        It stays, then, for another look.
        """
        node = await self._store.exists(self._paths.mark(taken.ledger_id))
        if node is None or node.ctime_ms != taken.made_ms:
            return False
        taken.version, taken.data, taken.is_anew = node.version, node.data, True
        return True

    async def done(self, taken: TakenLedger) -> bool:
        """Delete the mark of a ledger that lacks nothing any more, and unlock it.

        Returns False if the mark stays: it was made anew since, or the lock went with its session
        and others may be at the ledger. Cancel and errors: to be called again, or `release`.
        """
        ledger_id = taken.ledger_id
        if taken.is_anew:
            await self._locks.release(ledger_id)
            return False
        if not await self._locks.is_there(ledger_id):
            self._locks.forget(ledger_id)
            return await self._marks.get(ledger_id) is None
        mark, lock = self._paths.mark(ledger_id), self._paths.lock(ledger_id)
        try:
            await self._store.multi([Delete(mark, taken.version), Delete(lock)])
        except (BadVersion, NoNode):
            is_gone = await self._marks.get(ledger_id) is None
            await self._locks.release(ledger_id)
            return is_gone
        self._locks.forget(ledger_id)
        await self._marks.prune(ledger_id)
        return True

    async def release(self, taken: TakenLedger) -> None:
        """Unlock a ledger that keeps its mark. Idempotent. Errors: the next `take` unlocks it."""
        await self._locks.release(taken.ledger_id)

    # -- the way through the tree ---

    async def _begin_anew(self) -> None:
        self._news.clear()  # before reading: what changes meanwhile is news
        now_s = self._clock.monotonic_s()
        self._aside = {at: until_s for at, until_s in self._aside.items() if until_s > now_s}
        self._locked = await self._locks.locked(self._on_change)
        self._walk = MarkWalk(self._store, self._paths.ledgers, self._rng.shuffle, self._on_change)

    async def _take_on_the_way(self) -> TakenLedger | None:
        while self._walk is not None:
            while self._ahead:
                taken = await self._try_to_take(self._ahead.pop())
                if taken is not None:
                    return taken
            ids = await self._walk.next_ids()
            if ids is None:
                self._walk = None
            else:
                self._ahead = ids
        return None

    async def _try_to_take(self, ledger_id: LedgerId) -> TakenLedger | None:
        if ledger_id in self._locked:
            return None
        if self._aside.get(ledger_id, 0.0) > self._clock.monotonic_s():
            return None
        if not await self._is_marked(ledger_id) or not await self._locks.acquire(ledger_id):
            return None
        try:
            node = await self._store.exists(self._paths.mark(ledger_id))
        except BaseException:
            self._locks.doubt(ledger_id)
            raise
        if node is None:  # another worker was done with it a moment ago
            await self._locks.release(ledger_id)
            return None
        mark = read_mark(ledger_id, node.data)
        return TakenLedger(ledger_id, mark, node.version, node.data, node.ctime_ms)

    async def _is_marked(self, ledger_id: LedgerId) -> bool:
        """Look before the lock: for a directory without a mark, locks would come and go."""
        path = self._paths.mark(ledger_id)
        if await self._store.exists(path) is not None:
            return True
        return await self._store.exists(path, self._on_change) is not None

    def _on_change(self, _path: str, _event: WatchEvent) -> None:
        self._news.set()
