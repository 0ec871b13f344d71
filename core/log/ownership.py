"""Who writes a log: an ephemeral, sequential member below its `lock` node.

The lock keeps healthy processes from fighting; it proves nothing. What makes a second writer
harmless is fencing and the versions of the metadata (reference DistributedLog 6.4), so a lost
session does not stop an owner: it asks for its place again in the background, and only the answer
that somebody else has it by now, or had it meanwhile, or that one's fence, ends it. Who had it may
have added records: an owner that went on as if nothing had happened would not know of them, and
who writes nothing meets no fence. The numbers of members tell: nobody came in between if they are
successive.

    acquire --> HELD --session over--> asking again --> HELD
                                            +---------> refused: `on_refused`, once and for all

Source: reference DistributedLog 6.1, 6.2, 6.3; ZKSessionLock, ZKDistributedLock.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from urllib.parse import quote_plus, unquote_plus

from tailrace.core.errors import (
    CoreError,
    NoNode,
    OwnershipAcquireFailed,
    OwnershipLost,
    Unavailable,
)
from tailrace.core.metadata.store import MetadataStore, WatchEvent
from tailrace.core.runtime.decimal_text import INT64_MAX, decimal
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.tasks import Tasks, together

logger = logging.getLogger(__name__)

_MEMBER: Final = re.compile(r"member_(?P<client>.*)_s *(?P<session>-?\d+)_(?P<sequence>-?\d+)")
"""A client's name may have underscores: only the end of a member's name tells its parts."""

_REMOVAL_PAUSES_S: Final = (0.1, 0.5, 2.0, 10.0, 20.0, 30.0, 60.0)
"""Pauses between attempts to remove a member; nobody answers for longer: its session is over."""

REACQUIRE_PAUSE_S_MAX: Final = 10.0
"""Between attempts to get a place back while the metadata store does not answer, at most."""

REACQUIRE_TIMEOUT_S: Final = 120
"""How long one such attempt may take: DistributedLog's default."""


class LockMember(NamedTuple):
    """One contender, as its node's name tells."""

    sequence: int
    name: str
    client_id: str
    """Empty when the name is of an older form, which only the node's data tells."""
    session_id: int


def member_prefix(client_id: str, session_id: int) -> str:
    """Return a member's name up to the sequence number."""
    return f"member_{quote_plus(client_id)}_s{session_id:10d}_"


def parse_member(name: str) -> LockMember:
    """Take a member's name apart; the older forms have no client id or session in it.

    Errors: ValueError for a name without a sequence number.
    """
    found = _MEMBER.fullmatch(name)
    if found is None:
        return LockMember(_number(name.rpartition("_")[2]), name, "", 0)
    client_id = unquote_plus(found["client"])
    return LockMember(_number(found["sequence"]), name, client_id, _number(found["session"]))


def _number(text: str) -> int:
    found = decimal(text, least=-INT64_MAX - 1)
    if found is None:
        raise ValueError(f"{text[:40]!r} is not a number")
    return found


async def read_members(store: MetadataStore, path: str) -> list[LockMember]:
    """Return who stands at a lock: its holder, then those in line. Errors: NoNode, CoreError."""
    members: list[LockMember] = []
    for name in await store.children(path):
        try:
            members.append(parse_member(name))
        except ValueError:  # put there by hand: it claims nothing
            logger.warning("lock_member_unknown path=%s name=%s", path, name)
    return sorted(members)


class Ownership:
    """The claim of one owner to one log; `acquire` it once. All calls come from the loop."""

    def __init__(
        self,
        store: MetadataStore,
        lock_path: str,
        client_id: str,
        on_refused: Callable[[OwnershipLost], None] | None = None,
        reacquire_timeout_s: float = REACQUIRE_TIMEOUT_S,
        *,
        is_exclusive: bool = False,
    ) -> None:
        """`on_refused` hears, at most once, that a place lost with its session is another's now.

        `is_exclusive`: nobody else can have this client id.
        """
        self._store = store
        self._path = lock_path
        self._client_id = client_id
        self._on_refused = on_refused
        self._reacquire_timeout_s = reacquire_timeout_s
        self._is_exclusive = is_exclusive
        self._tasks = Tasks("log.lock")
        self._removals = Tasks("log.lock.removals")
        self._member: str | None = None
        self._sequence: int | None = None
        """Of the member that we made last."""
        self._is_interrupted = False
        """Whether somebody may have come between two members of ours."""
        self._session_id = 0
        """The session that our member belongs to, or did when it went."""
        self._gone: str | None = None
        """The member that went last before we knew it to hold the lock."""
        self._is_claimed = False
        self._refused: OwnershipLost | None = None

    async def take_number(self) -> int:
        """Return a number that nobody else gets, higher than all that were taken before.

        Once, when the lock was acquired: it tells this owner from any before, who may have written
        nothing, and go on for a while. The members' own numbers would not do: an exclusive client
        passes others in the line. Errors: CoreError. Cost: a write to the metadata store.
        """
        return await self._store.set(self._path, b"")

    @property
    def is_held(self) -> bool:
        """Whether our member is there, as far as we know."""
        return self._member is not None

    async def acquire(self, wait_ms: int) -> None:
        """Claim the log; wait for its present owner so long (0: not at all, negative: for ever).

        Errors: OwnershipAcquireFailed names the owner; OwnershipLost when our place in line went
        with its session; Unavailable. Cancel: the member is removed.
        """
        if self._is_claimed:
            raise AssertionError(f"{self._path} was claimed by this object before")
        self._is_claimed = True
        await self._claim(wait_ms)

    def check_ownership(self) -> None:
        """Errors: OwnershipLost: not acquired, released, refused, or asking for the place again.

        For what no fence protects: changing or deleting segments that are completed.
        """
        self.check_not_refused()
        if self._member is None:
            raise OwnershipLost(f"{self._path} is not held now")

    def check_not_refused(self) -> None:
        """Errors: OwnershipAcquireFailed once a place that was lost is somebody else's.

        For what a fence protects: an owner that asks for its place again goes on.
        """
        if self._refused is not None:
            raise self._refused.with_traceback(None)

    async def release(self) -> None:
        """Let others claim the log. Idempotent."""
        member, self._member = self._member, None
        await self._tasks.close()
        if member is not None:
            await self._remove(member)

    # ------------------------------------------------------------------ one attempt

    async def _claim(self, wait_ms: int) -> None:
        if wait_ms == 0:
            await self._refuse_if_owned()
        session_id = self._store.session_id
        member = await self._store.create(
            f"{self._path}/{member_prefix(self._client_id, session_id)}",
            self._client_id.encode(),
            ephemeral=True,
            sequential=True,
        )
        try:
            await self._take_turn(member, wait_ms)
        except BaseException:
            await self._remove(member)
            raise
        self._member, self._session_id = member, session_id

    async def _take_turn(self, member: str, wait_ms: int) -> None:
        """Wait until the lock is our member's, and hear of its end from then on."""
        mine = parse_member(member.rpartition("/")[2])
        await together([self._watch(member), self._await_turn(mine, wait_ms)])
        if self._gone == member:
            raise _gone(member)

    async def _refuse_if_owned(self) -> None:
        for owner in (await self._members())[:1]:
            if not self._is_ours(owner):
                raise self._refusal(await self._describe(owner))

    async def _await_turn(self, mine: LockMember, wait_ms: int) -> None:
        owner = ""
        try:
            async with asyncio.timeout(wait_ms / 1000 if wait_ms > 0 else None):
                while True:
                    members = await self._members()
                    if mine not in members:
                        raise OwnershipLost(
                            f"{self._path}: our place in line went with its session"
                        )
                    self._note_others(mine, members)
                    before = [m for m in members if m.sequence < mine.sequence]
                    if not before or self._is_ours(before[0]):
                        return
                    owner = await self._describe(before[0])
                    if wait_ms == 0:
                        raise self._refusal(owner)
                    await self._await_gone(before[-1])
        except TimeoutError:
            raise self._refusal(owner) from None

    def _note_others(self, mine: LockMember, members: Sequence[LockMember]) -> None:
        """Find out whether all members between our former one and this are ours: sent twice."""
        former, self._sequence = self._sequence, mine.sequence
        if former is not None:
            between = [m for m in members if former < m.sequence < mine.sequence]
            ours = sum(self._is_ours(each) for each in between)
            self._is_interrupted |= mine.sequence > former + 1 + ours

    def _refusal(self, owner: str) -> OwnershipAcquireFailed:
        return OwnershipAcquireFailed(f"{self._path} is owned by {owner}", current_owner=owner)

    async def _await_gone(self, member: LockMember) -> None:
        gone = asyncio.Event()

        def fired(_path: str, _event: WatchEvent) -> None:
            gone.set()

        if await self._store.exists(f"{self._path}/{member.name}", fired) is not None:
            await gone.wait()

    async def _members(self) -> list[LockMember]:
        return await read_members(self._store, self._path)

    def _is_ours(self, member: LockMember) -> bool:
        """Tell a member of this session, or of the one that this claim had before.

        A create that was sent twice leaves two members; one of a former session goes by itself.
        Of a client id that nobody else can have, any session is ours or over.
        """
        sessions = (self._store.session_id, self._session_id)
        is_over = self._is_exclusive or member.session_id in sessions
        return member.client_id == self._client_id and is_over

    async def _describe(self, member: LockMember) -> str:
        try:
            node = await self._store.get(f"{self._path}/{member.name}")
        except NoNode:
            return member.client_id
        return node.data.decode(errors="replace")

    async def _remove(self, member: str) -> None:
        """Remove a member, in the background if the store is away: it would be in others' way."""
        if not await self._has_removed(member):
            self._removals.start(self._remove_later(member, self._store.session_id), "remove")

    async def _remove_later(self, member: str, session_id: int) -> None:
        for pause_s in _REMOVAL_PAUSES_S:
            await asyncio.sleep(pause_s)
            if self._store.session_id != session_id or await self._has_removed(member):
                return
        logger.warning("lock_member_left path=%s until_session=%d_ends", member, session_id)

    async def _has_removed(self, member: str) -> bool:
        try:
            await self._store.delete(member)
        except NoNode:
            logger.info("lock_member_gone path=%s", member)
        except Unavailable as error:
            logger.info("lock_member_not_removed path=%s error=%r", member, error)
            return False
        return True

    # ------------------------------------------------------------------ asking again

    async def _watch(self, member: str) -> None:
        """Hear of the end of our member. Errors: OwnershipLost when it is not there any more."""

        def fired(_path: str, event: WatchEvent) -> None:
            if event is WatchEvent.CHANGED:
                return
            if self._member != member:
                self._gone = member
                return
            self._member = None
            logger.warning("lock_lost path=%s event=%s", member, event.value)
            self._tasks.start(self._reacquire(), "reacquire")

        if await self._store.exists(member, fired) is None:
            raise _gone(member)

    async def _reacquire(self) -> None:
        """Ask until there is an answer; meanwhile the owner goes on (ARCHITECTURE D9)."""
        asking = Forever(
            "log.lock.reacquire",
            about=self._path,
            expected=(CoreError, TimeoutError),
            pause_s_max=REACQUIRE_PAUSE_S_MAX,
        )
        await asking.until_done(self._try_reacquire)

    async def _try_reacquire(self) -> None:
        if self._member is not None:
            return
        try:
            async with asyncio.timeout(self._reacquire_timeout_s):
                await self._claim(0)
                await self._check_not_interrupted()
        except OwnershipAcquireFailed as error:
            self._refuse(error)
        else:
            logger.info("lock_reacquired path=%s", self._path)

    async def _check_not_interrupted(self) -> None:
        """Give up a place that somebody may have had. Errors: OwnershipAcquireFailed."""
        member = self._member
        if self._is_interrupted and member is not None:
            self._member = None
            await self._remove(member)
            raise OwnershipAcquireFailed(
                f"{self._path} may have been owned by somebody else meanwhile", current_owner=""
            )

    def _refuse(self, error: OwnershipAcquireFailed) -> None:
        logger.warning("lock_refused path=%s owner=%s", self._path, error.current_owner)
        self._refused = error
        if self._on_refused is not None:
            self._on_refused(error)


def _gone(member: str) -> OwnershipLost:
    return OwnershipLost(f"{member} went with its session")
