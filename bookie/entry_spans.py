"""Which entries one read of an entry log takes: those that lie close together. Pure.

A system call, with the interpreter handed over twice, costs as much as copying some KiB that nobody
wants. How long an entry is stands before it in the log, so until it is read it is a guess.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

LENGTH_SIZE: Final = 4
"""Before each body, its length."""
HOLE_BYTES_MAX: Final = 4096
"""Bytes between two entries that are read for nothing."""
SPAN_BYTES_MAX: Final = 1024 * 1024
"""One read, and what a body of it keeps in memory as long as it is held."""
SLACK_BYTES: Final = 256
"""Read beyond a guess: batches of equally long records differ by some bytes."""
GUESS_BYTES_MAX: Final = 64 * 1024
"""A body that is guessed to be longer is read alone, with its length first."""


class Span(NamedTuple):
    """Entries to be read at once."""

    entry_count: int
    size_bytes: int
    """From the length before the first one; 0: unknown, read its length first."""


def next_span(locations: Sequence[int], at: int, body_guess: int) -> Span:
    """Return what to read at once from `locations[at]` on: at least one entry.

    Locations are those of an index, log and position in one number; none of them is 0.
    `body_guess`: how long a body probably is, 0 if nobody knows.
    """
    first = last = at
    step_max = LENGTH_SIZE + body_guess + HOLE_BYTES_MAX
    if body_guess:
        reach_max = locations[first] + SPAN_BYTES_MAX - LENGTH_SIZE - body_guess
        while last + 1 < len(locations):
            place = locations[last + 1]
            if not 0 < place - locations[last] <= step_max or place > reach_max:
                break
            last += 1
    if last == first and not 0 < body_guess <= GUESS_BYTES_MAX:
        return Span(1, 0)
    return Span(last - first + 1, locations[last] - locations[first] + LENGTH_SIZE + body_guess)
