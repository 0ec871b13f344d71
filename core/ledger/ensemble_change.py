"""When bookies of an open ledger are replaced, and which fragments the metadata has then.

    an add fails -> noted -> due -> one change at a time -> installed -> due again, if more failed

Invariant: a new fragment begins at LAC + 1, and the LAC stands still from the moment that this is
decided until the fragment is installed; so each confirmed entry lies where it was acknowledged.
Source: BookKeeper LedgerHandle.handleBookieFailure, EnsembleUtils, LedgerRecoveryOp (its #2615).
"""

from collections.abc import Sequence

from tailrace.core.metadata.ledger_metadata import Fragment
from tailrace.protocol.ids import BookieId, EntryId


class FailedBookies:
    """Which bookies of the present ensemble failed, and whether to replace them now.

    Shape: places are indices of the ensemble.
    """

    __slots__ = (
        "_attempted", "_delay", "_failed", "_paused", "_stuck", "changes", "changing",
        "ensemble",
    )  # fmt: skip

    def __init__(self, ensemble: tuple[BookieId, ...], *, delay: bool) -> None:
        """`delay`: replace nobody before it is urgent."""
        self.ensemble = ensemble
        self.changing = False
        """A change is on its way; it begins and ends with `begin` and `on_installed`."""
        self.changes = 0
        """How many changes were installed."""
        self._delay = delay
        self._paused = False
        self._stuck = False
        self._failed: set[BookieId] = set()
        self._attempted: frozenset[BookieId] = frozenset()

    def on_failure(self, bookie: BookieId, *, urgent: bool = False, stuck: bool = False) -> None:
        """Note that an add failed at a bookie; one that is not in the ensemble any more is nothing.

        `urgent`: the bookie takes no entries at all (read-only); not to be delayed.
        `stuck`: an entry waits that cannot reach Qa without another bookie; that ends a pause, too.
        """
        urgent = urgent or stuck
        if bookie not in self.ensemble or (self._delay and not urgent):
            return
        self._failed.add(bookie)
        self._stuck |= stuck

    @property
    def is_stuck(self) -> bool:
        """Whether it was noted that an entry waits for a change."""
        return self._stuck

    @property
    def is_due(self) -> bool:
        """Whether a change is to begin now."""
        return bool(self._failed) and not self.changing and (self._stuck or not self._paused)

    def begin(self) -> dict[int, BookieId]:
        """Begin a change; return the places to give to other bookies."""
        self.changing = True
        self._attempted = frozenset(self._failed)
        return {i: bookie for i, bookie in enumerate(self.ensemble) if bookie in self._failed}

    def on_installed(self, ensemble: tuple[BookieId, ...]) -> None:
        """End a change. Who failed and is still a member stays noted, to be replaced next."""
        self.changes += ensemble != self.ensemble
        self.ensemble = ensemble
        self.changing = self._stuck = False
        self._failed.intersection_update(ensemble)

    def on_nothing_replaced(self) -> None:
        """End a change for which there was no bookie: forget whom it was for, and pause.

        A bookie that came back meanwhile may stay; one that did not fails again. Who failed since
        the change began stays noted.
        """
        self.changing = self._stuck = False
        self._paused = True
        self._failed -= self._attempted

    def on_pause_over(self) -> None:
        """Try again from now on."""
        self._paused = False


def with_ensemble(
    fragments: Sequence[Fragment], first_entry_id: EntryId, ensemble: tuple[BookieId, ...]
) -> tuple[Fragment, ...]:
    """Return the fragments when entries from `first_entry_id` on belong to another ensemble.

    A last fragment that begins just there holds nothing yet, and is replaced.
    Errors: ValueError when it begins later: confirmed entries would change their place.
    """
    last = fragments[-1].first_entry_id
    if last > first_entry_id:
        raise ValueError(f"a fragment at {first_entry_id} behind one at {last}")
    kept = tuple(f for f in fragments if f.first_entry_id < first_entry_id)
    return (*kept, Fragment(first_entry_id, ensemble))


def without_unwritten(
    fragments: Sequence[Fragment], last_entry_id: EntryId
) -> tuple[Fragment, ...]:
    """Return the fragments of a ledger that ends there: the first, and all that hold an entry."""
    return tuple(f for f in fragments if f.first_entry_id <= max(last_entry_id, 0))


def with_recovered(
    current: Sequence[Fragment], known: Sequence[Fragment], recovered: Sequence[Fragment]
) -> tuple[Fragment, ...] | None:
    """Return what recovery closes with; None when it must look at the ledger anew.

    Shape: `known` is what recovery began with, `recovered` is that with its own changes to the last
    fragment and behind it, `current` is what the metadata says now: somebody may have replaced
    members of a fragment. In a former fragment that stands. In the last one it means that entries
    which recovery added lie on a bookie that readers will not ask.
    """
    if len(current) != len(known) or current[-1] != known[-1]:
        return None
    return (*current[:-1], *recovered[len(known) - 1 :])
