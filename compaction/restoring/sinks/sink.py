"""What a restore needs of the place where values go."""

from collections.abc import Mapping
from typing import Protocol

from tailrace.compaction.restoring.checkpoint import Checkpoint
from tailrace.compaction.restoring.digest import Live
from tailrace.compaction.restoring.records import Changes


class Sink(Protocol):
    """Keeps the latest value of each key, and the checkpoint that belongs to them.

    Values and checkpoint are saved in one step, so they agree after a crash at any point; counts
    and hash of what is alive are taken from the values themselves. All calls come from one thread.
    Errors: OSError, and `RestoreError` for what the sink holds already.
    """

    @property
    def place(self) -> str:
        """Where it is, for messages."""

    def load(self) -> Checkpoint | None:
        """Return what was saved last; None if nothing was."""

    def clear(self) -> None:
        """Forget values and checkpoint, in one step."""

    def save(self, changes: Mapping[int, Changes], checkpoint: Checkpoint) -> None:
        """Apply what became of keys, by partition, together with the checkpoint: both or neither.

        Shape: None deletes. `checkpoint.saves` counts this one already.
        """

    def finish(self, checkpoint: Checkpoint) -> dict[int, Live]:
        """Make the final form, and return what is alive in each partition of the checkpoint.

        May be called again after a crash, and for what is finished already.
        """

    def close(self) -> None:
        """Give back what is held. Idempotent."""
