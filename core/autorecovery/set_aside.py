"""When a ledger that could not be repaired is looked at again, and what was told of it. Pure.

    failed        after lock_release_of_failed / 32, then twice that, ... at most the whole of it
    open end      after the grace period, counted from when this last fragment was first seen to
                  miss one of the members that it misses still, under the same mark; a writer that
                  changes its ensemble begins a new one, and so does a member that came back

Times are the caller's, in ms. What is known of the ledger that was set aside first is dropped when
there are too many: it begins anew. Source: BookKeeper ReplicationWorker
(openLedgerRereplicationGracePeriod, lockReleaseOfFailedLedgerGracePeriod).
"""

from dataclasses import dataclass
from typing import Final

from tailrace.core.metadata.ledger_metadata import Fragment
from tailrace.protocol.ids import BookieId, LedgerId

DOUBLINGS_MAX: Final = 5
LEDGERS_MAX: Final = 100_000


@dataclass(slots=True)
class _Known:
    failures: int = 0
    told: str = ""
    open_end: tuple[Fragment, int] | None = None
    missing: frozenset[BookieId] = frozenset()
    """Members that were missing at each look since then."""
    open_since_ms: int = 0


class SetAside:
    """What one worker remembers of the ledgers that it did not finish."""

    def __init__(self, failed_ms: int, grace_ms: int, ledgers_max: int = LEDGERS_MAX) -> None:
        self._failed_ms = failed_ms
        self._grace_ms = grace_ms
        self._ledgers_max = ledgers_max
        self._known: dict[LedgerId, _Known] = {}

    def __len__(self) -> int:
        """Return of how many ledgers something is known."""
        return len(self._known)

    def on_failure(self, ledger_id: LedgerId, problem: str) -> tuple[int, bool]:
        """Return after how many ms to try again, and whether this problem is a new one."""
        known = self._of(ledger_id)
        doublings = min(known.failures, DOUBLINGS_MAX)
        known.failures += 1
        is_new, known.told = known.told != problem, problem
        return self._failed_ms * 2**doublings // 2**DOUBLINGS_MAX, is_new

    def on_untold(self, ledger_id: LedgerId) -> None:
        """Nobody was told of its problem: it is new the next time, too."""
        self._of(ledger_id).told = ""

    def on_open_end(
        self,
        ledger_id: LedgerId,
        last: Fragment,
        marked_ms: int,
        missing: frozenset[BookieId],
        now_ms: int,
    ) -> int:
        """Return for how many ms more its writer may replace the members that it misses.

        0: it had its time. `marked_ms`: when the mark was made, which tells it from the one before.
        """
        known = self._of(ledger_id)
        still = known.missing & missing
        if known.open_end != (last, marked_ms) or not still:
            known.open_end, known.open_since_ms, still = (last, marked_ms), now_ms, missing
        known.missing = still
        return max(known.open_since_ms + self._grace_ms - now_ms, 0)

    def on_whole_end(self, ledger_id: LedgerId) -> None:
        """Its last fragment misses nobody, or it is closed: the next loss has its own time."""
        known = self._known.get(ledger_id)
        if known is not None:
            known.open_end = None

    def forget(self, ledger_id: LedgerId) -> None:
        """Nothing is missing any more."""
        self._known.pop(ledger_id, None)

    def _of(self, ledger_id: LedgerId) -> _Known:
        known = self._known.get(ledger_id)
        if known is None:
            if len(self._known) >= self._ledgers_max:
                del self._known[next(iter(self._known))]
            known = self._known[ledger_id] = _Known()
        return known
