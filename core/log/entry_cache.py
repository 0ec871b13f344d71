"""How much the readers of a process hold: a budget of bytes, and what is given up first.

    asked for -> there -> held by readers -> kept for readers behind -> dropped
                   +-----------------------^

Counted is everything that was asked for and not dropped. Reading ahead stops at the limit, and so
does keeping; what a caller waits for is always read. A kept chunk goes when nobody touched it for a
while, sooner at the limit: its reader may never come.
"""

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from tailrace.protocol.ids import EntryId, LedgerId

if TYPE_CHECKING:
    from tailrace.core.errors import CoreError
    from tailrace.protocol.bookkeeper.entry import Entry

KEPT_FOR_S: Final = 1.0
"""At the limit, chunks that nobody touched for so long make room."""

KEPT_FOR_S_MAX: Final = 10.0
"""Below it they go after so long: memory that nobody uses is worth more elsewhere."""

ENTRY_OVERHEAD_BYTES: Final = 300
"""What an entry takes in memory beside its payload."""


class ChunkHome(Protocol):
    """Who finds chunks for readers."""

    def drop(self, chunk: "Chunk") -> None:
        """Find this chunk for nobody any more."""


class Chunk:
    """Entries of one ledger that follow each other, `first` to `last`: there or on their way."""

    __slots__ = (
        "_arrival", "asked_s", "entries", "error", "first", "holders", "home", "last", "ledger_id",
        "lssn", "ready_s", "size_bytes", "waiters",
    )  # fmt: skip

    def __init__(
        self, home: ChunkHome, lssn: int, ledger_id: LedgerId, first: EntryId, last: EntryId
    ) -> None:
        self.home = home
        self.lssn = lssn
        self.ledger_id = ledger_id
        self.first = first
        self.last = last
        self.entries: list[Entry] | None = None
        """All of them once they are there."""
        self.error: CoreError | None = None
        """Why they never will be; without one, whoever was reading them stopped."""
        self.holders = 0
        """Readers that were given them and have not come back for more."""
        self.waiters = 0
        """Readers that wait for them."""
        self.size_bytes = 0
        """What counts in the budget: an estimate until they are there."""
        self.asked_s = self.ready_s = 0.0
        self._arrival: asyncio.Future[None] | None = None

    @property
    def arrival(self) -> "asyncio.Future[None]":
        """Done when nothing more will change; shared, and not to be cancelled."""
        if self._arrival is None:
            self._arrival = asyncio.get_running_loop().create_future()
        return self._arrival

    def settle(self) -> None:
        """Wake up who waits for the entries."""
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)


class EntryCache:
    """The budget of one process. Values only; times are the caller's."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        """What counts now. May exceed the limit by what callers wait for."""
        self._kept: OrderedDict[Chunk, float] = OrderedDict()  # oldest touch first

    def __len__(self) -> int:
        """Return how many chunks are kept that no reader holds."""
        return len(self._kept)

    def count(self, chunk: Chunk, size_bytes: int) -> None:
        """Let a chunk count with this size from now on; 0: not any more."""
        self.used_bytes += size_bytes - chunk.size_bytes
        chunk.size_bytes = size_bytes

    def has_room(self, size_bytes: int, now_s: float) -> bool:
        """Tell whether so much more stays below the limit, once old chunks made room."""
        while self._kept:
            chunk, touched_s = next(iter(self._kept.items()))
            is_full = self.used_bytes + size_bytes > self.bytes_max
            if now_s - touched_s < (KEPT_FOR_S if is_full else KEPT_FOR_S_MAX):
                break
            self.forget(chunk)
            chunk.home.drop(chunk)
        return self.used_bytes + size_bytes <= self.bytes_max

    def keep(self, chunk: Chunk, now_s: float) -> None:
        """Let a chunk that nobody holds make room one day."""
        self._kept[chunk] = now_s
        self._kept.move_to_end(chunk)

    def hold(self, chunk: Chunk) -> None:
        """Let a chunk not make room: a reader has its entries."""
        self._kept.pop(chunk, None)

    def forget(self, chunk: Chunk) -> None:
        """End what is known of a chunk."""
        self._kept.pop(chunk, None)
        self.count(chunk, 0)
