"""How fast copies may be made, for all ledgers of a process together. Pure.

Source: BookKeeper replicationRateByBytes.
"""


class CopyPace:
    """Bytes per second, on average; who copied more waits before the next batch."""

    __slots__ = ("_bytes_per_s", "_free_at_s")

    def __init__(self, bytes_per_s: int) -> None:
        """`bytes_per_s`: 0 for no limit."""
        self._bytes_per_s = bytes_per_s
        self._free_at_s = float("-inf")

    def on_copied(self, count: int, now_s: float) -> float:
        """Take note of so many bytes; return how long to wait then. Unit: seconds."""
        if not self._bytes_per_s:
            return 0.0
        self._free_at_s = max(self._free_at_s, now_s) + count / self._bytes_per_s
        return self._free_at_s - now_s
