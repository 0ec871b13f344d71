"""Judges what was read from disk by the ledger's own digest, before anybody is given it.

A bookie stores bodies as opaque bytes; how to verify them stands in the ledger's metadata. It is
read once for each ledger, when its first entry is read, and kept for the last `KEPT_MAX` ledgers.
Where it cannot be known (the ledger was deleted, the metadata does not answer, its digest is not
named there) bodies pass unjudged, and are counted: the client verifies them anyway. Nor do readers
wait for metadata that is away: a bookie must serve without it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from tailrace.bookie.metrics import BookieMetrics
from tailrace.core.errors import CoreError, CorruptData
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.bookkeeper.digest import Digest
from tailrace.protocol.bookkeeper.entry import read_entry
from tailrace.protocol.errors import ProtocolError
from tailrace.protocol.ids import Buffer, LedgerId

logger = logging.getLogger(__name__)

KEPT_MAX: Final = 10_000
FIND_S: Final = 1.0
"""How long a read waits for its ledger's digest: a fifth of a client's readEntryTimeoutSec."""
BLIND_S: Final = 5.0
"""For how long no digest is looked for once the metadata did not answer."""

FindDigest = Callable[[LedgerId], Awaitable[Digest | None]]
"""Finds a ledger's digest; None if its metadata does not say. Errors: CoreError."""

Then = Callable[[CorruptData | None], None]


class EntryJudge:
    """Knows the digests of ledgers. All calls come from the loop."""

    def __init__(self, find: FindDigest, metrics: BookieMetrics, *, find_s: float = FIND_S) -> None:
        self._find = find
        self._find_s = find_s
        self._loop = asyncio.get_running_loop()
        self._blind_until_s = 0.0
        self._metrics = metrics
        self._digests: dict[LedgerId, Digest | None] = {}
        self._waiting: dict[LedgerId, list[Callable[[], None]]] = {}
        self._tasks = Tasks("entry judge")
        self._is_closed = False

    async def close(self) -> None:
        """Stop looking for digests: who waits for one, or comes later, hears at once."""
        self._is_closed = True
        await self._tasks.close()
        for ledger_id in list(self._waiting):
            self._release(ledger_id)

    def judge(self, ledger_id: LedgerId, body: Buffer, then: Then) -> None:
        """Tell `then` what is wrong with a body, None if nothing is known to be.

        At once if the digest is known. Cost: the digest over the body.
        """
        self.judge_all(ledger_id, [body], lambda damages: then(damages[0]))

    def judge_all(
        self,
        ledger_id: LedgerId,
        bodies: list[Buffer],
        then: Callable[[list[CorruptData | None]], None],
    ) -> None:
        """Do the same with several bodies of one ledger."""
        if ledger_id in self._digests or self._is_closed or self._is_blind:
            then(self._judged(ledger_id, bodies))
            return
        waiting = self._waiting.setdefault(ledger_id, [])
        waiting.append(lambda: then(self._judged(ledger_id, bodies)))
        if len(waiting) == 1:
            self._tasks.start(self._learn(ledger_id), f"digest of {ledger_id}")

    @property
    def _is_blind(self) -> bool:
        return self._loop.time() < self._blind_until_s

    async def damage_of(self, ledger_id: LedgerId, body: Buffer) -> CorruptData | None:
        """Return what is wrong with a body, None if nothing is known to be."""
        found: asyncio.Future[CorruptData | None] = asyncio.get_running_loop().create_future()

        def tell(damage: CorruptData | None) -> None:
            if not found.done():
                found.set_result(damage)

        self.judge(ledger_id, body, tell)
        return await found

    def _judged(self, ledger_id: LedgerId, bodies: list[Buffer]) -> list[CorruptData | None]:
        digest = self._digests.get(ledger_id)
        if digest is None:
            self._metrics.reads_unjudged_total += len(bodies)
            return [None] * len(bodies)
        return [_damage(ledger_id, body, digest) for body in bodies]

    async def _learn(self, ledger_id: LedgerId) -> None:
        try:
            async with asyncio.timeout(self._find_s):
                self._digests[ledger_id] = await self._find(ledger_id)
            if len(self._digests) > KEPT_MAX:
                del self._digests[next(iter(self._digests))]
        except (CoreError, TimeoutError) as error:
            if not isinstance(error, CorruptData):
                self._blind_until_s = self._loop.time() + BLIND_S
            logger.warning("digest_not_known ledger=%d error=%r", ledger_id, error)
        finally:
            self._release(ledger_id)

    def _release(self, ledger_id: LedgerId) -> None:
        for waiter in self._waiting.pop(ledger_id, ()):
            waiter()


def _damage(ledger_id: LedgerId, body: Buffer, digest: Digest) -> CorruptData | None:
    try:
        read_entry(body, ledger_id, None, digest)
    except ProtocolError as error:
        return CorruptData(f"ledger={ledger_id}: {error}")
    return None
