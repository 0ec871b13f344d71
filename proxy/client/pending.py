"""The records of one stream that are not answered: which wait, which are sent, which fail. Pure.

The order is that of the calls, and nothing overtakes. `sent` is a prefix of it, and so are the
records that may be written though no answer says so (`is_unknown`). A record's number is its place
behind the last one that was acknowledged; it has none before it is sent.

A record that is given up, and may be written, takes its number along: what comes behind cannot have
another one with this writer id. So all that may be written are given up with it, and the rest goes
on under another writer id, from 0. Source: ours; Kafka's producer epochs are the model.
"""

import itertools
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from tailrace.protocol.distributedlog.dlsn import DLSN, INVALID


@dataclass(slots=True, eq=False)
class Pending:
    """One record."""

    payload: bytes
    deadline_s: float
    handle: Any = None
    """What its caller waits for."""
    is_unknown: bool = False
    """Whether it may be written."""
    failures: Any = None
    """What keeps its failure for a later `flush`, beside the handle."""


class Batch(NamedTuple):
    """Records of one message."""

    id: int
    records: list[Pending]


class Scope(Enum):
    """Which records fail with an answer."""

    FIRST = "the first record that was not written"
    BATCH = "the rest of its message"
    ALL = "all of the stream"


@dataclass(slots=True)
class RecordQueue:
    """The unanswered records of one stream."""

    writer_id: bytes
    """Of now; b"": the records have no numbers."""
    number: int = 0
    """Of the first unanswered record; so many of this writer id are in the stream."""
    waiting: deque[Pending] = field(default_factory=deque)
    sent: deque[Batch] = field(default_factory=deque)
    _last_id: int = 0

    def __len__(self) -> int:
        return len(self.waiting) + sum(len(batch.records) for batch in self.sent)

    def __bool__(self) -> bool:
        return bool(self.waiting or self.sent)

    @property
    def records(self) -> list[Pending]:
        """All of them, in their order."""
        return [one for batch in self.sent for one in batch.records] + list(self.waiting)

    def add(self, record: Pending) -> None:
        """Take a record, behind all others."""
        self.waiting.append(record)

    def next_batch(self, records_max: int, bytes_max: int) -> Batch | None:
        """Return the next message's records, which count as sent now; None: none waits.

        Shape: within the limits, or one record.
        """
        waiting, taken, size = self.waiting, list[Pending](), 0
        while waiting and len(taken) < records_max:
            size += len(waiting[0].payload)
            if taken and size > bytes_max:
                break
            taken.append(waiting.popleft())
        if not taken:
            return None
        self._last_id += 1
        batch = Batch(self._last_id, taken)
        self.sent.append(batch)
        return batch

    def succeeded(self) -> list[Pending]:
        """Take note that the oldest message is written; return its records."""
        done = self.sent.popleft().records
        self.number += len(done)
        return done

    def stopped(self, written: int, *, is_unknown: bool) -> tuple[list[Pending], int]:
        """Take note that the call ended at the oldest message, with `written` of it written.

        `is_unknown`: others of this message may be, and so may those of the messages behind it,
        which were on their way with it. Else none of these was carried out. All that is not written
        waits again. Shape: the written records; how many are the rest of that message.
        """
        records = self.sent.popleft().records if self.sent else []
        done, left = records[:written], records[written:]
        self.number += len(done)
        for one in itertools.chain(left, *(batch.records for batch in self.sent)):
            one.is_unknown |= is_unknown
        self._wait_again(left)
        return done, len(left)

    def broke(self) -> None:
        """Take note that the call ended without an answer: all that was sent may be written."""
        for batch in self.sent:
            for one in batch.records:
                one.is_unknown = True
        self._wait_again([])

    def give_up(self, count: int, new_writer_id: bytes) -> list[Pending]:
        """Take out the oldest records, of a stream that has none in flight; return them.

        Where one of them may be written, and they have numbers, all others that may be are taken
        out too, and the rest has `new_writer_id`.
        """
        assert not self.sent, "their call has ended"
        waiting = self.waiting
        taken = [waiting.popleft() for _ in range(min(count, len(waiting)))]
        if self.writer_id and any(one.is_unknown for one in taken):
            while waiting and waiting[0].is_unknown:
                taken.append(waiting.popleft())
            self.renew(new_writer_id)
        return taken

    def renew(self, new_writer_id: bytes) -> None:
        """Begin with another writer id."""
        self.writer_id, self.number = new_writer_id, 0

    def expired(self, now_s: float) -> int:
        """Return how many of the oldest waiting records are beyond their time."""
        count = 0
        for one in self.waiting:
            if one.deadline_s > now_s:
                break
            count += 1
        return count

    def expire_unsent(self, now_s: float) -> list[Pending]:
        """Take out those beyond their time that were never sent, while a call is open."""
        taken = []
        waiting = self.waiting
        while waiting and waiting[0].deadline_s <= now_s and not waiting[0].is_unknown:
            taken.append(waiting.popleft())
        return taken

    def _wait_again(self, first: list[Pending]) -> None:
        while self.sent:
            self.waiting.extendleft(reversed(self.sent.pop().records))
        self.waiting.extendleft(reversed(first))


def positions(count: int, dlsns: list[DLSN]) -> list[DLSN]:
    """Return a position for each of `count` records; INVALID where the owner knows none any more.

    Such an answer has a position in segment 0, which no stream has.
    """
    if len(dlsns) != count:
        return [INVALID] * count
    return [dlsn if dlsn.lssn else INVALID for dlsn in dlsns]
