"""The metadata service of the simulation: one tree, a session for each client, and faults.

The tree's rules are the embedded store's (`SqliteTree` in memory, which passes the same contract
tests); sessions, delays and failures are simulated here. What may go wrong with an operation:
it is lost on the way, done but its answer lost, done long after the client gave up, slow. Sessions
end when their process is dead, paused or cut off for longer than the session timeout, or by force.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tailrace.core.errors import MetadataConflict
from tailrace.core.metadata.sqlite_tree import Change, SqliteTree, open_tree
from tailrace.core.metadata.store import (
    ANY_VERSION,
    Node,
    WatchEvent,
)
from tailrace.simulation.process import SimProcess, State
from tailrace.simulation.sessions import START_MS, TICK_S, SimStore, StoreRequest

if TYPE_CHECKING:
    from tailrace.simulation.network import SimNetwork
    from tailrace.simulation.trace import Trace

HOST = "metadata"


@dataclass(slots=True)
class MetadataFaults:
    """What goes wrong now. Shares are probabilities of one operation."""

    delay_s: float = 0.0
    """Added to the usual delay."""
    slow_share: float = 0.0
    slow_s: float = 2.0
    lost_request_share: float = 0.0
    lost_answer_share: float = 0.0
    late_share: float = 0.0
    """Answered as lost, and done up to `late_s` later."""
    late_s: float = 3.0
    down: bool = False
    hold_writes: bool = False
    """Writes wait at the service until `MetadataServer.release_writes`."""


class MetadataServer:
    """The tree and its sessions."""

    def __init__(self, rng: Random, *, session_timeout_s: float = 10.0) -> None:
        self.rng = rng
        self.usual_delay_s = 0.001
        """One way, when nothing is wrong."""
        self.faults = MetadataFaults()
        self.session_timeout_s = session_timeout_s
        self.network: SimNetwork | None = None
        self.trace: Trace | None = None
        self.observers: list[Callable[[str, Node | None], None]] = []
        """Told of every node that was made, changed or (None) deleted, at that moment."""
        self.sessions: dict[int, SimStore] = {}
        self.held: list[StoreRequest] = []
        self._connection, self.tree = open_tree(Path(":memory:"), START_MS)
        self._last_session = 0x1000

    def open(self) -> SimStore:
        """Return a client with a new session. Call it as the process that uses it."""
        return SimStore(self)

    def release_writes(self) -> None:
        """Do the writes that were held, in their order."""
        self.faults.hold_writes = False
        held, self.held = self.held, []
        for request in held:
            request.arrive()

    def new_session(self, store: SimStore) -> int:
        self._last_session += 1
        self.sessions[self._last_session] = store
        return self._last_session

    def end_session(self, session_id: int) -> None:
        """Delete what was ephemeral; others' watches fire."""
        if self.sessions.pop(session_id, None) is None:
            return
        rows = self._connection.execute(
            "SELECT parent, name FROM nodes WHERE ephemeral_owner=? ORDER BY parent, name",
            (session_id,),
        ).fetchall()
        for parent, name in rows:
            self.tree.delete(f"{parent.rstrip('/')}/{name}", ANY_VERSION)
        self.note("session ended", f"{session_id:x} {len(rows)}")
        self.publish()

    def apply(self, run: Callable[[SqliteTree], Any]) -> tuple[Any, list[Change]]:
        """Do one operation; return its outcome (or error) and what it changed."""
        outcome: Any
        try:
            outcome = run(self.tree)
        except (MetadataConflict, ValueError) as error:
            outcome = error
        return outcome, self.publish()

    def publish(self) -> list[Change]:
        """Tell observers and all sessions' watches of what changed."""
        changes, self.tree.changes = self.tree.changes, []
        for path, event in changes:
            if event is not WatchEvent.CHILDREN:
                node = None if event is WatchEvent.DELETED else self.tree.find(path)
                for observer in self.observers:
                    observer(path, node)
        if changes:
            for store in list(self.sessions.values()):
                store.fire(changes)
        return changes

    def hears(self, process: SimProcess | None) -> bool:
        """Whether a process and the service hear each other now."""
        if self.faults.down:
            return False
        if process is None or self.network is None:
            return True
        here = self.network.passes(process.host, HOST) and self.network.passes(HOST, process.host)
        return process.state is State.RUNNING and here

    def note(self, what: str, detail: object) -> None:
        if self.trace is not None:
            self.trace(HOST, what, detail)

    async def tick(self) -> None:
        """Watch over the sessions, until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            if not self.faults.down:  # a service that was down trusts all sessions at first
                for store in [*self.sessions.values()]:
                    store.tick()
