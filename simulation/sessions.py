"""One client of the simulated metadata service: its session, its watches, its operations' ways."""

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tailrace.core.errors import Unavailable
from tailrace.core.metadata.node_path import check_ops, check_size
from tailrace.core.metadata.sqlite_tree import Change, SqliteTree
from tailrace.core.metadata.store import (
    ANY_VERSION,
    Node,
    Op,
    SessionEvent,
    SessionListener,
    Watch,
    WatchEvent,
)
from tailrace.core.metadata.watches import WatchTable
from tailrace.simulation.process import current_process

if TYPE_CHECKING:
    from tailrace.simulation.metadata import MetadataServer

START_MS = 1_700_000_000_000
TICK_S = 0.5
_NOBODY = contextvars.Context()
"""Of what happens at the service: it happens whatever became of the processes."""


class SimStore:
    """One client: a `MetadataStore`. All calls from its process."""

    def __init__(self, server: "MetadataServer") -> None:
        self._server = server
        self._process = current_process()
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._listeners: list[SessionListener] = []
        self._watches = WatchTable()
        self._closed = False
        self._expired = False
        self._lost = False
        self._silent_s = 0.0
        self._last_request_s = self._last_answer_s = 0.0
        self.session_id = server.new_session(self)

    def on_session(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        def run(tree: SqliteTree) -> Node:
            node = tree.get(path)
            self._watches.add_data(path, watch)
            return node

        return await self._call("get", path, run)  # type: ignore[no-any-return]

    async def exists(self, path: str, watch: Watch | None = None) -> Node | None:
        def run(tree: SqliteTree) -> Node | None:
            self._watches.add_data(path, watch)
            return tree.find(path)

        return await self._call("exists", path, run)  # type: ignore[no-any-return]

    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        def run(tree: SqliteTree) -> list[Node | None]:
            return [tree.find(path) for path in paths]

        where = paths[0] if paths else ""
        return await self._call("get all", where, run)  # type: ignore[no-any-return]

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        def run(tree: SqliteTree) -> list[str]:
            names = tree.children(path)
            self._watches.add_children(path, watch)
            return names

        return await self._call("children", path, run)  # type: ignore[no-any-return]

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        parents: bool = False,
    ) -> str:
        check_size(path, data)
        owner = self.session_id if ephemeral else 0

        def run(tree: SqliteTree) -> str:
            if parents:
                tree.create_parents(path, self._now_ms())
            return tree.create(path, data, self._now_ms(), owner=owner, sequential=sequential)

        orphan = run if ephemeral and sequential else None
        return await self._call("create", path, run, write=True, orphan=orphan)  # type: ignore[no-any-return]

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        check_size(path, data)
        return await self._call(  # type: ignore[no-any-return]
            "set", path, lambda tree: tree.set(path, data, version, self._now_ms()), write=True
        )

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._call("delete", path, lambda tree: tree.delete(path, version), write=True)

    async def multi(self, ops: Sequence[Op]) -> list[int]:
        ops = tuple(ops)
        check_ops(ops)
        where = ops[0].path if ops else ""
        session_id = self.session_id
        return await self._call(  # type: ignore[no-any-return]
            "multi", where, lambda tree: tree.multi(ops, self._now_ms(), session_id), write=True
        )

    async def sync(self) -> None:
        await self._call("sync", "/", lambda _: None)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._server.end_session(self.session_id)

    # An operation's way

    def _now_ms(self) -> int:
        return START_MS + int(self._loop.time() * 1000)

    async def _call(
        self,
        what: str,
        path: str,
        run: Callable[[SqliteTree], Any],
        *,
        write: bool = False,
        orphan: Any = None,
    ) -> Any:
        if self._closed or self._expired:
            raise Unavailable("the metadata store is closed or its session is over")
        faults, rng = self._server.faults, self._server.rng
        delay_s = (self._server.usual_delay_s + faults.delay_s) * (0.5 + rng.random())
        if faults.slow_share and rng.random() < faults.slow_share:
            delay_s += rng.random() * faults.slow_s
        self._last_request_s = max(self._last_request_s + 1e-9, self._loop.time() + delay_s)
        answer: asyncio.Future[Any] = self._loop.create_future()
        fate = self._draw_fate(write=write)
        self._server.note(what, f"{path} {fate}".rstrip())
        request = StoreRequest(
            self, run, answer, fate, is_orphan=orphan is not None, is_write=write
        )
        self._loop.call_at(self._last_request_s, request.arrive, context=_NOBODY)
        return await answer

    def _draw_fate(self, *, write: bool) -> str:
        faults, draw = self._server.faults, self._server.rng.random()
        for fate, share in (
            ("lost", faults.lost_request_share),
            ("answer-lost", faults.lost_answer_share),
            ("late", faults.late_share if write else 0.0),
        ):
            if draw < share:
                return fate
            draw -= share
        return ""

    def answer(self, deliver: Callable[[], None]) -> None:
        """Hand something to this client, behind all that was handed before."""
        server = self._server
        delay_s = (server.usual_delay_s + server.faults.delay_s) * (0.5 + server.rng.random())
        self._last_answer_s = max(self._last_answer_s + 1e-9, self._loop.time() + delay_s)
        self._loop.call_at(self._last_answer_s, deliver, context=self._context)

    def fire(self, changes: Sequence[Change]) -> None:
        """Call the watches that these changes fire, before any later answer."""
        for fired in self._watches.take(changes):
            self.answer(lambda fired=fired: fired.watch(fired.path, fired.event))  # type: ignore[misc]

    def alive_session(self, session_id: int) -> bool:
        is_over = self._expired and session_id == self.session_id
        return not is_over and self._server.sessions.get(session_id) is self

    # The session

    def tick(self) -> None:
        if self._server.hears(self._process):
            self._silent_s = 0.0
            if self._expired:
                self._begin_anew()
            elif self._lost:
                self._lost = False
                self._tell(SessionEvent.RESTORED)
            return
        self._silent_s += TICK_S
        if not self._lost and self._silent_s > self._server.session_timeout_s / 3:
            self._lost = True
            self._tell(SessionEvent.LOST)
        if not self._expired and self._silent_s > self._server.session_timeout_s:
            self.expire()

    def expire(self) -> None:
        """End the session now; the client hears of it when it is heard again."""
        if self._closed or self._expired:
            return
        self._expired = True
        self._server.end_session(self.session_id)
        self._server.sessions[self.session_id] = self  # still looked after: it will come back
        if self._process is not None and not self._process.alive:
            del self._server.sessions[self.session_id]

    def _begin_anew(self) -> None:
        del self._server.sessions[self.session_id]
        if not self._lost:
            self._tell(SessionEvent.LOST)
        self._expired = self._lost = False
        watches, self._watches = self._watches, WatchTable()
        paths = sorted({*watches._data, *watches._children})
        self.session_id = self._server.new_session(self)
        for fired in watches.take([(path, WatchEvent.DELETED) for path in paths]):
            self.answer(lambda f=fired: f.watch(f.path, WatchEvent.SESSION_LOST))  # type: ignore[misc]
        self._tell(SessionEvent.NEW_SESSION)

    def _tell(self, event: SessionEvent) -> None:
        self._server.note(event.value, self._process)
        for listener in self._listeners:
            self.answer(lambda listener=listener: listener(event))  # type: ignore[misc]


class StoreRequest:
    """One operation on its way."""

    def __init__(
        self,
        store: SimStore,
        run: Callable[[SqliteTree], Any],
        answer: "asyncio.Future[Any]",
        fate: str,
        *,
        is_orphan: bool,
        is_write: bool,
    ) -> None:
        self._store = store
        self._server = store._server
        self._session_id = store.session_id
        self._run = run
        self._answer = answer
        self._fate = fate
        self._is_orphan = is_orphan
        self._is_write = is_write

    def arrive(self) -> None:
        """At the service: do it, lose it, or do it later."""
        server, store = self._server, self._store
        if server.faults.hold_writes and self._is_write:
            server.held.append(self)
            return
        if not server.hears(store._process) or not store.alive_session(self._session_id):
            if store._process is None or store._process.alive:
                store.answer(lambda: self._fail(server.rng.random() * 2))
            return
        if self._fate == "lost":
            store.answer(lambda: self._fail(0.1))
            return
        if self._fate == "late":
            store.answer(lambda: self._fail(0.0))
            delay_s = server.rng.random() * server.faults.late_s
            store._loop.call_later(delay_s, self._do, context=_NOBODY)
            return
        outcome = self._do()
        if self._fate == "answer-lost":
            store.answer(lambda: self._fail(0.1))
        else:
            store.answer(lambda: self._deliver(outcome))

    def _deliver(self, outcome: Any) -> None:
        """Tell the caller; a name that it does not wait for any more is nobody's (the contract)."""
        if self._is_orphan and isinstance(outcome, str) and self._answer.cancelled():
            self._server.apply(lambda tree: tree.delete(outcome, ANY_VERSION))
        _settle(self._answer, outcome)

    def _do(self) -> Any:
        if not self._store.alive_session(self._session_id):
            return Unavailable("the session is over")
        outcome, _ = self._server.apply(self._run)
        if self._fate and self._is_orphan and isinstance(outcome, str):
            self._server.apply(lambda tree: tree.delete(outcome, ANY_VERSION))
        return outcome

    def _fail(self, delay_s: float) -> None:
        error = Unavailable("the metadata service did not answer")
        self._store._loop.call_later(delay_s, _settle, self._answer, error)


def _settle(answer: "asyncio.Future[Any]", outcome: Any) -> None:
    if answer.done():
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
