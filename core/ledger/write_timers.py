"""What a writer does by the clock: tell a quiet ledger's LAC, and give up on adds that hang.

Invariant: nothing here costs an add anything; each timer looks now and then at where the ledger is.
"""

import asyncio
from collections.abc import Callable

from tailrace.core.errors import AddEntryQuorumTimeout
from tailrace.core.ledger.adder import EntryAdder
from tailrace.protocol.ids import NO_ENTRY, EntryId


class Ticker:
    """Calls a function every so often until it is stopped, or the function returns False."""

    def __init__(self, interval_ms: float, tick: Callable[[], bool]) -> None:
        self._interval_s = interval_ms / 1000
        self._tick = tick
        self._arm()

    def stop(self) -> None:
        """Call no more. Idempotent."""
        self._timer.cancel()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._fire)

    def _fire(self) -> None:
        self._arm()  # before the tick: one that raises is not the last
        if not self._tick():
            self.stop()


class ExplicitLac:
    """Sends the LAC of a ledger that got no add for an interval, so that readers see its end.

    An add tells the LAC by itself. Nobody waits for the answers: the next add or close tells it
    anyway. Source: BookKeeper ExplicitLacUpdateFlow.
    """

    def __init__(self, adder: EntryAdder) -> None:
        self._adder = adder
        self._pushed: EntryId = NO_ENTRY
        self._told: EntryId = NO_ENTRY

    def tick(self) -> bool:
        """One interval is over; return whether there will be more to tell."""
        adder = self._adder
        is_quiet = adder.last_add_pushed == self._pushed
        self._pushed = adder.last_add_pushed
        lac = adder.lac if adder.told_lac is None else adder.told_lac
        if is_quiet and lac > self._told and adder.error is None:
            self._told = lac
            adder.send_lac(lac)
        return adder.error is None


class AddTimeout:
    """Fails a ledger whose oldest unconfirmed entry waits longer than two ticks.

    Source: BookKeeper addEntryQuorumTimeoutSec.
    """

    def __init__(self, adder: EntryAdder) -> None:
        self._adder = adder
        self._before: EntryId = NO_ENTRY
        self._last: EntryId = NO_ENTRY

    def tick(self) -> bool:
        """Half the time is over: what was pushed two ticks ago must be confirmed."""
        adder = self._adder
        if adder.lac < self._before:
            what = f"entry {adder.lac + 1} of ledger {adder.ledger_id} has no ack quorum in time"
            adder.fail(AddEntryQuorumTimeout(what))
        self._before, self._last = self._last, adder.last_add_pushed
        return adder.error is None
