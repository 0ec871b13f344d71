"""What a partition's leader says of it: its epoch, and how far the log goes there.

The log names the epoch of an owner only once that owner has written; and a follower cannot tell an
offset that it does not see yet from one that is not there.
"""

from typing import Final, NamedTuple, Protocol

from tailrace.broker.peers.errors import PeerError
from tailrace.protocol.ids import Offset, TopicPartition
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import LIST_OFFSETS
from tailrace.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EPOCH_SINCE: Final = 4
"""Version of ListOffsets that tells the epoch."""
CLIENT: Final = -1
WAIT_S: Final = 0.5
"""A leader that does not answer for so long says nothing."""


class LeaderState(NamedTuple):
    """What a leader answered."""

    epoch: int
    end: Offset
    """Its high watermark."""


class Owners(Protocol):
    """Which broker owns a partition; `Routes` knows."""

    def owner(self, topic: str, partition: int, /) -> int | None:
        """Return the broker that owns a partition; None: the partition does not exist."""


class Sender(Protocol):
    """Asks other brokers; `Peers` does."""

    async def send(
        self,
        broker_id: int,
        api: Api[ListOffsetsRequest, ListOffsetsResponse],
        request: ListOffsetsRequest,
        timeout_s: float,
        version_min: int = 0,
        /,
    ) -> ListOffsetsResponse:
        """Return a broker's answer. Errors: PeerError."""


class Leaders:
    """The leaders of partitions, as other brokers."""

    def __init__(self, owners: Owners, sender: Sender) -> None:
        self._owners = owners
        self._sender = sender

    async def ask(self, partition: TopicPartition) -> LeaderState | None:
        """Return what the leader says now; None if it does not answer, or does not lead.

        Errors: none. Cost: one request.
        """
        owner = self._owners.owner(*partition)
        if owner is None:
            return None
        wanted = ListOffsetsPartition(partition_index=partition.partition, timestamp=LATEST)
        request = ListOffsetsRequest(
            replica_id=CLIENT,
            topics=[ListOffsetsTopic(name=partition.topic, partitions=[wanted])],
            timeout_ms=int(WAIT_S * 1000),
        )
        try:
            answer = await self._sender.send(owner, LIST_OFFSETS, request, WAIT_S, EPOCH_SINCE)
        except PeerError:  # `Peers` counts it, and logs it once until that broker answers again
            return None
        for topic in answer.topics:
            for told in topic.partitions:
                if not told.error_code:
                    return LeaderState(told.leader_epoch, told.offset)
        return None
