"""A block of batches, one behind the other in one buffer, read where they lie. Pure.

What a pass reads comes so from the process that drives it: nothing is copied to be looked at.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tailrace.core.runtime.child_process import Joined
from tailrace.protocol.ids import Buffer


class Block(NamedTuple):
    """Some batches of a buffer, in its order; each array has one value for each of them."""

    data: Buffer
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, batches: Sequence[Buffer]) -> "Block":
        """Return batches as a block. Cost: a copy of them, unless they lie in one buffer."""
        sizes = np.array([len(batch) for batch in batches], np.int64)
        ends = np.cumsum(sizes)
        data = batches.whole if isinstance(batches, Joined) else b"".join(batches)
        return cls(data, ends - sizes, ends)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each batch."""
        sizes: npt.NDArray[np.int64] = self.ends - self.starts
        return sizes

    def batch(self, at: int) -> memoryview:
        """Return one batch, where it lies."""
        return memoryview(self.data)[int(self.starts[at]) : int(self.ends[at])]

    def take(self, places: npt.NDArray[np.intp]) -> "Block":
        """Return some of the batches, where they lie."""
        return Block(self.data, self.starts[places], self.ends[places])


def rows_of(data: Buffer, at: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint8]:
    """Return `width` bytes from each of some places, as rows; zeros behind the end of the buffer.

    Shape: places lie inside. numpy copies a row at once so, where an index for each byte would take
    it seven times as long.
    """
    if not len(at):
        return np.empty((0, width), np.uint8)
    last = len(data) - width
    is_far = at > last
    if not is_far.any():
        found = np.ndarray((last + 1,), f"V{width}", data, strides=(1,))[at]
        return found.view(np.uint8).reshape(-1, width)
    begin = max(last, 0)
    tail = bytes(memoryview(data)[begin:]) + bytes(width)
    rows = np.empty((len(at), width), np.uint8)
    rows[is_far] = rows_of(tail, at[is_far] - begin, width)
    rows[~is_far] = rows_of(data, at[~is_far], width)
    return rows
