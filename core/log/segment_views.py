"""The segments of a log that are open for reading: each ledger once for all readers."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from tailrace.core.log.segment_ledger import SegmentLedger
from tailrace.core.log.segment_view import SegmentView, WriterLookup
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.ids import LedgerId

OpenLedger: TypeAlias = Callable[[SegmentMetadata], Awaitable[SegmentLedger]]

VIEWS_MAX: Final = 64
"""Opened segments that a log keeps; more are opened again when they are needed."""


class SegmentViews:
    """The open segments of one log."""

    __slots__ = ("_open_ledger", "_opening", "_views", "_writers")

    def __init__(self, open_ledger: OpenLedger, writers: WriterLookup) -> None:
        self._open_ledger = open_ledger
        self._writers = writers
        self._views: OrderedDict[LedgerId, SegmentView] = OrderedDict()  # used longest ago first
        self._opening: dict[LedgerId, asyncio.Future[None]] = {}

    async def open(self, segment: SegmentMetadata) -> SegmentView:
        """Return the view of a segment, opened at most once at a time.

        Errors: LedgerNotFound, BookieUnavailable. Cancel: others open it again.
        """
        ledger_id = segment.ledger_id
        while (view := self._views.get(ledger_id)) is None:
            others = self._opening.get(ledger_id)
            if others is None:
                return await self._open(segment)
            await asyncio.wait([others])
        self._views.move_to_end(ledger_id)
        return view

    def forget(self, ledger_id: LedgerId) -> None:
        """Open a ledger anew the next time. Idempotent."""
        self._views.pop(ledger_id, None)

    def clear(self) -> None:
        """Open all ledgers anew the next time."""
        self._views.clear()

    async def _open(self, segment: SegmentMetadata) -> SegmentView:
        ledger_id = segment.ledger_id
        opened = self._opening[ledger_id] = asyncio.get_running_loop().create_future()
        try:
            view = SegmentView(segment, await self._open_ledger(segment), self._writers)
        finally:
            del self._opening[ledger_id]
            opened.set_result(None)
        self._views[ledger_id] = view
        if len(self._views) > VIEWS_MAX:
            self._views.popitem(last=False)
        return view
