"""The metadata store of a cluster: ZooKeeper, behind the contract that SQLite keeps too.

The operations; what they wait for and what happens to the session is `ZookeeperSession`'s part.
"""

import contextlib
import logging
from collections.abc import Sequence
from typing import Any, Final, Self, cast

from tailrace.core.errors import CoreError, NodeExists, NoNode, NotEmpty, Unavailable
from tailrace.core.metadata.node_path import check_ops, check_size, split_path
from tailrace.core.metadata.store import (
    ANY_VERSION,
    Delete,
    Node,
    Op,
    SessionEvent,
    SessionListener,
    Watch,
)
from tailrace.core.metadata.zookeeper_acls import PLAIN, Grant, ZookeeperAccess
from tailrace.core.metadata.zookeeper_link import Seen
from tailrace.core.metadata.zookeeper_names import SequentialNames
from tailrace.core.metadata.zookeeper_session import ZookeeperSession
from tailrace.core.metadata.zookeeper_watches import ABSENT
from tailrace.core.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

SESSION_TIMEOUT_MS: Final = 10_000
"""BookKeeper's zkTimeout."""

PARENT_ATTEMPTS_MAX: Final = 5
"""How often parents that others prune are made again before a create gives up."""


class ZookeeperStore:
    """A `MetadataStore` in ZooKeeper. Made by `connect`. Errors: see the contract.

    Every operation ends within one session timeout per round trip: with its outcome or with
    Unavailable. Operations of one round trip are sent in the order of their calls.
    """

    def __init__(self, session: ZookeeperSession) -> None:
        self._session = session
        self._names = SequentialNames()
        self._tasks = Tasks("zookeeper")
        self._is_cleaning = False
        self._is_old = False
        """Whether the server has no request for several nodes."""
        self.metrics = session.metrics
        session.on_session(self._on_session)

    @classmethod
    async def connect(
        cls,
        hosts: str,
        *,
        chroot: str = "",
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        answer_within_ms: int | None = None,
        access: ZookeeperAccess = PLAIN,
    ) -> Self:
        """Return a store with a session. `hosts`: "h1:2181,h2:2181"; `chroot`: "" or "/path".

        The servers may bound the timeout: see `session_timeout_ms`. `answer_within_ms`: how long
        operations wait, if not for one session timeout. `access`: credentials, TLS, and whose the
        nodes are that are made. Errors: Unavailable when nobody answers; AuthFailed when the
        servers refuse the credentials; InvalidKeys.
        """
        session = ZookeeperSession(hosts + chroot, session_timeout_ms, answer_within_ms, access)
        await session.open()
        store = cls(session)
        try:
            await store._learn_age()
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def session_timeout_ms(self) -> int:
        """After so long without a word the servers end the session: what they have granted."""
        return self._session.granted_ms

    @property
    def session_id(self) -> int:
        """The session that ephemeral nodes belong to; changes with NEW_SESSION."""
        return self._session.session_id

    def on_session(self, listener: SessionListener) -> None:
        """Tell `listener` of each change of the session from now on."""
        self._session.on_session(listener)

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        """Return the node. Errors: NoNode. The watch fires on CHANGED or DELETED."""
        split_path(path)

        def answered(answer: Seen | CoreError) -> Node | CoreError:
            if isinstance(answer, CoreError):
                return answer
            self._session.watches.add_data(path, watch, answer.data_zxid)
            return answer.node

        is_watched = watch is not None
        return cast(
            "Node",
            await self._session.ask(
                lambda link, done: link.get(path, done, watch=is_watched), answered
            ),
        )

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        """Return the node or None. The watch fires on CREATED, CHANGED or DELETED.

        Cost: a second round trip when the node is not there and is watched.
        """
        try:
            return await self.get(path, watch)
        except NoNode:
            if watch is None or not await self._watch_absent(path, watch):
                return None
        try:
            return await self.get(path)  # it came meanwhile
        except NoNode:
            return None  # and went: the watch says so

    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        """Return the nodes, None for each that is not there.

        Cost: one request for all; one for each if the server is older than ZooKeeper 3.6.
        """
        for path in paths:
            split_path(path)
        if not paths:
            return []
        if not self._is_old:
            found = await self._session.ask(lambda link, done: link.get_all(paths, done))
            if found is not None:
                return cast("list[Node | None]", found)
            await self._note_old()
        return await self._get_each(paths)

    async def _learn_age(self) -> None:
        """Ask for no node at all, while nothing else is asked.

        An old server refuses at once, before it answers what was sent earlier; kazoo takes that
        for the end of the session.
        """
        if await self._session.ask(lambda link, done: link.get_all((), done)) is None:
            await self._note_old()

    async def _note_old(self) -> None:
        self._is_old = True
        logger.info("zookeeper_reads_one_by_one why=server_before_3.6")
        # It closes the connection behind such an answer: what is sent before we hear of that is
        # lost, and what comes then waits for the next connection.
        with contextlib.suppress(Unavailable):
            await self.sync()

    async def _get_each(self, paths: Sequence[str]) -> list[Node | None]:
        """Read them before anything that is called later: who loads a log relies on that order."""
        found = await self._session.ask(lambda link, done: link.get_each(paths, done))
        return cast("list[Node | None]", found)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the names of the children, sorted. Errors: NoNode. Fires on CHILDREN, DELETED."""
        split_path(path)

        def answered(answer: tuple[list[str], Seen] | CoreError) -> list[str] | CoreError:
            if isinstance(answer, CoreError):
                return answer
            names, seen = answer
            self._session.watches.add_children(path, watch, seen.children_zxid)
            return sorted(names)

        is_watched = watch is not None
        return cast(
            "list[str]",
            await self._session.ask(
                lambda link, done: link.children(path, done, watch=is_watched), answered
            ),
        )

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        parents: bool = False,
    ) -> str:
        """Create a node and return its path. Errors: NodeExists, NoNode."""
        split_path(path + "0" if sequential else path)
        check_size(path, data)
        for _ in range(PARENT_ATTEMPTS_MAX):
            try:
                if ephemeral and sequential:
                    return await self._create_name(path, data)
                return await self._create(path, data, ephemeral=ephemeral, sequential=sequential)
            except NoNode:
                if not parents:
                    raise
            await self._create_parents(path)
        raise NoNode(f"{path}: its parents vanished {PARENT_ATTEMPTS_MAX} times")

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Replace the data and return the new version. Errors: NoNode, BadVersion."""
        split_path(path)
        check_size(path, data)
        new_version = await self._session.ask(
            lambda link, done: link.set(path, data, version, done)
        )
        return cast("int", new_version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete the node. Errors: NoNode, BadVersion, NotEmpty."""
        if not split_path(path)[0]:
            raise NotEmpty("the root stays")
        await self._session.ask(lambda link, done: link.delete(path, version, done))
        self._names.on_gone(path)

    async def multi(self, ops: Sequence[Op]) -> list[int]:
        """Do all or nothing; return each op's new version. Errors: the first failing op's."""
        ops = tuple(ops)
        check_ops(ops)
        if not ops:
            return []
        versions = await self._session.ask(lambda link, done: link.multi(ops, done))
        for op in ops:
            if isinstance(op, Delete):
                self._names.on_gone(op.path)
        return cast("list[int]", versions)

    async def sync(self) -> None:
        """Make later reads see everything that was done before, through whichever server."""
        await self._session.ask(lambda link, done: link.sync(done))

    async def get_acl(self, path: str) -> tuple[Grant, ...]:
        """Return the ACL of a node, with the identities that the servers made of it.

        Errors: NoNode; NoAuth.
        """
        split_path(path)
        return cast(
            "tuple[Grant, ...]",
            await self._session.ask(lambda link, done: link.get_acl(path, done)),
        )

    async def set_acl(self, path: str, acl: Sequence[Grant]) -> None:
        """Replace the ACL of a node. Errors: NoNode; NoAuth."""
        split_path(path)
        await self._session.ask(lambda link, done: link.set_acl(path, acl, done))

    async def close(self) -> None:
        """End the session: its ephemeral nodes go. Idempotent. Waits one session timeout at most.

        Whoever waits for an answer gets Unavailable.
        """
        await self._tasks.close()
        await self._session.close()

    async def _watch_absent(self, path: str, watch: Watch) -> bool:
        def answered(answer: Seen | CoreError | None) -> bool | CoreError:
            if isinstance(answer, CoreError):
                return answer
            zxid = ABSENT if answer is None else answer.data_zxid
            self._session.watches.add_data(path, watch, zxid)
            return answer is not None

        found = await self._session.ask(
            lambda link, done: link.exists(path, done, watch=True), answered
        )
        return cast("bool", found)

    async def _create(self, path: str, data: bytes, *, ephemeral: bool, sequential: bool) -> str:
        made = await self._session.ask(
            lambda link, done: link.create(
                path, data, done, ephemeral=ephemeral, sequential=sequential
            )
        )
        return cast("str", made)

    async def _create_parents(self, path: str) -> None:
        """Make what is missing above `path`; if others delete it meanwhile, the caller sees it."""
        missing = []
        parent = path.rpartition("/")[0]
        while parent:
            try:
                await self._create(parent, b"", ephemeral=False, sequential=False)
            except NodeExists:
                break
            except NoNode:
                missing.append(parent)
                parent = parent.rpartition("/")[0]
            else:
                break
        with contextlib.suppress(NoNode):
            for one in reversed(missing):
                with contextlib.suppress(NodeExists):
                    await self._create(one, b"", ephemeral=False, sequential=False)

    # Ephemeral sequential nodes: what nobody was told of must not stay.

    async def _create_name(self, path: str, data: bytes) -> str:
        if self._names.has_doubts:
            self._start_cleaning()
            await self._session.within(self._names.settled())
        made = ""
        given_up = False

        def answered(answer: str | CoreError) -> Any:
            nonlocal made
            if isinstance(answer, Unavailable):
                self._names.on_doubt(path)
            elif isinstance(answer, str):
                made = answer
                self._names.on_made(made)
                if given_up:
                    self._forget(made, path)
            return answer

        try:
            created = await self._session.ask(
                lambda link, done: link.create(path, data, done, ephemeral=True, sequential=True),
                answered,
            )
        except BaseException:
            given_up = True
            if made:
                self._forget(made, path)
            raise
        return cast("str", created)

    def _forget(self, made: str, prefix: str) -> None:
        """Doubt what was made: its caller left without hearing of it."""
        self._names.on_gone(made)
        self._names.on_doubt(prefix)
        self._start_cleaning()

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.NEW_SESSION:
            self._names.on_new_session()
        elif event is SessionEvent.RESTORED and self._names.has_doubts:
            self._start_cleaning()

    def _start_cleaning(self) -> None:
        if not self._is_cleaning and not self._session.is_closed:
            self._is_cleaning = True
            self._tasks.start(self._clean(), "unknown nodes")

    async def _clean(self) -> None:
        try:
            await self._names.clean(self)
        except Unavailable:
            return  # the next connection, or the next create, tries again
        finally:
            self._is_cleaning = False
