"""Which open log readers stay between the calls of their consumers.

Bounded: at most `limit`, the one used longest ago goes first. Of these a quarter at most are new,
of consumers who have not been back yet: the first pass of a thousand partitions takes no reader
from those who read on, and what is read ahead for nobody is a quarter of it.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

from tailrace.broker.partition.bookmarks import Bookmarks
from tailrace.core.log.log import Log
from tailrace.core.log.reader import LogReader
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import EntryId, Offset

if TYPE_CHECKING:
    from tailrace.core.log.entries import EntryRecords

NEW_SHARE: Final = 4

READS_ON_BYTES: Final = 256 * 1024
"""Who is new, takes so much and leaves more gets a reader that stays: he catches up. Nobody knows
yet whether he comes back: it goes before all others, and when as many reads went by as readers are
kept. From then on a bookmark tells."""


Key: TypeAlias = tuple[Log, Offset]
"""By log, not by its name: a topic that was made again has another log of that name."""


class Cursor:
    """An open reader, and what it returned beyond what was asked for."""

    __slots__ = (
        "ahead", "is_new", "marks", "next_entry", "next_offset", "read_number", "reader", "rests",
        "rewrites", "stays",
    )  # fmt: skip

    def __init__(
        self, reader: LogReader, next_offset: Offset, rewrites: int, marks: Bookmarks
    ) -> None:
        self.reader = reader
        self.marks = marks
        """Where one is left when this reader does not stay."""
        self.next_entry: tuple[int, EntryId] | None = None
        """(lssn, entry id) behind what was returned last, if that ended with its entry."""
        self.rewrites = rewrites
        """What `Log.rewrites` said then."""
        self.read_number = 0
        """How many reads there had been when it was used last."""
        self.next_offset = next_offset
        self.is_new = False
        """Whether nobody knows of its consumer, who has not been back yet."""
        self.stays = False
        """Whether it is kept for its consumer."""
        self.rests = False
        """Whether nothing was asked for since it was used."""
        self.ahead: deque[EntryRecords] = deque()  # a record is a batch, its txid the last offset

    @property
    def next_place(self) -> DLSN | None:
        """Where the next batch is; None if none was read."""
        if self.ahead and self.ahead[0].slots:
            entry = self.ahead[0]
            return DLSN(entry.lssn, entry.entry_id, entry.slots[0])
        return None if self.next_entry is None else DLSN(*self.next_entry, 0)

    @property
    def next_batch(self) -> tuple[int, Offset]:
        """How large the batch is that comes next, and its last offset; zeros: it was not read."""
        if not self.ahead or not self.ahead[0].slots:
            return 0, 0
        columns = self.ahead[0].columns
        return len(columns.payloads[0]), columns.txids[0]


class KeptReaders:
    """Those in nobody's use, by the offset where their consumers go on."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: OrderedDict[Key, Cursor] = OrderedDict()  # the one used longest ago first
        self._new: OrderedDict[Key, Cursor] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known) + len(self._new)

    def items(self) -> Iterator[tuple[Key, Cursor]]:
        """Go through all; nothing may be taken or kept meanwhile."""
        return chain(self._known.items(), self._new.items())

    def take(self, key: Key) -> Cursor | None:
        """Return the reader at an offset, for use: its consumer is back."""
        cursor = self._known.pop(key, None) or self._new.pop(key, None)
        if cursor is not None:
            cursor.is_new = False
        return cursor

    def keep(self, key: Key, cursor: Cursor) -> list[tuple[Key, Cursor]]:
        """Keep a reader that was used last of all; return those that have to go, maybe this one."""
        gone: list[tuple[Key, Cursor]] = []
        twin = self.take(key)  # two consumers met; one reader is enough
        if twin is not None:
            gone.append((key, twin))
        self._drop_stale(cursor.read_number, gone)
        if not cursor.is_new:
            self._known[key] = cursor
            while len(self) > self._limit:
                gone.append((self._new or self._known).popitem(last=False))
        elif len(self) < self._limit and len(self._new) < self._limit // NEW_SHARE:
            self._new[key] = cursor
        else:
            gone.append((key, cursor))
        return gone

    def clear(self) -> list[Cursor]:
        """Return all, and keep none."""
        cursors = [cursor for _, cursor in self.items()]
        self._known.clear()
        self._new.clear()
        return cursors

    def _drop_stale(self, read_number: int, gone: list[tuple[Key, Cursor]]) -> None:
        while self._new:
            oldest = next(iter(self._new.values()))
            if read_number - oldest.read_number <= self._limit:
                break
            gone.append(self._new.popitem(last=False))
