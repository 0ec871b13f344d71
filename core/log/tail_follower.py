"""Hears of what another process writes: one long poll at a time for all readers of a segment."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tailrace.core.errors import CoreError
from tailrace.core.log.segment_view import SegmentView
from tailrace.core.log.shared_entries import SharedEntries
from tailrace.core.runtime.tasks import Tasks

if TYPE_CHECKING:
    from tailrace.protocol.ids import LedgerId

logger = logging.getLogger(__name__)


class TailFollower:
    """Follows the segments of a log at whose ends somebody waits: one, two while it rolls."""

    __slots__ = ("_on_moved", "_shared", "_tasks", "_waiting")

    def __init__(self, on_moved: Callable[[], None], shared: SharedEntries) -> None:
        """`on_moved` is called when there is more to read, or a ledger was closed.

        `shared`: gets the entries that come with the answers.
        """
        self._on_moved = on_moved
        self._shared = shared
        self._tasks = Tasks("log.tail")
        self._waiting: dict[LedgerId, asyncio.Task[None]] = {}

    def follow(self, view: SegmentView, timeout_ms: int) -> None:
        """Begin to wait at the end of a segment, for `timeout_ms`, unless somebody does."""
        ledger_id = view.ledger.ledger_id
        waiting = self._waiting.get(ledger_id)
        # Who was awake already when a poll ended may come before its callback does.
        if waiting is None or waiting.done():
            task = self._tasks.spawn(self._wait(view, timeout_ms), "long_poll")
            self._waiting[ledger_id] = task
            task.add_done_callback(partial(self._on_ended, ledger_id))

    async def stop(self) -> None:
        """End the waits that are on their way, if any."""
        waiting = list(self._waiting.values())
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)

    def _on_ended(self, ledger_id: "LedgerId", task: "asyncio.Task[None]") -> None:
        if self._waiting.get(ledger_id) is task:
            del self._waiting[ledger_id]

    async def _wait(self, view: SegmentView, timeout_ms: int) -> None:
        ledger = view.ledger
        known = ledger.last_confirmed
        try:
            _, entry = await ledger.read_last_confirmed_and_entry(known + 1, timeout_ms)
        except CoreError as error:
            # Whoever waits asks again after its own time-out, and hears of the error then.
            logger.info("tail_lost ledger=%d error=%s", ledger.ledger_id, error)
            return
        if entry is not None:
            self._shared.put(view.metadata.lssn, entry)
        if ledger.last_confirmed > known or ledger.is_closed:
            self._on_moved()
