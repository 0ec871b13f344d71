"""How much is written to each stream of a proxy of late: what balancing goes by. Pure.

What was written counts less the longer it is ago: after a minute e times less. A stream that the
proxy has for less than that is counted over the time that it has it. Unit of all times: seconds of
a clock that never goes back.
Source: DistributedLog's MovingAverageRate of a stream, over 60 s.
"""

from math import exp
from typing import Final, NamedTuple

WINDOW_S: Final = 60.0
AGE_S_MIN: Final = 1.0
"""A stream counts as known for at least so long: its first write does not make it a busy one."""


class Load(NamedTuple):
    """What is written to a stream in a second."""

    records: float
    size_bytes: float


IDLE: Final = Load(0.0, 0.0)


class _Written:
    """What was written, each record weighed by its age at `at_s`."""

    __slots__ = ("at_s", "began_s", "records", "size_bytes")

    def __init__(self, now_s: float) -> None:
        self.began_s = self.at_s = now_s
        self.records = self.size_bytes = 0.0

    def age_to(self, now_s: float) -> None:
        if now_s > self.at_s:
            left = exp((self.at_s - now_s) / WINDOW_S)
            self.records *= left
            self.size_bytes *= left
            self.at_s = now_s


class Loads:
    """The loads of all streams. Shape: one entry for each stream since its first write."""

    def __init__(self) -> None:
        self._written: dict[str, _Written] = {}

    def add(self, stream: str, records: int, size_bytes: int, now_s: float) -> None:
        """Count a write."""
        written = self._written.get(stream)
        if written is None:
            written = self._written[stream] = _Written(now_s)
        written.age_to(now_s)
        written.records += records
        written.size_bytes += size_bytes

    def of(self, stream: str, now_s: float) -> Load:
        """Return what is written to a stream in a second."""
        written = self._written.get(stream)
        if written is None:
            return IDLE
        written.age_to(now_s)
        age_s = max(written.at_s - written.began_s, AGE_S_MIN)
        counted_s = WINDOW_S * (1 - exp(-age_s / WINDOW_S))
        return Load(written.records / counted_s, written.size_bytes / counted_s)

    def forget(self, stream: str) -> None:
        """Forget a stream that the proxy has no more."""
        self._written.pop(stream, None)
