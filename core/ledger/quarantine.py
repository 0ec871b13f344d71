"""Which bookies new ensembles avoid: those that failed lately, and those that fail too often.

    rank 0  nothing is known against it
    rank 1  it failed an add in the last minute: the next ensemble change would hit it again;
            or so many of its region did that the rest is likely to be lost with them
    rank 2  quarantined: it had `errors_max` errors within one interval

A rank is a preference, not a ban: if the others make no ensemble, these are taken.
Source: BookKeeper bookieHealthCheck*, PerChannelBookieClient error counters.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tailrace.protocol.ids import BookieId

BOOKIES_MAX: Final = 10_000
"""Bookies that are remembered; beyond it the oldest are forgotten."""

AVOIDED: Final = 1
QUARANTINED: Final = 2

REGION_FAILED_MIN: Final = 2
REGION_FAILED_SHARE: Final = 0.25
"""Bookies of a region, and their share of it, that failed lately when the region is doubted."""


@dataclass(slots=True)
class _Record:
    failed_s: float
    interval_start_s: float
    errors: int = 0
    quarantined_until_s: float = float("-inf")


class Quarantine:
    """What bookies did wrong. All times are of one monotonic clock. Unit: s."""

    def __init__(
        self, *, avoid_s: float, interval_s: float, errors_max: int, quarantine_s: float
    ) -> None:
        """`errors_max` 0: nobody is ever quarantined."""
        self._avoid_s = avoid_s
        self._interval_s = interval_s
        self._errors_max = errors_max
        self._quarantine_s = quarantine_s
        self._records: dict[BookieId, _Record] = {}

    def on_failure(self, bookie: BookieId, now_s: float, *, is_error: bool, spare: bool) -> bool:
        """Take note of a failure; return whether it put the bookie into quarantine.

        `is_error`: it counts for quarantine, else it only makes others preferred for a while.
        `spare`: no quarantine this time (bookieQuarantineRatio).
        """
        record = self._records.pop(bookie, None) or _Record(now_s, now_s)
        self._records[bookie] = record  # last in the order of forgetting
        if len(self._records) > BOOKIES_MAX:
            del self._records[next(iter(self._records))]
        record.failed_s = now_s
        if not is_error:
            return False
        if now_s - record.interval_start_s >= self._interval_s:
            record.interval_start_s, record.errors = now_s, 0
        record.errors += 1
        if not self._errors_max or record.errors < self._errors_max:
            return False
        record.interval_start_s, record.errors = now_s, 0
        if spare or record.quarantined_until_s > now_s:
            return False
        record.quarantined_until_s = now_s + self._quarantine_s
        return True

    def rank(self, bookie: BookieId, now_s: float) -> int:
        """Return how gladly a bookie is taken: 0, AVOIDED or QUARANTINED."""
        record = self._records.get(bookie)
        if record is None:
            return 0
        if record.quarantined_until_s > now_s:
            return QUARANTINED
        return AVOIDED if now_s - record.failed_s < self._avoid_s else 0


def doubted_regions(regions: Mapping[BookieId, str], ranks: Mapping[BookieId, int]) -> set[str]:
    """Return the regions of which so many bookies failed lately that the rest is avoided, too.

    Bookies of a lost region stay registered until their sessions end; tried one after the other
    each would cost a time-out. Shape: `regions` has every registered bookie.
    """
    members = Counter(regions.values())
    failed = Counter(region for bookie, region in regions.items() if ranks[bookie])
    return {
        region
        for region, count in failed.items()
        if count >= max(REGION_FAILED_MIN, REGION_FAILED_SHARE * members[region])
    }
