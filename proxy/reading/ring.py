"""The recent messages of a place in a stream, and how many bytes all of them may have. Pure.

Invariants: a ring has everything from `start` to `end` without a gap; what leaves is the oldest of
a ring, the oldest of all rings when the process has too much. Nothing is kept because a reader has
not had it: one that comes too late reads it from the bookies again.
"""

from bisect import bisect_left
from collections import OrderedDict, deque

from tailrace.core.log.resume import Place
from tailrace.protocol.ids import TxId
from tailrace.proxy.reading.message import NO_LEDGER, Message, begins_segment, is_of_another


class RingBudget:
    """The bytes of all rings of a process."""

    def __init__(self, bytes_max: int, ring_bytes_max: int) -> None:
        """`ring_bytes_max`: of each of them."""
        self.bytes_max = bytes_max
        self.ring_bytes_max = ring_bytes_max
        self.used_bytes = 0
        self._order: OrderedDict[Message, Ring] = OrderedDict()  # oldest first

    def __len__(self) -> int:
        """Return how many messages are kept."""
        return len(self._order)

    def add(self, ring: "Ring", message: Message) -> None:
        """Count a message; let the oldest ones go until it is within the limits."""
        self._order[message] = ring
        self.used_bytes += message.size_bytes
        while ring.used_bytes > self.ring_bytes_max:
            ring.drop_oldest()
        while self.used_bytes > self.bytes_max:
            next(iter(self._order.values())).drop_oldest()

    def forget(self, message: Message, size_bytes: int) -> None:
        """Count a message no longer."""
        del self._order[message]
        self.used_bytes -= size_bytes


class Ring:
    """Messages that follow each other, found by their numbers, which rise by one."""

    __slots__ = ("_budget", "_messages", "_sizes", "base", "end", "start", "used_bytes")

    def __init__(self, start: Place, budget: RingBudget) -> None:
        """`start`: where the first message begins, or later."""
        self.start = start
        """The ring has all records from here on, up to `end`."""
        self.end = start
        """Where the next message begins, or later."""
        self.base = 0
        """Number of the oldest message."""
        self.used_bytes = 0
        self._budget = budget
        self._messages: deque[Message] = deque()
        self._sizes: deque[int] = deque()

    @property
    def next_number(self) -> int:
        """The number that the next message gets."""
        return self.base + len(self._messages)

    def get(self, number: int) -> Message | None:
        """Return a message; None for one that left, or is not there yet."""
        at = number - self.base
        return self._messages[at] if 0 <= at < len(self._messages) else None

    def append(self, message: Message) -> None:
        """Add the next message; it may be let go at once, if it is larger than the limits."""
        if self._messages:
            self._messages[-1].get_successor()
        size_bytes = message.size_bytes
        self._messages.append(message)
        self._sizes.append(size_bytes)
        self.used_bytes += size_bytes
        self.end = message.end
        self._budget.add(self, message)

    def drop_oldest(self) -> None:
        """Let the oldest message go."""
        message, size_bytes = self._messages.popleft(), self._sizes.popleft()
        self.base += 1
        self.start = message.end
        self.used_bytes -= size_bytes
        self._budget.forget(message, size_bytes)

    def clear(self) -> None:
        """Let all messages go."""
        while self._messages:
            self.drop_oldest()

    def find(self, at: Place) -> int | None:
        """Return the number of the message from which on all records at or behind `at` come.

        None: they do not lie between start and end, or count in another ledger.
        """
        dlsn = at.dlsn
        if not self.start.dlsn <= dlsn <= self.end.dlsn:
            return None
        index = bisect_left(self._messages, dlsn, key=lambda message: message.last)
        near = range(max(index - 1, 0), min(index + 1, len(self._messages)))
        if any(is_of_another(self._messages[each], at) for each in near):
            return None
        if _contradicts(at, self.start) or _contradicts(at, self.end):
            return None
        return self.base + index

    def find_txid(self, txid: TxId) -> int | None:
        """Return the number of the message with the first record of a stream that reaches a txid.

        None: it lies elsewhere, as far as the ring tells.
        """
        messages = self._messages
        if not messages or not messages[0].txids[0] < txid <= messages[-1].txids[1]:
            return None
        return self.base + bisect_left(messages, txid, key=lambda message: message.txids[1])


def _contradicts(at: Place, other: Place) -> bool:
    """Tell whether two positions of one segment count in different ledgers."""
    if at.dlsn.lssn != other.dlsn.lssn or begins_segment(at.dlsn):
        return False
    return at.ledger_id != other.ledger_id and NO_LEDGER not in (at.ledger_id, other.ledger_id)
