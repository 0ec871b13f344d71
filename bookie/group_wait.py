"""When a group is closed: BookKeeper's rules for waiting for company. Loop side.

A group is handed to the writer thread when the oldest item has waited journalMaxGroupWaitMSec, when
what waits passes journalBufferedWritesThreshold or journalBufferedEntriesThreshold, and, with
journalFlushWhenQueueEmpty, at once while the thread is idle. Source: reference BookKeeper 5.3.
With both defaults of ours (flush when empty) the thread itself takes what waits, and nothing of
this runs: `GroupThread.put` is then the thread's own.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tailrace.bookie.config import BookieConfig
from tailrace.bookie.ledger_state import LedgerState
from tailrace.core.runtime.threads import WorkerThread
from tailrace.protocol.ids import Buffer, EntryId

Item: TypeAlias = tuple[
    int,  # bytes in the entry log, with the size field; 0: a journal record or a barrier
    tuple[Buffer, ...],  # what is written, size field first
    LedgerState | None,  # of an entry
    EntryId,
    EntryId,  # the entry's LAC
    Callable[..., Any],  # of an entry: its reply; else called without arguments when durable
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRules:
    """The settings that close a group."""

    wait_ms: int
    bytes_max: int
    entries_max: int
    """0: no such limit."""

    @classmethod
    def of(cls, config: BookieConfig) -> "GroupRules":
        """Return a bookie's rules; with journalFlushWhenQueueEmpty nothing waits."""
        return cls(
            wait_ms=0 if config.flush_when_queue_empty else config.group_wait_ms,
            bytes_max=config.group_bytes_max,
            entries_max=config.group_entries_max,
        )


class GroupThread:
    """A writer thread that is given one group after the other.

    `commit` runs in the thread, with at most twice `bytes_max` and one item more. Its errors end
    the thread; `failed` is then called on the loop.
    """

    def __init__(
        self,
        name: str,
        rules: GroupRules,
        commit: Callable[[list[Item]], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._rules = rules
        self._commit = commit
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._waiting: list[Item] = []
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self.put: Callable[[Item], None]
        self._thread: WorkerThread[Item] | WorkerThread[list[Item]]
        if rules.wait_ms:
            batches = WorkerThread[list[Item]](
                name, self._work, self._report, weigh=_weigh_all, weight_max=rules.bytes_max
            )
            self._put_batch = batches.put
            self._thread, self.put = batches, self._put
        else:
            items = WorkerThread[Item](
                name, commit, self._report, weigh=_weigh, weight_max=rules.bytes_max
            )
            self._thread, self.put = items, items.put

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Let the thread end once all that was put is done."""
        self._hand_over()
        self._thread.stop()

    def join(self) -> None:
        """Wait for the thread. Blocks."""
        self._thread.join()

    def _put(self, item: Item) -> None:
        rules = self._rules
        self._waiting.append(item)
        self._waiting_bytes += _weigh(item)
        full = self._waiting_bytes > rules.bytes_max
        if full or 0 < rules.entries_max < len(self._waiting):
            self._hand_over()
        elif self._timer is None:
            self._timer = self._loop.call_later(rules.wait_ms / 1000, self._hand_over)

    def _hand_over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            batch, self._waiting, self._waiting_bytes = self._waiting, [], 0
            self._put_batch(batch)

    def _work(self, batches: list[list[Item]]) -> None:
        self._commit([item for batch in batches for item in batch])

    def _report(self, error: Exception) -> None:
        self._loop.call_soon_threadsafe(self._failed, error)


def _weigh(item: Item) -> int:
    """Return what an item adds to its group: no group may be longer than a replay can take."""
    return item[0] or (len(item[1][0]) if item[1] else 1)


def _weigh_all(batch: list[Item]) -> int:
    return sum(map(_weigh, batch))
