"""A ZooKeeper session: who waits for an answer, which watches are set, who hears of its end.

Flow: an operation is sent at once while a server answers, else it waits in line for the next
connection; either way for one session timeout at most. Answers, watch events and changes of the
session reach the loop in the order of the wire (`ZookeeperLink`).

When the connection breaks, everything that was sent is Unavailable (it may have happened), and the
listeners hear LOST. Back in the same session, every watch is set anew, firing if it missed
something, and the listeners hear RESTORED. Once the session has expired, the watches get
SESSION_LOST, and with the next session the listeners hear NEW_SESSION.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from tailrace.core.errors import (
    AuthFailed,
    CoreError,
    NoAuth,
    NoNode,
    OverCapacity,
    Unavailable,
)
from tailrace.core.metadata.store import SessionEvent, SessionListener, WatchEvent
from tailrace.core.metadata.watches import Fired
from tailrace.core.metadata.zookeeper_acls import PLAIN, ZookeeperAccess
from tailrace.core.metadata.zookeeper_link import Done, LinkState, Seen, ZookeeperLink
from tailrace.core.metadata.zookeeper_tls import zookeeper_context
from tailrace.core.metadata.zookeeper_watches import ABSENT, SessionWatches
from tailrace.core.runtime.listeners import tell
from tailrace.core.runtime.metrics import counter, gauge

logger = logging.getLogger(__name__)

T = TypeVar("T")

WAITING_MAX: Final = 10_000
"""Operations that may wait for an answer or a connection; the next is refused: OverCapacity."""

CLOSE_UNHEARD_S: Final = 1.0
"""How long a close waits for its thread while no server hears it."""

RESTART_DELAY_S: Final = 1.0
"""Before a client that gave up is replaced by a new one."""
REFUSED_DELAY_S_MAX: Final = 30.0
"""The same when the servers refuse the credentials: from `RESTART_DELAY_S` on, twice each time."""


@dataclass(slots=True)
class ZookeeperMetrics:
    """Numbers of one store. Register them as `metadata`."""

    operations_total: int = counter("operations answered or given up")
    unavailable_total: int = counter("operations without an answer: lost connection or too late")
    refusals_total: int = counter("operations refused because too many waited")
    lost_total: int = counter("times that the connection was lost")
    sessions_total: int = counter("sessions that were begun")
    auth_failures_total: int = counter("times that the servers refused the credentials")
    waiting: int = gauge("operations that wait for an answer or a connection")
    watches: int = gauge("watches that are set")


@dataclass(slots=True, eq=False)
class _Asked:
    """An operation between its call and its end."""

    send: Callable[[ZookeeperLink, Done], None]
    answered: Callable[[Any], Any]
    future: "asyncio.Future[Any]"


class ZookeeperSession:
    """One session after the other, on one loop. Every wait ends within one session timeout."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        answer_within_ms: int | None = None,
        access: ZookeeperAccess = PLAIN,
    ) -> None:
        """`answer_within_ms`: how long operations wait, if not for one session timeout."""
        self.session_id = 0
        self.watches = SessionWatches()
        self.metrics = ZookeeperMetrics()
        self._hosts = hosts
        self._timeout_ms = session_timeout_ms
        self._answer_ms = answer_within_ms or session_timeout_ms
        self._link: ZookeeperLink | None = None
        self._is_connected = False
        self._access = access
        self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._refusals = 0
        """How often in a row the credentials were refused."""
        self._refusal = ""
        """By whom and why, the last time."""
        self._closed = False
        self._in_line: dict[_Asked, None] = {}
        self._sent: dict[_Asked, None] = {}
        self._listeners: list[SessionListener] = []

    @property
    def granted_ms(self) -> int:
        """The session timeout that the servers have granted, which may be more or less."""
        return self._link.granted_ms if self._link is not None else 0

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    async def open(self) -> None:
        """Begin the first session.

        Errors: Unavailable when nobody answers in time; AuthFailed when the servers refuse the
        credentials; InvalidKeys. Blocks at its begin, with TLS: 50 ms with PKCS12.
        """
        zookeeper_context(self._access.config)  # of stores that cannot be used we hear now
        self._start_link()
        try:
            await self.within(self._first)
        except BaseException:
            await self.close()
            raise

    def on_session(self, listener: SessionListener) -> None:
        """Tell `listener` of each change from now on."""
        self._listeners.append(listener)

    async def ask(
        self,
        send: Callable[[ZookeeperLink, Done], None],
        answered: Callable[[Any], Any] = lambda answer: answer,
    ) -> Any:
        """Send a request and return what `answered` makes of its answer, or raise its CoreError.

        `answered` is called before any later event, with a value or a CoreError, once the request
        was sent: also when nobody waits any more.
        """
        if self._closed:
            raise Unavailable("the metadata store is closed")
        if self._refusals:
            raise AuthFailed(self._refusal)
        if self.metrics.waiting >= WAITING_MAX:
            self.metrics.refusals_total += 1
            raise OverCapacity(f"{WAITING_MAX} metadata operations wait")
        asked = _Asked(send, answered, asyncio.get_running_loop().create_future())
        self._in_line[asked] = None
        self._send_line()
        try:
            return await self.within(asked.future)
        finally:
            self._in_line.pop(asked, None)  # given up before it was sent: it never will be
            self.metrics.operations_total += 1
            self._count()

    async def within(self, wait: Awaitable[T]) -> T:
        """Wait for one session timeout at most, or `answer_within_ms`. Errors: Unavailable."""
        try:
            async with asyncio.timeout(self._answer_ms / 1000):
                return await wait
        except TimeoutError:
            self.metrics.unavailable_total += 1
            trouble = self._link.trouble if self._link is not None else ""
            raise Unavailable(
                f"ZooKeeper at {self._hosts} did not answer within {self._answer_ms} ms"
                + (f": {trouble}" if trouble else "")
            ) from None

    async def close(self) -> None:
        """End the session. Idempotent. Who waits for an answer gets Unavailable.

        Waits for the server's word for one session timeout at most, or hardly at all while nobody
        is connected: the server then ends the session by itself.
        """
        if self._closed:
            return
        self._closed = True
        self._give_up("the metadata store was closed")
        self._fail_line(Unavailable("the metadata store is closed"))
        if self._link is not None:
            wait_s = self._timeout_ms / 1000 if self._link.is_live else CLOSE_UNHEARD_S
            await asyncio.wait([self._link.stop()], timeout=wait_s)

    def _start_link(self) -> None:
        if self._closed:
            return
        if self._link is not None:
            _ = self._link.stop()  # nothing is left of it to wait for
        self._link = ZookeeperLink(
            self._hosts, self._timeout_ms, self._on_link_state, self._on_event, self._access
        )
        self._link.start()

    # Requests and answers.

    def _send_line(self) -> None:
        """Send what waits, in order, while a server answers."""
        link = self._link
        while self._in_line and link is not None and self._is_connected and link.is_live:
            asked = next(iter(self._in_line))
            del self._in_line[asked]
            if asked.future.done():
                continue  # nobody waits any more, and nothing was sent
            self._sent[asked] = None
            try:
                asked.send(link, partial(self._on_answer, asked))
            except (TypeError, ValueError) as error:  # arguments that nobody can send
                del self._sent[asked]
                asked.future.set_exception(error)
        self._count()

    def _on_answer(self, asked: _Asked, answer: Any) -> None:
        if asked in self._sent:  # else it was given up before
            del self._sent[asked]
            self._settle(asked, answer)
            self._count()

    def _give_up(self, reason: str) -> None:
        """Fail everything that was sent: whether it happened is not known."""
        sent, self._sent = self._sent, {}
        for asked in sent:
            self._settle(asked, Unavailable(f"{reason}: it may have happened"))
        self._count()

    def _fail_line(self, error: CoreError) -> None:
        """Fail everything that was not sent."""
        for asked in self._in_line:
            if not asked.future.done():
                asked.future.set_exception(error)

    def _settle(self, asked: _Asked, answer: Any) -> None:
        result = asked.answered(answer)
        if asked.future.done():
            return
        if isinstance(result, CoreError):
            self.metrics.unavailable_total += isinstance(result, Unavailable)
            asked.future.set_exception(result)
        else:
            asked.future.set_result(result)

    def _count(self) -> None:
        self.metrics.waiting = len(self._in_line) + len(self._sent)
        self.metrics.watches = len(self.watches)

    # The session.

    def _on_link_state(self, state: LinkState, session_id: int) -> None:
        if self._closed:
            return
        if state is LinkState.CONNECTED:
            self._on_connected(session_id)
            return
        self._on_lost()
        if state is not LinkState.SUSPENDED:
            self._fire(self.watches.take_all())
        if state is LinkState.REFUSED:
            self._on_refused()
        if state is LinkState.CLOSED:
            logger.error("zookeeper_client_ended restart_in_s=%s", RESTART_DELAY_S)
            asyncio.get_running_loop().call_later(RESTART_DELAY_S, self._start_link)

    def _on_refused(self) -> None:
        """Fail what waits; try again later, as the servers may take the credentials by then."""
        trouble = self._link.trouble if self._link is not None else ""
        who = self._access.config.identity
        self._refusal = f"ZooKeeper at {self._hosts} refuses {who}: {trouble}"
        self._refusals += 1
        self.metrics.auth_failures_total += 1
        self._fail_line(AuthFailed(self._refusal))
        if not self._first.done():
            self._first.set_exception(AuthFailed(self._refusal))
            return
        delay_s = min(RESTART_DELAY_S * 2 ** min(self._refusals - 1, 10), REFUSED_DELAY_S_MAX)
        logger.error("zookeeper_auth_failed restart_in_s=%s error=%s", delay_s, self._refusal)
        asyncio.get_running_loop().call_later(delay_s, self._start_link)

    def _on_connected(self, session_id: int) -> None:
        self._refusals = 0
        former, self.session_id = self.session_id, session_id
        self._is_connected = True
        if session_id == former:
            self._watch_anew()
        else:
            self.metrics.sessions_total += 1
        self._send_line()
        if former == 0:
            if not self._first.done():  # else who waited has gone
                self._first.set_result(None)
        else:
            restored = session_id == former
            self._tell(SessionEvent.RESTORED if restored else SessionEvent.NEW_SESSION)

    def _on_lost(self) -> None:
        self._give_up("the connection to ZooKeeper was lost")
        if self._is_connected:
            self._is_connected = False
            self.metrics.lost_total += 1
            self._tell(SessionEvent.LOST)

    def _tell(self, event: SessionEvent) -> None:
        session_id = self.session_id & (1 << 64) - 1  # as ZooKeeper's own logs show it
        logger.info("zookeeper_session session=0x%x event=%s", session_id, event.value)
        for listener in tuple(self._listeners):
            tell("metadata.session", listener, event)

    # Watches.

    def _on_event(self, path: str, event: WatchEvent) -> None:
        if not self._closed:
            self._fire(self.watches.take(path, event))

    def _watch_anew(self) -> None:
        """Set every watch again: the server forgot them with the connection."""
        assert self._link is not None, "it said that it is connected"
        for path in self.watches.data_paths:
            self._link.exists(path, partial(self._on_data, path), watch=True)
        for path in self.watches.children_paths:
            self._link.children(path, partial(self._on_children, path), watch=True)

    def _on_data(self, path: str, seen: Seen | CoreError | None) -> None:
        if not isinstance(seen, CoreError):  # else the connection is lost again: next time
            zxid = ABSENT if seen is None else seen.data_zxid
            self._fire(self.watches.take_changed_data(path, zxid))

    def _on_children(self, path: str, answer: tuple[list[str], Seen] | CoreError) -> None:
        if isinstance(answer, tuple):
            self._fire(self.watches.take_changed_children(path, answer[1].children_zxid))
        elif isinstance(answer, NoNode | NoAuth):  # of the latter, its reader hears by reading
            self._fire(self.watches.take_changed_children(path, ABSENT))

    def _fire(self, fired: Iterable[Fired]) -> None:
        for one in fired:
            tell("metadata.watch", one.watch, one.path, one.event)
        self._count()
