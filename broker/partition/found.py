"""What a read of a partition found. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from protocol.ids import Buffer


class Found(NamedTuple):
    """Whole batches, consecutive."""

    parts: Sequence[Buffer]
    size: int
    """Bytes of all parts together."""
    limited: bool
    """Whether more is there than the limit let through."""


NOTHING = Found((), 0, limited=False)
