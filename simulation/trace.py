"""What happened in one schedule: a running hash always, the lines themselves on demand."""

import hashlib
import sys
from collections import Counter, deque
from collections.abc import Callable

TAIL = 400


class Trace:
    """Each event is one line; two runs of one seed have the same hash, or the simulation lies."""

    def __init__(self, *, now_s: Callable[[], float], show: bool = False) -> None:
        self._now_s = now_s
        self._show = show
        self._hash = hashlib.blake2b(digest_size=8)
        self.counts: Counter[str] = Counter()
        self.tail: deque[str] = deque(maxlen=TAIL)
        self.is_over = False
        """What comes from then on is no part of the schedule."""

    def __call__(self, who: str, what: str, detail: object = "") -> None:
        if self.is_over:
            return
        line = f"{self._now_s():.6f} {who} {what} {detail}"
        self._hash.update(line.encode())
        self.counts[what] += 1
        self.tail.append(line)
        if self._show:
            sys.stdout.write(f"{line}\n")

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
