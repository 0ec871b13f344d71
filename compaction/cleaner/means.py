"""What a pass works with, besides its log: time, and how much of the machine it may take."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

BLOCK_BYTES = 4 * 1024 * 1024
"""Read, and computed, at once where nobody waits meanwhile. With 1 MiB a pass took a fifth more of
its child's CPU for steps and calls (2026-11-24)."""
SMALL_BLOCK_BYTES = 512 * 1024
"""Where clients would wait for it: much smaller ones cost more than they spare, as each is a step
to another process and back: 1.2 ms for 64 KiB, 2.4 for 1 MiB (2026-11-22)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassMeans:
    """What a pass works with."""

    throttle: Callable[[int], Awaitable[None]]
    """Waits until that many more bytes may be read or written."""
    now_ms: Callable[[], int]
    block_bytes: Callable[[], int] = lambda: BLOCK_BYTES
    """About how much to read at once; asked before each block."""
    gives_way: Callable[[], bool] = lambda: False
    """Whether a block is computed only while nobody wants the core; asked before each block."""
    gave_way: Callable[[float], None] = lambda _: None
    """Hears how many seconds such a block took, from being asked for to its answer."""
    check: Callable[[], None] = lambda: None
    """Asked between blocks. Errors: CleanAborted, if the pass has to end."""
