"""When a log segment is full, and the steps by which the next one takes over. Values only.

    STEADY --begin--> ALLOCATING --freeze--> STARTING --switch--> COMPLETING --done--> STEADY
       ^                 |                                              (in the background)
       +----give up------+   no ledger to be had: the old segment goes on, later it is tried again

While ALLOCATING, records still go to the old segment. From the freeze to the switch they wait: the
new segment's first txid is the old one's last, which DistributedLog's search by txid relies on, and
its snapshot must not know of a record that could still be lost.
Source: reference DistributedLog 5.5.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

ROLL_RETRY_MS: Final = 10_000
"""Pause after a roll that was given up."""

FIRST_RETRY_S: Final = 1.0
"""Pause when there was no ledger for the first segment: records that come meanwhile are refused."""

SEGMENT_RECORDS_MAX: Final = 1 << 30
"""Positions of records end at 2^31 - 1, in Java too; from here on there is time to roll."""

STEP_RETRY_S: Final = 1.0
"""Pause before a step is tried again for which the metadata store gave no answer."""

START_ATTEMPTS: Final = 30
"""Records wait for this step; then the writer fails, and reopening decides."""

COMPLETE_ATTEMPTS: Final = 3600
"""Records flow meanwhile, into a segment that is not rolled before this step is done."""

PERMIT_MS: Final = 60_000
"""A permit to roll is free again after so long, as in DistributedLog."""


class RollPermits:
    """How many segments a process may roll in a minute, so that not all of its logs do it at once.

    DistributedLog allows one. Source: LimitedPermitManager.
    """

    def __init__(self, per_minute: int) -> None:
        """`per_minute`: 0 for no limit."""
        self._per_minute = per_minute
        self._taken_ms: deque[int] = deque()

    def take(self, now_ms: int) -> bool:
        """Take one for a minute; False: there is none, the segment grows on."""
        if not self._per_minute:
            return True
        taken = self._taken_ms
        while taken and not 0 <= now_ms - taken[0] < PERMIT_MS:
            taken.popleft()
        if len(taken) >= self._per_minute:
            return False
        taken.append(now_ms)
        return True


class RollingPolicy(NamedTuple):
    """Limits of one segment; 0 means none but `SEGMENT_RECORDS_MAX`."""

    segment_bytes: int
    segment_ms: int
    jitter_ms: int = 0
    """The most that is taken off `segment_ms`, another random part for each segment."""

    def is_due(self, size_bytes: int, age_ms: int, records: int = 0) -> bool:
        """Tell whether a segment with records in it should be followed by a new one."""
        return (
            0 < self.segment_bytes <= size_bytes
            or 0 < self.segment_ms <= age_ms
            or records >= SEGMENT_RECORDS_MAX
        )


class RollPhase(Enum):
    """Where a roll stands."""

    STEADY = "steady"
    ALLOCATING = "allocating"
    STARTING = "starting"
    COMPLETING = "completing"


@dataclass(slots=True)
class Roll:
    """The steps of one log's rolls; a wrong order is our bug."""

    phase: RollPhase = RollPhase.STEADY
    retry_at_ms: int = 0

    def may_begin(self, now_ms: int) -> bool:
        """Tell whether a roll that is due may begin now."""
        return self.phase is RollPhase.STEADY and now_ms >= self.retry_at_ms

    def begin(self) -> None:
        """Begin: a ledger is being made."""
        self._move(RollPhase.STEADY, RollPhase.ALLOCATING)

    def give_up(self, now_ms: int) -> None:
        """There is no ledger: go on with the old segment for a while."""
        self._move(RollPhase.ALLOCATING, RollPhase.STEADY)
        self.retry_at_ms = now_ms + ROLL_RETRY_MS

    def freeze(self) -> None:
        """Give the old segment no more records."""
        self._move(RollPhase.ALLOCATING, RollPhase.STARTING)

    def switch(self) -> None:
        """Let the new segment take records; the old one is being completed."""
        self._move(RollPhase.STARTING, RollPhase.COMPLETING)

    def done(self) -> None:
        """End the roll: the old segment is completed."""
        self._move(RollPhase.COMPLETING, RollPhase.STEADY)

    def _move(self, before: RollPhase, after: RollPhase) -> None:
        if self.phase is not before:
            raise AssertionError(f"roll is {self.phase.value}, not {before.value}")
        self.phase = after
