"""The ledgers that are in memory, and what no checkpoint covers of them. The loop owns it all."""

import asyncio

from bookie.ledger_state import LedgerState
from bookie.metrics import BookieMetrics
from core.runtime.clock import Clock
from protocol.ids import EntryId, LedgerId


class KnownLedgers:
    """Ledger id -> state; and which of them have something that their index file lacks."""

    def __init__(self, clock: Clock, metrics: BookieMetrics) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.metrics = metrics
        self.by_id: dict[LedgerId, LedgerState] = {}
        self.unsaved: set[LedgerState] = set()
        self.unsaved_bytes = 0
        """Bytes of durable entries that no checkpoint covers."""

    def publish(self, state: LedgerState, entry_id: EntryId, lac: EntryId) -> None:
        """Show a durable entry whose place is known."""
        self.unsaved.add(state)
        if entry_id > state.last_entry:
            state.last_entry = entry_id
        if lac > state.lac:
            self.move_lac(state, lac)

    def move_lac(self, state: LedgerState, lac: EntryId) -> None:
        """Raise a ledger's LAC and call whoever waits for that."""
        state.lac = lac
        state.lac_ms = self._clock.now_ms()
        if state.waiters:
            self.wake(state)

    def wake(self, state: LedgerState) -> None:
        """Call everybody who waits for this ledger's LAC, soon."""
        waiters, state.waiters = state.waiters, []
        for waiter in waiters:
            self._loop.call_soon(waiter)
