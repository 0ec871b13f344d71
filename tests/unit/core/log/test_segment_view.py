"""How far a segment may be read."""

import asyncio
from typing import Any

from tailrace.core.log.segment_view import Readable, SegmentView
from tests.unit.core.log.test_segments import started


class ClosingLedger:
    """A ledger that somebody else hears to be closed, at 7, while its LAC is asked for."""

    ledger_id = 101
    is_closed = False
    last_confirmed = 3

    def note_confirmed(self, lac: int) -> None:
        self.last_confirmed = max(self.last_confirmed, lac)

    async def read_last_confirmed(self) -> int:
        answer = 5
        await asyncio.sleep(0)
        self.is_closed, self.last_confirmed = True, 7
        return answer


class NoWriters:
    def writer_of(self, lssn: int) -> None:
        return None


def test_a_segment_ends_where_its_ledger_does() -> None:
    """An older answer is not its end: the records behind it would be left out."""
    ledger: Any = ClosingLedger()
    view = SegmentView(started(1), ledger, NoWriters())
    assert asyncio.run(view.readable()) == Readable(7, is_final=True)
