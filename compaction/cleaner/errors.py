"""What ends a pass. Pure."""

from typing_extensions import override

from tailrace.protocol.ids import Offset


class CorruptBatch(Exception):
    """A stored batch that cannot be read: the log is not to be cleaned until somebody looks."""

    is_expected = True  # of a child process: its caller gets it as it was raised

    def __init__(self, index: int, offset: Offset, reason: str) -> None:
        """`index`: among the batches that were given; `offset`: what its header says is first."""
        super().__init__(f"batch at offset {offset}: {reason}")
        self.index = index
        self.offset = offset
        self.reason = reason

    @override
    def __reduce__(self) -> tuple[type["CorruptBatch"], tuple[int, Offset, str]]:
        return CorruptBatch, (self.index, self.offset, self.reason)


class CleanAborted(Exception):
    """The log may not be cleaned any more: nothing of the group in work was changed."""
