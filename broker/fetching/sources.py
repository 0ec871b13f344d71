"""Where a fetch finds its partitions."""

from typing import TYPE_CHECKING, Protocol

from tailrace.broker.partition.readable import ReadablePartition, SharedParts

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tailrace.protocol.errors import ErrorCode


class Sources(Protocol):
    """Where the partitions of a fetch are; `PartitionLogs` is one."""

    @property
    def shared(self) -> SharedParts:
        """What all partitions of the broker share."""

    def get(self, partition: tuple[str, int], /) -> ReadablePartition | None:
        """Return an open partition; None if it is not open (yet)."""

    def begin_open(self, topic: str, partition: int, /) -> None:
        """Begin to open a partition that somebody is going to ask for."""

    def opening(self, topic: str, partition: int, /) -> "Awaitable[ReadablePartition | ErrorCode]":
        """Begin to open a partition; the result is there when it is open or cannot be."""

    def next_turn(self, places: int, /) -> int:
        """Return which get a turn where not all can have one."""
