"""What a reader asks of the log that it reads."""

from typing import Protocol

from tailrace.core.log.segment_view import SegmentView
from tailrace.core.log.segments import SegmentList
from tailrace.core.log.shared_entries import SharedEntries


class ReadableLog(Protocol):
    """The log that a reader reads."""

    @property
    def name(self) -> str:
        """The log's name, for errors."""

    @property
    def segments(self) -> SegmentList:
        """All segments, as far as this process knows."""

    @property
    def shared(self) -> SharedEntries:
        """What the readers of this log share."""

    @property
    def tail_version(self) -> int:
        """Rises with everything that may have made more readable."""

    async def refresh(self, *, is_forced: bool = False) -> None:
        """Read the list of segments again if it may have changed, or anyway."""

    async def view(self, lssn: int) -> SegmentView:
        """Open a segment for reading. Errors: LogTruncated, LedgerNotFound."""

    def forget_view(self, view: SegmentView) -> None:
        """Open the segment anew the next time: its ledger is gone."""

    async def tail_moved(
        self, seen_version: int, view: SegmentView | None, within_s: float | None
    ) -> bool:
        """Wait until `tail_version` is another; False after a while, if others write the log.

        `view`: the segment at whose end the reader waits.
        """

    def on_tail_moved(self) -> None:
        """Wake up whoever waits."""
