"""Where a reader goes on when the ledger that it read is not its segment's any more.

Entry ids belong to a ledger. A segment that was rewritten, restored or begun again has another one,
so its readers go on by what stays: the txid of the last record that they gave out, and how many of
that txid those were. Txids rise where segments are rewritten; elsewhere several records may share
one, and a segment has the same ones in each of its ledgers. Pure.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from tailrace.core.log.entries import EntryRecords
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import LedgerId, TxId

NO_LEDGER: Final = LedgerId(-2)
"""In the place of a ledger: the position is one in none, and has to be searched by txid."""


class Place(NamedTuple):
    """A position, and the ledger in which it is one."""

    dlsn: DLSN
    ledger_id: LedgerId


class Resume(NamedTuple):
    """Behind the first `given` records of `txid`, whether they are there or not."""

    txid: TxId
    given: int = 0

    def may_be_in(self, segment: SegmentMetadata) -> bool:
        """Whether a segment begins no later than this: nothing is missing before it."""
        return segment.first_txid <= self.txid

    def moved_by(self, taken: EntryRecords) -> "Resume":
        """Return where one goes on after these. Shape: they are not empty."""
        txids = taken.columns.txids
        last = txids[-1]
        count = len(txids) - bisect_left(txids, last)
        before = self.given if last == self.txid else 0
        return Resume(last, before + count)

    def leave_out(self, entries: Sequence[EntryRecords]) -> "tuple[list[EntryRecords], Resume]":
        """Return what is left of the next entries, and where to go on if nothing is."""
        rest: list[EntryRecords] = []
        given = self.given
        for number, entry in enumerate(entries):
            txids = entry.columns.txids
            first = bisect_left(txids, self.txid)
            same = min(given, bisect_right(txids, self.txid) - first)
            given -= same
            if first + same < len(txids):
                rest = [entry.behind(first + same), *entries[number + 1 :]]
                break
        return rest, Resume(self.txid, given)


BEGINNING = Resume(-(2**63))
"""Before the first record."""
