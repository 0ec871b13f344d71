"""What topics hold, over HTTP as JSON: counts, and the latest record of each key.

A question about a topic reads so much and no more (`view_reads.QUESTION_BYTES`); what is left then
is told as `unread_offsets`, and the same question again goes on from there.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tailrace.broker.broker import Broker
from tailrace.broker.errors import KafkaError
from tailrace.broker.json_bytes import named_bytes
from tailrace.broker.partition.cleanable import CleanablePartition
from tailrace.broker.partition.latest import LatestRecord
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.compaction.cleaner.looking import look_at
from tailrace.core.errors import CoreError
from tailrace.core.runtime.decimal_text import decimal
from tailrace.core.runtime.http import HttpReply
from tailrace.core.runtime.job_pool import JobPool
from tailrace.core.runtime.switching import quick_switches
from tailrace.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from tailrace.broker.partition.view_reads import Allowance
    from tailrace.broker.partition.views import PartitionViews

T = TypeVar("T")
LATEST_LIMIT: Final = 1000
LATEST_LIMIT_MAX: Final = 100_000
WALK_TIMEOUT_S: Final = 60.0
"""For the records of a megabyte of batches."""

Question = Callable[[PartitionLog, "PartitionViews", "Allowance"], Awaitable[dict[str, Any]]]


class TopicContents:
    """Answers questions about the topics of one broker.

    A partition that cannot be asked here (another broker owns it, its log fails) is an `error`
    among the others; 503 if that is all of them.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._jobs = JobPool("http", 1)
        self._views: PartitionViews | None = None

    async def close(self) -> None:
        """End the thread that walks records."""
        await self._jobs.close(WALK_TIMEOUT_S)

    async def stats(self, asked: Mapping[str, str]) -> HttpReply:
        """Count each partition's records, live keys and delete markers."""
        return await self._of_topic(asked["topic"], self._stats)

    async def latest(self, asked: Mapping[str, str]) -> HttpReply:
        """Return the latest record of each key, or of one; at most `limit` of a partition."""
        limit = decimal(asked.get("limit", str(LATEST_LIMIT)), LATEST_LIMIT_MAX, least=1)
        if limit is None:
            return HttpReply({"error": f"limit must be 1 to {LATEST_LIMIT_MAX}"}, status=400)
        key = asked["key"].encode() if "key" in asked else None

        async def latest(
            log: PartitionLog, views: "PartitionViews", allowance: "Allowance"
        ) -> dict[str, Any]:
            found = await views.latest(log, limit, key, allowance)
            return {
                "partition": log.partition.partition,
                "is_whole": found.is_whole,
                "unread_offsets": found.unread_offsets,
                "bound": found.bound,
                "keys": [_record(each) for each in found.records],
            }

        return await self._of_topic(asked["topic"], latest)

    async def _of_topic(self, name: str, ask: Question) -> HttpReply:
        topic = self._broker.topics.get(name)
        if topic is None:
            return HttpReply({"error": f"no topic {name}"}, status=404)
        views, allowance = await self._begin()
        rows: list[dict[str, Any]] = []
        for index in range(topic.partition_count):
            try:
                log = await self._broker.partitions.open(TopicPartition(name, index))
                with quick_switches():  # records are walked beside those who produce
                    rows.append(await ask(log, views, allowance))
            except (KafkaError, CoreError) as error:
                rows.append({"partition": index, "error": f"{name}-{index}: {error}"})
        if all("error" in row for row in rows):
            return HttpReply({"error": rows[0]["error"]}, status=503)
        return HttpReply({"topic": name, "read_bytes": allowance.read_bytes, "partitions": rows})

    async def _begin(self) -> tuple["PartitionViews", "Allowance"]:
        """Load numpy with the first question, and not on the loop."""
        await self._in_thread(_load)
        from tailrace.broker.partition.view_reads import Allowance
        from tailrace.broker.partition.views import PartitionViews

        if self._views is None:
            bytes_max = self._broker.config.http.views_bytes
            self._views = PartitionViews(self._in_thread, bytes_max, self._broker.clock)
        return self._views, Allowance()

    async def _stats(
        self, log: PartitionLog, views: "PartitionViews", allowance: "Allowance"
    ) -> dict[str, Any]:
        counts = await views.count(log, allowance)
        cleanable = CleanablePartition(log)
        look = await look_at(cleanable, self._broker.clock.now_ms())
        done = await cleanable.checkpoint()
        return {
            "partition": log.partition.partition,
            "log_start_offset": log.log_start_offset,
            **counts._asdict(),
            "size_bytes": look.total_bytes,
            "segments": len(await cleanable.segments()),
            "tail_bytes": look.clean_bytes,
            "head_bytes": look.total_bytes - look.clean_bytes,
            "dirty_ratio": look.ratio,
            "first_dirty_offset": look.first_dirty,
            "last_clean_ms": done.cleaned_ms or None,
            "saved_bytes": done.bytes_before - done.bytes_after,
        }

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._jobs.call(work, WALK_TIMEOUT_S)


def _load() -> None:
    import tailrace.broker.partition.views  # noqa: F401


def _record(record: LatestRecord) -> dict[str, Any]:
    return {
        **named_bytes("key", record.key),
        **named_bytes("value", record.value),
        "offset": record.offset,
        "timestamp": record.timestamp,
    }
