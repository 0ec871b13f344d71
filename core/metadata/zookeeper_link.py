"""The one place that knows kazoo: its thread's callbacks become calls on the loop, in wire order.

kazoo runs one thread per client that sends, receives and reconnects; its own worker threads for
callbacks are not used (`LoopHandler`), because two of them would part the order of answers and
watch events. Every answer, watch event and change of state is posted to the loop by that thread, so
the loop sees them as they came over the wire. Nothing here decides what is done about any of it.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient, KazooState, KeeperState
from kazoo.protocol.paths import _prefix_root
from kazoo.protocol.serialization import Connect

from tailrace.core.errors import (
    AuthFailed,
    BadVersion,
    CoreError,
    MetadataConflict,
    NoAuth,
    NodeExists,
    NoNode,
    NotEmpty,
    Unavailable,
)
from tailrace.core.metadata.kazoo_handler import LoopHandler
from tailrace.core.metadata.kazoo_reads import MultiRead
from tailrace.core.metadata.kazoo_security import Connecting, credentials, grants_of, kazoo_acl
from tailrace.core.metadata.store import Check, Create, Delete, Node, Op, SetData, WatchEvent
from tailrace.core.metadata.zookeeper_acls import PLAIN, Grant, ZookeeperAccess
from tailrace.core.metadata.zookeeper_tls import zookeeper_context

logger = logging.getLogger(__name__)
# What kazoo has to say per connection attempt is told by us, once per change of state.
_kazoo_logger = logging.getLogger(f"{__name__}.kazoo")
_kazoo_logger.setLevel(logging.ERROR)

_RECONNECT: Final = {"max_tries": -1, "delay": 0.1, "backoff": 2}
_RECONNECT_S_MAX: Final = 2.0
"""Longest pause between attempts; a fifth of the session timeout if that is less."""


class LinkState(Enum):
    """What is known of the session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    REFUSED = "refused"
    """The servers do not take this process' credentials; kazoo has given up."""
    CLOSED = "closed"
    """kazoo has given up: by `stop`, or after something it did not expect."""


class Seen(NamedTuple):
    """A node as one answer told of it. `exists` leaves its data empty."""

    node: Node
    data_zxid: int
    """Transaction that last made or set the node."""
    children_zxid: int
    """Transaction that last changed the list of children."""


Done: TypeAlias = Callable[[Any], None]
"""Takes an answer or a CoreError, on the loop, in the order in which answers came."""

_ERRORS: Final[dict[type[Exception], type[CoreError]]] = {
    kazoo_errors.NoNodeError: NoNode,
    kazoo_errors.NodeExistsError: NodeExists,
    kazoo_errors.BadVersionError: BadVersion,
    kazoo_errors.NotEmptyError: NotEmpty,
    kazoo_errors.NoChildrenForEphemeralsError: MetadataConflict,
}
_REFUSALS: Final[dict[type[Exception], tuple[type[CoreError], str]]] = {
    kazoo_errors.NoAuthError: (NoAuth, "its ACL in ZooKeeper does not let this process do that"),
    kazoo_errors.InvalidACLError: (NoAuth, "ZooKeeper does not know the users of its ACL"),
    kazoo_errors.AuthFailedError: (AuthFailed, "ZooKeeper refuses the credentials"),
    kazoo_errors.SessionClosedRequireSaslError: (
        AuthFailed,
        "ZooKeeper serves no session that has not authenticated",
    ),
}
_EVENTS: Final = {
    "CREATED": WatchEvent.CREATED,
    "CHANGED": WatchEvent.CHANGED,
    "DELETED": WatchEvent.DELETED,
    "CHILD": WatchEvent.CHILDREN,
}
_BROKEN: Final = (kazoo_errors.ConnectionLoss, kazoo_errors.SessionExpiredError)
_ENDED: Final = {
    KeeperState.EXPIRED_SESSION: LinkState.EXPIRED,
    KeeperState.AUTH_FAILED: LinkState.REFUSED,
}
_NOT_AT_FAULT: Final = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)


class ZookeeperLink:
    """One kazoo client, made and used on one loop. Requests are sent in the order of their calls.

    `on_state(state, session_id)` and `on_event(path, event)` are called on the loop. A request that
    is made while nobody is connected may be sent later: look at `is_live` first.
    """

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        on_state: Callable[[LinkState, int], None],
        on_event: Callable[[str, WatchEvent], None],
        access: ZookeeperAccess = PLAIN,
    ) -> None:
        self._access = access
        self._loop = asyncio.get_running_loop()
        self._on_state = on_state
        self._on_event = on_event
        timeout_s = session_timeout_ms / 1000
        self._handler = LoopHandler(
            timeout_s / (hosts.count(",") + 1), partial(zookeeper_context, access.config)
        )
        self._client = KazooClient(
            hosts=hosts,
            timeout=timeout_s,
            handler=self._handler,
            connection_retry={**_RECONNECT, "max_delay": min(_RECONNECT_S_MAX, timeout_s / 5)},
            logger=_kazoo_logger,
            **credentials(access.config),
        )
        self._client.add_listener(self._state_changed)
        self.granted_ms = 0
        """The session timeout that the server has granted; 0 before there is a session."""
        connection = self._client._connection
        connection._invoke = partial(self._invoked, connection._invoke)
        self._connecting = Connecting(connection, self._authenticated)

    @property
    def is_live(self) -> bool:
        """Whether a server answers just now, as far as kazoo knows."""
        return bool(self._client.connected)

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        """Session id and password, while connected."""
        found: tuple[int, bytes] | None = self._client.client_id
        return found

    @property
    def trouble(self) -> str:
        """Why the last attempt to connect failed; empty after one that did not."""
        return self._connecting.trouble

    def start(self) -> None:
        """Begin to connect."""
        self._client.start_async()

    def stop(self) -> "asyncio.Future[None]":
        """End the session, in a thread of its own: kazoo waits for the server's answer."""
        ended: asyncio.Future[None] = self._loop.create_future()

        def settle() -> None:
            if not ended.done():
                ended.set_result(None)

        def run() -> None:
            try:
                self._client.stop()
                self._client.close()
            except Exception as error:  # noqa: BLE001 - the thread's own boundary
                # The server ends the session by itself when it hears no more of us.
                logger.warning("zookeeper_close_failed error=%s", error)
            self._post(settle)

        threading.Thread(target=run, name="zookeeper close", daemon=True).start()
        return ended

    def get(self, path: str, done: Done, *, watch: bool) -> None:
        """Answer a Seen. Errors: NoNode."""
        with self._asking(path, done, lambda answer: _seen(*answer)):
            self._client.get_async(path, watch=self._fired if watch else None)

    def get_all(self, paths: Sequence[str], done: Done) -> None:
        """Answer a Node or None for each; None from a server before ZooKeeper 3.6."""
        client = self._client
        request = MultiRead(tuple(_prefix_root(client.chroot, path) for path in paths))
        with self._asking("multi read", done, partial(_nodes, paths)):
            client._call(request, client.handler.async_result())

    def get_each(self, paths: Sequence[str], done: Done) -> None:
        """Answer as `get_all`, by a request for each; all are sent before this returns."""
        found: list[Node | CoreError | None] = []

        def note(answer: Seen | CoreError) -> None:
            if isinstance(answer, Seen):
                found.append(answer.node)
            else:
                found.append(None if isinstance(answer, NoNode) else answer)
            if len(found) == len(paths):
                done(next((each for each in found if isinstance(each, CoreError)), found))

        for path in paths:
            self.get(path, note, watch=False)

    def exists(self, path: str, done: Done, *, watch: bool) -> None:
        """Answer a Seen without data, or None."""
        with self._asking(path, done, lambda stat: stat and _seen(b"", stat)):
            self._client.exists_async(path, watch=self._fired if watch else None)

    def children(self, path: str, done: Done, *, watch: bool) -> None:
        """Answer (names in any order, Seen without data). Errors: NoNode."""
        with self._asking(path, done, lambda answer: (answer[0], _seen(b"", answer[1]))):
            self._client.get_children_async(
                path, watch=self._fired if watch else None, include_data=True
            )

    def create(
        self, path: str, data: bytes, done: Done, *, ephemeral: bool, sequential: bool
    ) -> None:
        """Answer the path that was made. Errors: NodeExists, NoNode."""
        with self._asking(path, done, str):
            acl = kazoo_acl(self._access.acl(path))
            self._client.create_async(path, data, acl, ephemeral=ephemeral, sequence=sequential)

    def set(self, path: str, data: bytes, version: int, done: Done) -> None:
        """Answer the new version. Errors: NoNode, BadVersion."""
        with self._asking(path, done, lambda stat: stat.version):
            self._client.set_async(path, data, version)

    def delete(self, path: str, version: int, done: Done) -> None:
        """Answer None. Errors: NoNode, BadVersion, NotEmpty."""
        with self._asking(path, done, lambda _: None):
            self._client.delete_async(path, version)

    def multi(self, ops: Sequence[Op], done: Done) -> None:
        """Answer each op's new version. Errors: the first failing op's."""
        transaction = self._client.transaction()
        for op in ops:
            if isinstance(op, Create):
                acl = kazoo_acl(self._access.acl(op.path))
                transaction.create(op.path, op.data, acl, ephemeral=op.ephemeral)
            else:
                _ADD[type(op)](transaction, op)
        with self._asking("multi", done, partial(_versions, ops)):
            transaction.commit_async()

    def sync(self, done: Done) -> None:
        """Answer once the server has caught up with the leader."""
        with self._asking("sync", done, lambda _: None):
            self._client.sync_async("/")

    def get_acl(self, path: str, done: Done) -> None:
        """Answer the grants of a node. Errors: NoNode, NoAuth."""
        with self._asking(path, done, lambda answer: grants_of(answer[0])):
            self._client.get_acls_async(path)

    def set_acl(self, path: str, grants: Sequence[Grant], done: Done) -> None:
        """Answer None. Errors: NoNode, NoAuth."""
        with self._asking(path, done, lambda _: None):
            self._client.set_acls_async(path, kazoo_acl(grants))

    @contextlib.contextmanager
    def _asking(self, path: str, done: Done, convert: Callable[[Any], Any]) -> Iterator[None]:
        """Make the result of the request in this block call `done` on the loop."""
        self._handler.first = partial(self._answered, path, done, convert)
        try:
            yield
        finally:
            self._handler.first = None  # also when kazoo refused the arguments

    # From here on: kazoo's thread.

    def _answered(self, path: str, done: Done, convert: Callable[[Any], Any], result: Any) -> None:
        error = result.exception
        answer: Any = None  # if the server does not know this request
        if error is None:
            answer = convert(result.value)
        elif not isinstance(error, kazoo_errors.UnimplementedError):
            answer = core_error(error, path)
        self._post(done, answer)

    def _invoked(self, invoke: Any, timeout: float, request: Any, xid: Any = None) -> Any:
        """Note what a new session is granted, before it is told of: kazoo keeps it nowhere."""
        answer = invoke(timeout, request, xid)
        if isinstance(request, Connect):
            self.granted_ms = answer[0].time_out
        return answer

    def _fired(self, event: Any) -> None:
        kind = _EVENTS.get(event.type)
        if kind is not None:  # else kazoo's word for a lost connection: `on_state` tells of it
            self._post(self._on_event, event.path, kind)

    def _state_changed(self, state: str) -> None:
        if state == KazooState.SUSPENDED:
            self._post(self._on_state, LinkState.SUSPENDED, 0)
        elif state != KazooState.CONNECTED:  # of which `_authenticated` tells
            ended = _ENDED.get(self._client.client_state, LinkState.CLOSED)
            self._post(self._on_state, ended, 0)

    def _authenticated(self) -> None:
        self._post(self._on_state, LinkState.CONNECTED, self._client.client_id[0])

    def _post(self, call: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(call, *arguments)


_ADD: Final[dict[type[Any], Callable[[Any, Any], None]]] = {
    SetData: lambda transaction, op: transaction.set_data(op.path, op.data, op.version),
    Delete: lambda transaction, op: transaction.delete(op.path, op.version),
    Check: lambda transaction, op: transaction.check(op.path, op.version),
}


def core_error(error: Exception, path: str) -> CoreError:
    """Return what to raise for an error of kazoo's."""
    for theirs, ours in _ERRORS.items():
        if isinstance(error, theirs):
            return ours(path)
    for refused, (kind, why) in _REFUSALS.items():
        if isinstance(error, refused):
            return kind(f"{path}: {why}")
    if isinstance(error, _BROKEN):
        return Unavailable(f"{path}: lost ZooKeeper ({type(error).__name__}); it may have happened")
    return Unavailable(f"{path}: ZooKeeper: {type(error).__name__} {error}".rstrip())


def _seen(data: bytes, stat: Any) -> Seen:
    node = Node(
        data=data,
        version=stat.version,
        ctime_ms=stat.ctime,
        mtime_ms=stat.mtime,
        ephemeral_owner=stat.ephemeralOwner,
        cversion=stat.cversion,
    )
    return Seen(node, stat.mzxid, stat.pzxid)


def _nodes(paths: Sequence[str], results: Sequence[Any]) -> Any:
    """Return what is there, or the error of the node that cannot be read."""
    nodes: list[Node | None] = []
    for path, result in zip(paths, results, strict=True):
        if isinstance(result, kazoo_errors.NoNodeError):
            nodes.append(None)
        elif isinstance(result, Exception):
            return core_error(result, path)
        else:
            nodes.append(_seen(*result).node)
    return nodes


def _versions(ops: Sequence[Op], results: Sequence[Any]) -> Any:
    """Return the new versions, or the error of the op that was at fault."""
    for at, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, _NOT_AT_FAULT):
            op = ops[at]
            return core_error(result, f"{op.path} (op {at}: {type(op).__name__})")
    if any(isinstance(result, Exception) for result in results):
        return Unavailable("multi: ZooKeeper: refused without a reason")
    return [
        0 if isinstance(op, Create) else result.version if isinstance(op, SetData) else -1
        for op, result in zip(ops, results, strict=True)
    ]
