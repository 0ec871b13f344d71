"""The ledgers that are in memory, and what no checkpoint covers of them. The loop owns it all."""

import asyncio

from tailrace.bookie.ledger_state import LedgerState
from tailrace.bookie.metrics import BookieMetrics
from tailrace.core.runtime.clock import Clock
from tailrace.protocol.ids import EntryId, LedgerId

LOOKS_PER_LOAD = 4
"""Ledgers that one load looks at to make room: those that may not go are looked at again last."""


class KnownLedgers:
    """Ledger id -> state; and which of them have something that their index file lacks.

    At most `clean_max` of them need not be here: what is loaded lets those go that came first.
    """

    def __init__(self, clock: Clock, metrics: BookieMetrics, clean_max: int) -> None:
        self._clean_max = clean_max
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.metrics = metrics
        self.by_id: dict[LedgerId, LedgerState] = {}
        self.unsaved: set[LedgerState] = set()
        self.unsaved_bytes = 0
        """Bytes of durable entries that no checkpoint covers."""
        self.dropped_log_bytes: dict[int, int] = {}
        """`log_bytes` of ledgers that were dropped; the seal of the log takes them out."""

    def keep(self, state: LedgerState) -> LedgerState:
        """Take a ledger that was loaded; return it, or the one that is here already.

        What it returns is here until the next one is loaded. Cost: about 1 us.
        """
        kept = self.by_id.setdefault(state.ledger_id, state)
        for _ in range(LOOKS_PER_LOAD):
            if len(self.by_id) <= max(self._clean_max, 1):
                break
            oldest = next(iter(self.by_id.values()))
            del self.by_id[oldest.ledger_id]
            if oldest is kept or not self._drop(oldest):
                self.by_id[oldest.ledger_id] = oldest  # last
        self.metrics.ledgers_open = len(self.by_id)
        return kept

    def drop_clean(self) -> None:
        """Let all go that need not be here and are too many. Cost: looks at every ledger."""
        excess = len(self.by_id) - self._clean_max
        for state in list(self.by_id.values()) if excess > 0 else ():
            if excess > 0 and self._drop(state):
                del self.by_id[state.ledger_id]
                excess -= 1
        self.metrics.ledgers_open = len(self.by_id)

    def _drop(self, state: LedgerState) -> bool:
        """Tell whether a ledger may go, and keep what has to be known of it."""
        if state in self.unsaved or not state.is_clean():
            return False
        if state.log_bytes:
            before = self.dropped_log_bytes.get(state.ledger_id, 0)
            self.dropped_log_bytes[state.ledger_id] = before + state.log_bytes
        return True

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
