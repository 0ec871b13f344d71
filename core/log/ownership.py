"""Who writes a log: an ephemeral, sequential member below its `lock` node.

The lock keeps healthy processes from fighting; it proves nothing. What makes a second writer
harmless is fencing and the versions of the metadata (reference DistributedLog 6.4), so a lost
session does not stop an owner: only somebody else's fence does.
Source: reference DistributedLog 6.1, 6.2; ZKSessionLock.
"""

import asyncio
import logging
from typing import Final, NamedTuple
from urllib.parse import quote_plus, unquote_plus

from core.errors import NoNode, OwnershipLost
from core.metadata.store import MetadataStore, WatchEvent

logger = logging.getLogger(__name__)

_NAME_PARTS: Final = 4


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
    parts = name.split("_")
    sequence = int(parts[-1])
    if len(parts) != _NAME_PARTS or not parts[2].startswith("s"):
        return LockMember(sequence, name, "", 0)
    return LockMember(sequence, name, unquote_plus(parts[1]), int(parts[2][1:]))


class Ownership:
    """One attempt to own one log, and the ownership that comes of it. Used once."""

    def __init__(self, store: MetadataStore, lock_path: str, client_id: str) -> None:
        self._store = store
        self._path = lock_path
        self._client_id = client_id
        self._member: str | None = None

    @property
    def is_held(self) -> bool:
        """Whether the log was claimed and not released."""
        return self._member is not None

    async def acquire(self, wait_ms: int) -> None:
        """Claim the log; wait for its present owner at most so long (0: not at all).

        Errors: OwnershipLost names the owner. Cancel: the member is removed.
        """
        if wait_ms == 0:
            await self._refuse_if_owned()
        member = await self._store.create(
            f"{self._path}/{member_prefix(self._client_id, self._store.session_id)}",
            self._client_id.encode(),
            ephemeral=True,
            sequential=True,
        )
        try:
            await self._await_turn(parse_member(member.rpartition("/")[2]), wait_ms)
        except BaseException:
            await self._remove(member)
            raise
        self._member = member

    async def release(self) -> None:
        """Let others claim the log. Idempotent."""
        member, self._member = self._member, None
        if member is not None:
            await self._remove(member)

    async def _refuse_if_owned(self) -> None:
        for owner in (await self._members())[:1]:
            if not self._is_ours(owner):
                raise OwnershipLost(f"{self._path} is owned by {await self._describe(owner)}")

    async def _await_turn(self, mine: LockMember, wait_ms: int) -> None:
        owner = None
        try:
            async with asyncio.timeout(wait_ms / 1000 if wait_ms else None):
                while True:
                    members = await self._members()
                    if mine not in members:
                        raise OwnershipLost(
                            f"{self._path}: our place in line went with its session"
                        )
                    before = [m for m in members if m.sequence < mine.sequence]
                    if not before or self._is_ours(before[0]):
                        return
                    owner = await self._describe(before[0])
                    if wait_ms == 0:
                        raise OwnershipLost(f"{self._path} is owned by {owner}")
                    await self._await_gone(before[-1])
        except TimeoutError:
            raise OwnershipLost(f"{self._path} is owned by {owner}") from None

    async def _await_gone(self, member: LockMember) -> None:
        gone = asyncio.Event()

        def fired(_path: str, _event: WatchEvent) -> None:
            gone.set()

        if await self._store.exists(f"{self._path}/{member.name}", fired) is not None:
            await gone.wait()

    async def _members(self) -> list[LockMember]:
        return sorted(parse_member(name) for name in await self._store.children(self._path))

    def _is_ours(self, member: LockMember) -> bool:
        """Tell a member of this client and session: a create that was sent twice leaves two."""
        return (member.client_id, member.session_id) == (self._client_id, self._store.session_id)

    async def _describe(self, member: LockMember) -> str:
        try:
            node = await self._store.get(f"{self._path}/{member.name}")
        except NoNode:
            return member.client_id
        return node.data.decode(errors="replace")

    async def _remove(self, member: str) -> None:
        try:
            await self._store.delete(member)
        except NoNode:
            logger.info("lock_member_gone path=%s", member)
