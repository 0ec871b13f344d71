"""A quick look at how far a ledger is confirmed: the first bookie that knows more will do.

Weaker than `recovery.LacSearch`: the answer is true, but a higher LAC may have been acknowledged.
Source: BookKeeper TryReadLastConfirmedOp.
"""

from tailrace.protocol.ids import EntryId


class LacGlimpse:
    """One look. Shape: one answer for each of `bookies`."""

    __slots__ = ("_answered", "_missing", "lac")

    def __init__(self, bookies: int, known: EntryId) -> None:
        self.lac = known
        """Highest LAC known, inclusive."""
        self._missing = bookies
        self._answered = False

    def on_answer(self, lac: EntryId | None) -> bool:
        """Count a valid answer; return whether that is enough. None: it holds nothing."""
        self._missing -= 1
        self._answered = True
        if lac is not None and lac > self.lac:
            self.lac = lac
            return True
        return not self._missing

    def on_failure(self) -> bool:
        """Count an answer that says nothing; return whether there are no more to come."""
        self._missing -= 1
        return not self._missing

    @property
    def is_hopeless(self) -> bool:
        """Whether nobody gave a valid answer, and nobody will."""
        return not self._missing and not self._answered
