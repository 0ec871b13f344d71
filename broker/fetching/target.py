"""One partition of a fetch: what is asked of it, and what was found so far."""

from typing import TYPE_CHECKING, Final

from tailrace.broker.cluster.topic import Topic
from tailrace.broker.fetching.sessions import CachedPartition, PartitionKey
from tailrace.broker.partition.found import Found
from tailrace.broker.partition.readable import ReadablePartition
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.messages.fetch import EpochEndOffset, FetchPartition
from tailrace.protocol.records.batch import read_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.broker.partition.aborted import AbortedTransaction
    from tailrace.protocol.ids import Buffer

NO_REPLICA: Final = -1
"""No broker is preferred."""
UNKNOWN = (
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
"""Kafka says these without asking a partition, and then lists no transactions instead of null."""


class Target:
    """One partition of a fetch on its way."""

    __slots__ = (
        "aborted",
        "asked",
        "cached",
        "diverging",
        "error",
        "full",
        "key",
        "log",
        "next_offset",
        "parts",
        "preferred",
        "rewrites",
        "size",
        "topic",
    )  # fmt: skip

    def __init__(
        self,
        key: PartitionKey,
        asked: FetchPartition,
        topic: Topic | None,
        cached: CachedPartition | None = None,
    ) -> None:
        """`key`: as the client names it; `topic`: what that is, if it is known."""
        self.key = key
        self.asked = asked
        self.topic = topic
        self.cached = cached
        """Its place in the session, if the fetch belongs to one."""
        self.error = ErrorCode.NONE
        self.log: ReadablePartition | None = None
        self.next_offset = asked.fetch_offset
        self.parts: list[Buffer] = []
        self.size = 0
        self.full = False
        """More is there than the limits let through."""
        self.preferred = NO_REPLICA
        """The broker that the consumer is sent to instead of getting records."""
        self.rewrites = 0
        """What the log said of segments that got other ledgers, before anything was read."""
        self.diverging: EpochEndOffset | None = None
        self.aborted: Sequence[AbortedTransaction] | None = ()
        """Aborted transactions among the records; None while that is not known."""
        if topic is None:
            by_id = isinstance(key[0], bytes)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            self.error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else unknown
        elif not 0 <= asked.partition < topic.partition_count:
            self.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def check(self) -> None:
        """Compare what the client asks with the partition as it is now."""
        log, asked = self.log, self.asked
        if log is None or self.error:
            return
        if log.failure is not None:
            self.error = log.failure
        elif self.topic is not None and log.topic_id != self.topic.topic_id:
            self.error = ErrorCode.INCONSISTENT_TOPIC_ID  # made anew while this fetch waited
        elif asked.current_leader_epoch != -1 and (
            code := log.check_epoch(asked.current_leader_epoch)
        ):
            self.error = code
        elif self.is_ahead or (asked.last_fetched_epoch >= 0 and self._parts_from(log)):
            return
        elif not log.log_start_offset <= asked.fetch_offset <= log.log_end_offset:
            self.error = ErrorCode.OFFSET_OUT_OF_RANGE

    def _parts_from(self, log: ReadablePartition) -> bool:
        """Note where the client's history parted from the log's, if it did."""
        fetched, offset = self.asked.last_fetched_epoch, self.asked.fetch_offset
        epoch, end = log.end_of_epoch(fetched)
        if epoch < 0 or offset < log.log_start_offset:
            self.error = ErrorCode.OFFSET_OUT_OF_RANGE
        elif epoch < fetched or end < offset:
            self.diverging = EpochEndOffset(epoch=epoch, end_offset=end)
        return bool(self.error or self.diverging)

    @property
    def is_unknown(self) -> bool:
        """Whether the partition does not exist for the client, and did not at its last answer.

        So there is nothing to read or to wait for, and nothing new to report.
        """
        was_there = self.cached is not None and self.cached.high_watermark >= 0
        return self.error in UNKNOWN and not was_there

    @property
    def is_ahead(self) -> bool:
        """Whether a follower does not see yet what comes before the offset."""
        log = self.log
        return log is not None and log.is_follower and self.asked.fetch_offset > log.high_watermark

    async def check_ahead(self) -> None:
        """Refuse an offset that the partition's leader does not have either. Errors: none."""
        if self.log is not None and not await self.log.is_there(self.asked.fetch_offset):
            self.error = ErrorCode.OFFSET_OUT_OF_RANGE

    @property
    def may_be_sent(self) -> bool:
        """Whether the consumer may as well read from a follower that is in step."""
        log = self.log
        if log is None or self.error or self.diverging or log.is_follower or self.parts:
            return False
        return self.preferred == NO_REPLICA and self.asked.fetch_offset <= log.high_watermark

    @property
    def open_log(self) -> ReadablePartition | None:
        """The partition, if there may be more to take from it."""
        if self.error or self.diverging or self.full or self.preferred != NO_REPLICA:
            return None
        return self.log

    @property
    def is_rewritten(self) -> bool:
        """Whether the records may be of ledgers that the log has no more.

        What was aborted is told of the new ones. Of a transaction whose marker was cleaned away
        they say nothing, and its records, if they are the old ones, would seem to be committed.
        """
        return bool(self.parts and self.log and self.log.log.rewrites != self.rewrites)

    def take(self, found: Found) -> None:
        """Add batches that follow those that are here."""
        self.full = found.limited
        if found.parts:
            self.parts.extend(found.parts)
            self.size += found.size
            self.next_offset = read_header(found.parts[-1]).last_offset + 1

    def find_aborted(self) -> bool:
        """Find the aborted transactions in memory; return whether they are known."""
        if self.parts and self.log is not None:
            self.aborted = self.log.aborted_in_memory(self.asked.fetch_offset, self.next_offset - 1)
        return self.aborted is not None

    async def read_aborted(self) -> None:
        """Find them wherever they are. Errors: CoreError."""
        if not self.find_aborted() and self.log is not None:
            first, last = self.asked.fetch_offset, self.next_offset - 1
            self.aborted = await self.log.aborted_between(first, last)

    def give_up(self, error: ErrorCode) -> int:
        """Say only what went wrong; return how many bytes were found before that."""
        size, self.size, self.parts, self.error = self.size, 0, [], error
        return size
