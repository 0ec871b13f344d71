"""The last offset of each key in the head of a log: 24 bytes a key, in one buffer. Pure.

A slot is a key's digest (two words) and its offset (one word); digest 0 means that it is empty, so
a digest of zeros is taken as one with a bit set. Open addressing with a second hash as step, over
a prime number of slots: every slot is reached. All of it works on arrays: a loop goes round once
per probe, not once per key. Equal digests are taken for equal keys, as in Kafka.

A head of few records uses few slots, those at the buffer's beginning: the rest costs no memory, and
what is used stays in the processor's caches. Which records of the head itself are latest needs no
keys: their offsets are those in the slots. `keep_offsets` makes one sorted row of them, in place.
Source: seed 001; SkimpyOffsetMap (reference Kafka 9.2).
"""

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tailrace.protocol.ids import Offset

Words: TypeAlias = npt.NDArray[np.uint64]
Offsets: TypeAlias = npt.NDArray[np.int64]
Places: TypeAlias = npt.NDArray[np.intp]
Choice: TypeAlias = npt.NDArray[np.bool_]

SLOT_BYTES: Final = 24
LOAD_FACTOR: Final = 0.9
"""Kafka's log.cleaner.io.buffer.load.factor."""
ABSENT: Final = -1
OFFSET_MAX: Final = 2**63 - 1

_PRIME_GAP_MAX = 300
"""Below 2**31 the next prime is nearer than that."""
_SLOTS_AT_ONCE = 4096
_WORDS = 3
_OFFSET = 2


class KeySummary:
    """A map of key digests to offsets with a fixed number of slots, put and asked in bulk.

    Shape: digests are arrays of shape (n, 2), see `digests.py`; offsets rise from put to put.
    """

    def __init__(self, size_bytes: int, load_factor: float = LOAD_FACTOR) -> None:
        """Take `size_bytes` at most; the operating system gives memory as slots fill.

        Errors: ValueError if that is too little for one key.
        """
        slots = _prime_at_most(size_bytes // SLOT_BYTES)
        self._load_factor = load_factor
        self._capacity_max = int(slots * load_factor)
        if self._capacity_max < 1:
            raise ValueError(
                f"{size_bytes} bytes hold no key: at least {2 * SLOT_BYTES} are needed"
            )
        self._buffer: Words = np.zeros((slots, _WORDS), np.uint64)
        self._table = self._buffer
        self._latest: Offsets | None = None
        self.first_offset: Offset = OFFSET_MAX
        """Where the head begins whose keys were put."""
        self.latest_offset: Offset = ABSENT
        """Highest offset that it knows of, with or without key: it decides up to there."""
        self.has_keyless = False
        """Whether a record without a key was met: offsets of keys do not tell of those."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def capacity(self) -> int:
        """Keys that it takes, since it was cleared last."""
        return int(self.slots * self._load_factor)

    @property
    def slots(self) -> int:
        """Slots in use, of which `capacity` may fill."""
        return len(self._table)

    @property
    def size_bytes(self) -> int:
        """Memory of the whole buffer, once all of it is used."""
        return self._buffer.nbytes

    @property
    def utilization(self) -> float:
        """Part of what the whole buffer may hold that is taken, 0 to 1."""
        return self._size / self._capacity_max

    @property
    def is_full(self) -> bool:
        """Whether it takes no new key."""
        return self._size >= self.capacity

    def clear(self, keys_max: int | None = None) -> None:
        """Forget everything, for the next log; the memory stays.

        `keys_max`: more keys will not come; so many slots are used. None: all of them.
        """
        if self._size:  # else filling it would only make the system give all of it
            self._table.fill(0)
        self._size = 0
        self._latest = None
        self.first_offset, self.latest_offset = OFFSET_MAX, ABSENT
        self.has_keyless = False
        slots = len(self._buffer)
        if keys_max is not None:
            wanted = int(keys_max / self._load_factor) + 1 + _PRIME_GAP_MAX
            if wanted < slots:
                slots = _prime_at_most(wanted)
        self._table = self._buffer[:slots]

    def put(self, digests: Words, offsets: Offsets) -> int:
        """Note the offsets of keys; a later one replaces an earlier one. Return how many it took.

        Fewer than were given: it is full, and the first that it left out has a new key. As in
        Kafka, it stops there even if later ones have known keys. `latest_offset` moves to the
        last one taken. Cost: 0.2 us a key; 0.5 where 5 million fill it.
        """
        digests = _not_zero(digests)
        taken = self._room_for(digests)
        if taken:
            self._put(digests[:taken], offsets[:taken])
            self.latest_offset = max(self.latest_offset, int(offsets[taken - 1]))
        return taken

    def find(self, digests: Words) -> Offsets:
        """Return each key's offset, ABSENT for one that is not there."""
        digests = _not_zero(digests)
        found = np.full(len(digests), ABSENT, np.int64)
        at, step = self._probe(digests)
        pending = np.arange(len(digests))
        for _ in range(self.slots):  # with every slot taken, no empty one would end it
            if not pending.size:
                break
            rows = self._table.take(at, axis=0)
            is_same = _same(rows, digests)
            found[pending[is_same]] = rows[is_same, _OFFSET].view(np.int64)
            others = np.flatnonzero(~is_same & ~_empty(rows))
            pending, digests = pending[others], digests.take(others, axis=0)
            at, step = self._next(at[others], step[others])
        return found

    def keep_offsets(self) -> None:
        """Keep the keys' offsets alone, in order: `is_latest` is asked from now on, until `clear`.

        Idempotent. Memory: 100 KiB beside the slots. Cost: 10 ms for 100,000 keys.
        """
        if self._latest is not None:
            return
        row = self._table.reshape(-1).view(np.int64)
        count = 0
        for first in range(0, self.slots, _SLOTS_AT_ONCE):
            rows = self._table[first : first + _SLOTS_AT_ONCE]
            found = rows[~_empty(rows), _OFFSET].view(np.int64)
            row[count : count + len(found)] = found  # behind what was read, as a slot is 3 words
            count += len(found)
        self._latest = row[:count]
        self._latest.sort()

    def is_latest(self, offsets: Offsets) -> Choice:
        """Say which offsets are their keys' last; `keep_offsets` came before.

        Shape: offsets rise, and are of records that were put.
        """
        assert self._latest is not None, "keep_offsets comes first"
        if not offsets.size:
            return np.zeros(0, np.bool_)
        first, last = np.searchsorted(self._latest, [offsets[0], offsets[-1] + 1])
        latest = self._latest[first:last]
        if not latest.size:
            return np.zeros(len(offsets), np.bool_)
        places = np.minimum(np.searchsorted(latest, offsets), latest.size - 1)
        is_latest: Choice = latest[places] == offsets
        return is_latest

    def has_latest(self, first: Offsets, last: Offsets) -> Choice:
        """Say which ranges, both ends inclusive, hold the last offset of any key.

        Shape: as `is_latest`, for all offsets of a range.
        """
        assert self._latest is not None, "keep_offsets comes first"
        has: Choice = np.searchsorted(self._latest, first) < np.searchsorted(
            self._latest, last, side="right"
        )
        return has

    def items(self) -> tuple[Words, Offsets]:
        """Return digests and offsets of all keys, in no order. Cost: a copy of both."""
        rows = self._table[~_empty(self._table)]
        return rows[:, :_OFFSET], rows[:, _OFFSET].view(np.int64)

    def _room_for(self, digests: Words) -> int:
        """Return how many of the first keys fit, known ones and repeated ones for free."""
        room = self.capacity - self._size
        if len(digests) <= room:
            return len(digests)
        new = np.flatnonzero(self.find(digests) == ABSENT)
        if len(new) <= room:
            return len(digests)
        _, first = np.unique(digests[new], axis=0, return_index=True)
        if len(first) <= room:
            return len(digests)
        first.sort()
        return int(new[first[room]])

    def _put(self, digests: Words, offsets: Offsets) -> None:
        table = self._table
        values = offsets.astype(np.int64, copy=False).view(np.uint64)
        at, step = self._probe(digests)
        while at.size:
            rows = table.take(at, axis=0)
            free = np.flatnonzero(_empty(rows))
            if free.size:
                rows[free] = self._claim(at[free], digests[free])
            is_same = _same(rows, digests)
            # Of equal places numpy writes the last one, and offsets rise: the latest stays.
            table[at[is_same], _OFFSET] = values[is_same]
            others = np.flatnonzero(~is_same)
            digests, values = digests.take(others, axis=0), values[others]
            at, step = self._next(at[others], step[others])

    def _claim(self, places: Places, digests: Words) -> Words:
        """Write digests into empty slots: of several that want the same one the last gets it.

        Return the slots as they are then.
        """
        table = self._table
        marks = np.arange(places.size, dtype=np.uint64)
        table[places, _OFFSET] = marks
        winners = np.flatnonzero(table[places, _OFFSET] == marks)
        table[places[winners], :_OFFSET] = digests[winners]
        self._size += winners.size
        return table.take(places, axis=0)

    def _probe(self, digests: Words) -> tuple[Places, Places]:
        """Return where each key is looked for first, and its distance to the next place."""
        slots = np.uint64(self.slots)
        at = (digests[:, 0] % slots).astype(np.intp)
        step = (digests[:, 1] % (slots - np.uint64(1)) + np.uint64(1)).astype(np.intp)
        return at, step

    def _next(self, at: Places, step: Places) -> tuple[Places, Places]:
        at = at + step
        at[at >= self.slots] -= self.slots
        return at, step


def _same(rows: Words, digests: Words) -> Choice:
    same: Choice = (rows[:, 0] == digests[:, 0]) & (rows[:, 1] == digests[:, 1])
    return same


def _empty(rows: Words) -> Choice:
    empty: Choice = (rows[:, 0] | rows[:, 1]) == 0
    return empty


def _not_zero(digests: Words) -> Words:
    """Return the digests without the one that means an empty slot."""
    zeros = _empty(digests)
    if zeros.any():
        digests = digests.copy()
        digests[zeros, 0] = 1
    return digests


def _prime_at_most(number: int) -> int:
    """Return the largest prime up to `number`; 0 if there is none."""
    while number > 1 and any(number % other == 0 for other in range(2, int(number**0.5) + 1)):
        number -= 1
    return number if number > 1 else 0
