"""Walks the records of a whole batch for a broker that judges them, however many they are.

Between two steps of it other threads may run. Source: reference Kafka 3.1; LogValidator.
"""

from typing import NamedTuple

from tailrace.protocol.errors import BadLength
from tailrace.protocol.ids import Buffer
from tailrace.protocol.records.loops import check, unreadable
from tailrace.protocol.records.record_loops import CUT, LISTS, NO_TIME, UNTIMELY
from tailrace.protocol.records.window import Window


class Untaken(NamedTuple):
    """A record that has no place in its topic, though it can be read."""

    nth: int
    """Place in its batch, from 0."""
    time: int | None
    """The time that is not taken; None: it has no key."""


class Judged(NamedTuple):
    """What a walk over all records found."""

    newest: int
    """The newest time of a record, at least NO_TIME."""
    untaken: tuple[Untaken, ...]
    """The first of them."""
    keyless: int
    """How many there are without a key, of all."""
    untimely: int


def judge(
    payload: Buffer, count: int, base_time: int, taken: tuple[int, int], how: int, listed_max: int
) -> Judged:
    """Walk `count` records that fill a payload; `how`: flags of the loops, LISTS among them.

    `taken`: oldest and newest time, both inclusive. At most `listed_max` records are listed.
    Errors: DecodeError names the first record that cannot be read; BadLength if bytes are left.
    """
    window = Window(payload)
    untaken: list[Untaken] = []
    keyless = untimely = at = index = headers_left = end = 0
    newest = NO_TIME
    while True:
        at, index, headers_left, end, newest, fault, without_key, too_far, time = check(
            window.data, count, base_time, *taken, how, at, index, headers_left, end, newest
        )
        keyless += without_key
        untimely += too_far
        if fault == CUT and not window.is_last:
            window.move(at)
            at, end = 0, end - at
        elif fault < 0:
            raise unreadable(fault, index - (headers_left > 0))
        elif fault:
            untaken.append(Untaken(index - 1, time if fault == UNTIMELY else None))
            if len(untaken) >= listed_max:
                how &= ~LISTS
        elif index == count and not headers_left:
            break
    if at != len(window.data) or not window.is_last:
        raise BadLength("bytes after the last record")
    return Judged(newest, tuple(untaken), keyless, untimely)
