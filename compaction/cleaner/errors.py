"""What ends a pass. Pure."""

from protocol.ids import Offset


class CorruptBatch(Exception):
    """A stored batch that cannot be read: the log is not to be cleaned until somebody looks."""

    def __init__(self, index: int, offset: Offset, reason: str) -> None:
        """`index`: among the batches that were given; `offset`: what its header says is first."""
        super().__init__(f"batch at offset {offset}: {reason}")
        self.index = index
        self.offset = offset
        self.reason = reason


class CleanAborted(Exception):
    """The log may not be cleaned any more: nothing of the group in work was changed."""
