"""Which entry logs are rewritten, when, and how fast. Pure. Source: reference BookKeeper 5.11.

The bytes of an entry log that belong to ledgers that still live are its usage. Minor compaction
rewrites logs below minorCompactionThreshold, major ones below majorCompactionThreshold, lowest
usage first; a major run counts as a minor one too.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tailrace.core.runtime.config import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class GcConfig:
    """Garbage collection and compaction, by BookKeeper's property names."""

    wait_ms: int = setting(
        "gcWaitTime",
        600_000,
        "How often the bookie frees the room of deleted ledgers. Unit: ms.",
    )
    minor_threshold: float = setting(
        "minorCompactionThreshold",
        0.2,
        "Entry logs with less than this share in use are rewritten by minor compaction. 0: none.",
    )
    minor_interval_s: int = setting(
        "minorCompactionInterval", 3600, "How often minor compaction runs. Unit: s. 0: never."
    )
    major_threshold: float = setting(
        "majorCompactionThreshold",
        0.8,
        "Entry logs with less than this share in use are rewritten by major compaction. 0: none.",
    )
    major_interval_s: int = setting(
        "majorCompactionInterval", 86_400, "How often major compaction runs. Unit: s. 0: never."
    )
    throttle_by_bytes: bool = setting(
        "isThrottleByBytes", False, "Whether compactionRateByBytes holds, else ...ByEntries."
    )
    rate_by_entries: int = setting(
        "compactionRateByEntries", 1000, "Entries that compaction rewrites in a second."
    )
    rate_by_bytes: int = setting(
        "compactionRateByBytes", 1_000_000, "Bytes that compaction rewrites in a second."
    )
    allowed_without_room: bool = setting(
        "isForceGCAllowWhenNoSpace",
        False,
        "Compact any log also while the disks have no room, not only those whose copy takes "
        "half of what is left: a log is removed only after its copy.",
    )

    over_replicated_wait_ms: int = setting(
        "gcOverreplicatedLedgerWaitTime",
        86_400_000,
        "How often the bookie removes closed ledgers of which the metadata says that other bookies "
        "keep them. Unit: ms. 0: never.",
    )
    over_replicated_requests_max: int = setting(
        "gcOverreplicatedLedgerMaxConcurrentRequests",
        100,
        "Ledgers that are looked at and locked at the same time by that.",
    )

    def __post_init__(self) -> None:
        self._check("minor", self.minor_threshold, self.minor_interval_s)
        self._check("major", self.major_threshold, self.major_interval_s)
        both = self.minor_enabled and self.major_enabled
        if both and not self.minor_threshold < self.major_threshold:
            raise ValueError("minorCompactionThreshold must be below majorCompactionThreshold")
        if both and not self.minor_interval_s < self.major_interval_s:
            raise ValueError("minorCompactionInterval must be below majorCompactionInterval")
        if self.wait_ms <= 0 or self.rate_by_entries <= 0 or self.rate_by_bytes <= 0:
            raise ValueError("gcWaitTime and the rates of compaction must be above 0")
        if self.over_replicated_wait_ms < 0 or self.over_replicated_requests_max < 1:
            raise ValueError(
                "gcOverreplicatedLedgerWaitTime is at least 0, "
                "gcOverreplicatedLedgerMaxConcurrentRequests at least 1"
            )

    def _check(self, kind: str, threshold: float, interval_s: int) -> None:
        if threshold >= 1:
            raise ValueError(f"{kind}CompactionThreshold must be below 1: full logs need no copy")
        if threshold > 0 and 0 < interval_s * 1000 <= self.wait_ms:
            raise ValueError(f"{kind}CompactionInterval must be longer than gcWaitTime")

    @property
    def minor_enabled(self) -> bool:
        """Whether minor compaction runs by itself."""
        return self.minor_threshold > 0 and self.minor_interval_s > 0

    @property
    def major_enabled(self) -> bool:
        """Whether major compaction runs by itself."""
        return self.major_threshold > 0 and self.major_interval_s > 0


class LogUsage(NamedTuple):
    """How much of an entry log belongs to ledgers that live."""

    log_id: int
    live_bytes: int
    total_bytes: int

    @property
    def share(self) -> float:
        """Return the used share; a log without entries has none."""
        return self.live_bytes / self.total_bytes if self.total_bytes else 0.0


def usage_of(log_id: int, ledgers: Mapping[int, int], living: Collection[int]) -> LogUsage:
    """Return the usage of a log whose ledgers map is `ledgers`. Shape: ledger id -> bytes."""
    live = sum(size for ledger_id, size in ledgers.items() if ledger_id in living)
    return LogUsage(log_id, live, sum(ledgers.values()))


def logs_to_compact(usages: Iterable[LogUsage], threshold: float) -> list[LogUsage]:
    """Return the logs below `threshold` that hold something alive, lowest usage first."""
    below = [usage for usage in usages if usage.live_bytes and usage.share < threshold]
    return sorted(below, key=lambda usage: (usage.share, usage.log_id))


def fits(usage: LogUsage, free_bytes: int) -> bool:
    """Tell whether a log may be copied while the disks have no room.

    Half of what is left stays for journals, index files, metadata and what else lies on the disk.
    """
    return 2 * usage.live_bytes <= free_bytes


class CompactionSchedule:
    """When which compaction is due. Times are those of one clock that never goes back. Unit: s."""

    def __init__(self, config: GcConfig, now_s: float) -> None:
        self._config = config
        self._minor_s = self._major_s = now_s

    def due(self, now_s: float, *, force: bool, is_full: bool = False) -> float:
        """Return the threshold of the compaction that is due now, 0 if none is.

        `force`: by an operator's order. `is_full`: what runs by itself is due, whatever the time.
        """
        config = self._config
        if force:
            return max(config.major_threshold, config.minor_threshold, 0.0)
        if config.major_enabled and (is_full or now_s - self._major_s > config.major_interval_s):
            return config.major_threshold
        if config.minor_enabled and (is_full or now_s - self._minor_s > config.minor_interval_s):
            return config.minor_threshold
        return 0.0

    def done(self, threshold: float, now_s: float) -> None:
        """Take note that a compaction of that threshold has ended."""
        self._minor_s = now_s
        if threshold >= self._config.major_threshold:
            self._major_s = now_s


class Throttle:
    """Holds compaction to its rate, over any time from its start."""

    def __init__(self, config: GcConfig) -> None:
        self._by_bytes = config.throttle_by_bytes
        self._rate = config.rate_by_bytes if self._by_bytes else config.rate_by_entries
        self._free_s = 0.0

    def delay_s(self, now_s: float, entries: int, size_bytes: int) -> float:
        """Return how long to wait before so much is written, and count it as written."""
        start_s = max(self._free_s, now_s)
        self._free_s = start_s + (size_bytes if self._by_bytes else entries) / self._rate
        return start_s - now_s
