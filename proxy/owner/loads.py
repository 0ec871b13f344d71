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


class MovingLoad:
    """What was written since `now_s`, to a stream or to all."""

    __slots__ = ("_at_s", "_began_s", "_records", "_size_bytes")

    def __init__(self, now_s: float) -> None:
        self._began_s = self._at_s = now_s
        self._records = self._size_bytes = 0.0  # each record weighed by its age at `_at_s`

    def add(self, records: int, size_bytes: int, now_s: float) -> None:
        """Count a write."""
        self._age_to(now_s)
        self._records += records
        self._size_bytes += size_bytes

    def of(self, now_s: float) -> Load:
        """Return what is written in a second."""
        self._age_to(now_s)
        age_s = max(self._at_s - self._began_s, AGE_S_MIN)
        counted_s = WINDOW_S * (1 - exp(-age_s / WINDOW_S))
        return Load(self._records / counted_s, self._size_bytes / counted_s)

    def _age_to(self, now_s: float) -> None:
        if now_s > self._at_s:
            left = exp((self._at_s - now_s) / WINDOW_S)
            self._records *= left
            self._size_bytes *= left
            self._at_s = now_s


class Loads:
    """The loads of all streams. Shape: one entry for each stream since its first write."""

    def __init__(self, now_s: float) -> None:
        self.service = MovingLoad(now_s)
        """That of all of them together, also of those that the proxy has no more."""
        self._streams: dict[str, MovingLoad] = {}

    def add(self, stream: str, records: int, size_bytes: int, now_s: float) -> None:
        """Count a write."""
        self.service.add(records, size_bytes, now_s)
        load = self._streams.get(stream)
        if load is None:
            load = self._streams[stream] = MovingLoad(now_s)
        load.add(records, size_bytes, now_s)

    def of(self, stream: str, now_s: float) -> Load:
        """Return what is written to a stream in a second."""
        load = self._streams.get(stream)
        return IDLE if load is None else load.of(now_s)

    def forget(self, stream: str) -> None:
        """Forget a stream that the proxy has no more."""
        self._streams.pop(stream, None)
