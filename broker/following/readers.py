"""Where a fetch finds its partitions: among this broker's own, or also among those it follows."""

from typing import TYPE_CHECKING

from tailrace.broker.following.followed_partitions import FollowedPartitions
from tailrace.broker.partition.partition_logs import PartitionLogs
from tailrace.broker.partition.readable import ReadablePartition, SharedParts

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tailrace.protocol.errors import ErrorCode


class OwnAndFollowed:
    """Both: for consumers of this broker's rack (fetching's `Sources`)."""

    def __init__(self, own: PartitionLogs, followed: FollowedPartitions) -> None:
        self._own = own
        self._followed = followed
        self.shared: SharedParts = own.shared

    def get(self, partition: tuple[str, int]) -> ReadablePartition | None:
        """Return an open partition; None if it is not open (yet)."""
        return self._own.get(partition) or self._followed.get(partition)

    def begin_open(self, topic: str, partition: int) -> None:
        """Begin to open a partition that somebody is going to ask for."""
        _ = self.opening(topic, partition)

    def opening(self, topic: str, partition: int) -> "Awaitable[ReadablePartition | ErrorCode]":
        """Begin to open a partition; the future is done when it is open or cannot be."""
        if self._own.get((topic, partition)) is None and not self._own.is_mine(topic, partition):
            return self._followed.opening(topic, partition)
        return self._own.opening(topic, partition)

    def next_turn(self, places: int) -> int:
        """Return which get a turn where not all can have one."""
        return self._own.next_turn(places)
