"""Who audits: an ephemeral, sequential vote for each candidate; the lowest one wins.

    vote --> in line --its predecessor went--> first --> works --vote or session gone--> vote

An auditor that does not know yet that its session is over does no harm: marks may be made by
anybody, and twice. Source: BookKeeper ZkLedgerAuditorManager.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple

from tailrace.core.autorecovery.metrics import AuditorMetrics
from tailrace.core.errors import CoreError, CorruptData, NoNode
from tailrace.core.metadata.layout import UnderreplicationPaths
from tailrace.core.metadata.store import MetadataStore, WatchEvent
from tailrace.core.metadata.underreplication import decode_vote, encode_vote
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.tasks import together

logger = logging.getLogger(__name__)

_VOTE: Final = re.compile(r"V_(-?\d+)", re.ASCII)

RETRY_S_MAX: Final = 5.0
"""Between attempts while the store takes no vote, at most."""

WITHDRAW_S: Final = 2.0
"""How long taking a vote back waits for the store, which may be away."""

Work = Callable[[], Coroutine[Any, Any, None]]
"""What an elected auditor does."""


class Vote(NamedTuple):
    """One candidate's place in line."""

    sequence: int
    path: str


class Election:
    """One candidate. All calls come from the loop."""

    def __init__(
        self, store: MetadataStore, root: str, candidate: str, metrics: AuditorMetrics
    ) -> None:
        """`candidate`: how people, and BookKeeper's `whoisauditor`, will call this process."""
        self._store = store
        self._paths = UnderreplicationPaths(root)
        self._candidate = candidate
        self._metrics = metrics
        self._forever = Forever("auditor.election", pause_s_max=RETRY_S_MAX, ends_after=1)

    async def run(self, work: Work) -> None:
        """Stand for election until cancelled; run `work` whenever elected, and for so long.

        `work` goes on until it is cancelled. Errors: those of `work` that are not the store's: one
        who is elected and cannot work must not keep others from it.
        Cancel: the vote is taken back, within `WITHDRAW_S`.
        """
        await self._forever.run(partial(self._try_stand, work))

    async def _try_stand(self, work: Work) -> None:
        try:
            await self._stand(work)
        except CoreError:
            self._metrics.election_failures_total += 1
            raise

    async def _stand(self, work: Work) -> None:
        """Vote once, and follow that vote to its end."""
        self._metrics.election_attempts_total += 1
        path = await self._store.create(
            self._paths.vote_prefix,
            encode_vote(self._candidate),
            ephemeral=True,
            sequential=True,
            parents=True,
        )
        try:
            lost = await self._watch(path)
            if lost.is_set():
                return
            await together([self._until_lost(lost), self._win(path, work)])
        except _VoteLost:
            logger.warning("auditor_vote_lost candidate=%s vote=%s", self._candidate, path)
        finally:
            self._metrics.elected = 0
            await self._withdraw(path)

    async def _watch(self, path: str) -> asyncio.Event:
        """Return what is set when our vote goes, or when nobody can tell."""
        lost = asyncio.Event()

        def fired(_path: str, _event: WatchEvent) -> None:
            lost.set()

        if await self._store.exists(path, fired) is None:
            lost.set()
        return lost

    async def _until_lost(self, lost: asyncio.Event) -> None:
        await lost.wait()
        raise _VoteLost

    async def _win(self, path: str, work: Work) -> None:
        """Wait until our vote is the first, and work then."""
        mine = _parse(path)
        assert mine is not None, f"{path} is no vote"
        while (before := await self._predecessor(mine)) is not None:
            gone = asyncio.Event()

            def fired(_path: str, _event: WatchEvent, gone: asyncio.Event = gone) -> None:
                gone.set()

            if await self._store.exists(before.path, fired) is not None:
                await gone.wait()
        await self._store.set(self._paths.election, encode_vote(self._candidate))
        self._forever.is_well()
        self._metrics.elected = 1
        logger.info("auditor_elected candidate=%s vote=%s", self._candidate, path)
        await work()

    async def _predecessor(self, mine: Vote) -> Vote | None:
        votes = await read_votes(self._store, self._paths)
        if mine not in votes:
            raise _VoteLost
        at = votes.index(mine)
        return votes[at - 1] if at else None

    async def _withdraw(self, path: str) -> None:
        """Let the next one in line audit; if the store is away, the end of the session does."""
        try:
            async with asyncio.timeout(WITHDRAW_S):
                await self._store.delete(path)
        except NoNode:
            return
        except (CoreError, TimeoutError) as error:
            logger.warning("auditor_vote_left vote=%s error=%r", path, error)


async def read_votes(store: MetadataStore, paths: UnderreplicationPaths) -> list[Vote]:
    """Return all votes, the auditor's first. Errors: NoNode when nobody voted ever."""
    votes = [_parse(f"{paths.election}/{name}") for name in await store.children(paths.election)]
    return sorted(vote for vote in votes if vote is not None)


async def current_auditor(store: MetadataStore, root: str) -> str | None:
    """Return how the elected auditor calls itself, None if there is none. Errors: Unavailable."""
    paths = UnderreplicationPaths(root)
    try:
        votes = await read_votes(store, paths)
    except NoNode:
        return None
    for vote in votes:
        try:
            return decode_vote((await store.get(vote.path)).data)
        except NoNode:
            continue  # it went a moment ago: the next one is elected
        except CorruptData as error:
            raise CorruptData(f"{vote.path}: {error}") from None
    return None


def _parse(path: str) -> Vote | None:
    found = _VOTE.fullmatch(path.rpartition("/")[2])
    return Vote(int(found[1]), path) if found is not None else None


class _VoteLost(Exception):
    """Our vote is not there any more, or was tampered with."""
