"""Key summaries for workers: one for each log that is cleaned, kept from one log to the next.

A new one is memory that the system has to give page by page; one that was used is there already.
They go when nothing is due any more: a broker at rest holds none.
"""

from functools import partial
from typing import TYPE_CHECKING

from compaction.cleaner.config import CleanerConfig
from compaction.cleaner.run import Run

if TYPE_CHECKING:  # it loads numpy, which a start need not wait for
    from compaction.cleaner.key_summary import KeySummary


class Summaries:
    """Takes and gives key summaries. All calls come from the loop."""

    def __init__(self, run: Run) -> None:
        """`run`: where one is made; the first brings numpy, which takes 0.2 s."""
        self._run = run
        self._free: list[KeySummary] = []
        self._shape = (0, 0.0)

    async def take(self, config: CleanerConfig) -> "KeySummary":
        """Return one of the config's size. Errors: Unavailable."""
        shape = (config.worker_buffer_bytes, config.load_factor)
        if shape != self._shape:
            self._shape = shape
            self._free.clear()
        if self._free:
            return self._free.pop()
        return await self._run(partial(_make, *shape))

    def give_back(self, summary: "KeySummary", config: CleanerConfig) -> None:
        """Keep one that nobody works with any more for the next log."""
        if (config.worker_buffer_bytes, config.load_factor) == self._shape:
            self._free.append(summary)

    def drop(self) -> None:
        """Give the memory back."""
        self._free.clear()


def _make(size_bytes: int, load_factor: float) -> "KeySummary":
    import compaction.cleaner.passes  # noqa: F401 - what else a pass needs, off the loop as well
    from compaction.cleaner.key_summary import KeySummary

    return KeySummary(size_bytes, load_factor)
