"""What a broker says and does over HTTP, as JSON.

    GET /health                      200
    GET /metrics                     Prometheus text
    GET /cleaner                     workers, what they clean, what is paused or uncleanable
    GET /cleaner/plan                every compacted log: head, tail, ratio, whether it is due
    PUT /cleaner/run, pause, resume  body: a JSON list of logs (TOPIC-PARTITION); empty: all
    GET /topics/TOPIC/stats          counts, by reading the topic
    GET /topics/TOPIC/latest         latest record of each key; ?key=, ?limit=

Of a topic, the partitions that this broker owns or can open. No authentication: the port belongs on
an address that only operators reach.
"""

import base64
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, TypeVar

from broker.broker import Broker
from broker.errors import KafkaError
from broker.partition.cleanable import CleanablePartition
from broker.partition.latest import LatestRecord, count_keys, latest_of_keys
from broker.partition.partition_log import PartitionLog
from compaction.cleaner.choosing import Look
from compaction.cleaner.looking import look_at
from compaction.cleaner.pool import CleanerPool
from core.errors import CoreError
from core.runtime.http import Asked, Handler, HttpReply, prometheus_text
from core.runtime.job_pool import JobPool
from core.runtime.metrics import Metrics
from protocol.ids import TopicPartition

T = TypeVar("T")
LATEST_LIMIT: Final = 1000
LATEST_LIMIT_MAX: Final = 100_000
WALK_TIMEOUT_S: Final = 60.0
"""For the records of a megabyte of batches."""


class BrokerHttp:
    """The handlers of one broker's HTTP port."""

    def __init__(self, broker: Broker, cleaner: CleanerPool, metrics: Metrics) -> None:
        self._broker = broker
        self._cleaner = cleaner
        self._metrics = metrics
        self._jobs = JobPool("http", 1)

    def routes(self) -> dict[tuple[str, str], Handler | Asked]:
        """Return what is served where."""
        cleaner = self._cleaner
        return {
            ("GET", "/health"): lambda _: HttpReply({"status": "ok"}),
            ("GET", "/metrics"): self._scrape,
            ("GET", "/cleaner"): lambda _: HttpReply(cleaner.status()),
            ("GET", "/cleaner/plan"): self._plan,
            ("PUT", "/cleaner/run"): self._run,
            ("PUT", "/cleaner/pause"): _telling(cleaner.pause, cleaner.status),
            ("PUT", "/cleaner/resume"): _telling(cleaner.resume, cleaner.status),
            ("GET", "/topics/{topic}/stats"): Asked(self._stats),
            ("GET", "/topics/{topic}/latest"): Asked(self._latest),
        }

    async def close(self) -> None:
        """End the thread that walks records."""
        await self._jobs.close(WALK_TIMEOUT_S)

    def _scrape(self, _: bytes) -> HttpReply:
        self._cleaner.refresh_metrics()
        return prometheus_text(self._metrics)

    async def _plan(self, _: bytes) -> HttpReply:
        looks = await self._cleaner.plan()
        return HttpReply([self._row(look) for look in looks])

    async def _run(self, body: bytes) -> HttpReply:
        names = _names(body)
        if isinstance(names, HttpReply):
            return names
        known = {look.name for look in await self._cleaner.plan()}
        unknown = sorted(set(names) - known)
        if unknown:
            return HttpReply({"error": f"not compacted here: {', '.join(unknown)}"}, status=404)
        self._cleaner.run(names or known)
        return HttpReply(self._cleaner.status())

    def _row(self, look: Look) -> dict[str, Any]:
        return {**look._asdict(), "state": self._cleaner.states.describe(look.name)}

    # ------------------------------------------------------------------ topics

    async def _stats(self, asked: Mapping[str, str]) -> HttpReply:
        return await self._of_topic(asked["topic"], self._partition_stats)

    async def _latest(self, asked: Mapping[str, str]) -> HttpReply:
        limit = asked.get("limit", str(LATEST_LIMIT))
        if not limit.isdecimal() or not 1 <= int(limit) <= LATEST_LIMIT_MAX:
            return HttpReply({"error": f"limit must be 1 to {LATEST_LIMIT_MAX}"}, status=400)
        key = asked["key"].encode() if "key" in asked else None

        async def latest(log: PartitionLog) -> dict[str, Any]:
            found, is_whole = await latest_of_keys(log, self._in_thread, int(limit), key)
            return {
                "partition": log.partition.partition,
                "is_whole": is_whole,
                "keys": [_record(each) for each in found],
            }

        return await self._of_topic(asked["topic"], latest)

    async def _of_topic(
        self, name: str, ask: Callable[[PartitionLog], Awaitable[dict[str, Any]]]
    ) -> HttpReply:
        topic = self._broker.topics.get(name)
        if topic is None:
            return HttpReply({"error": f"no topic {name}"}, status=404)
        rows = []
        for index in range(topic.partition_count):
            partition = TopicPartition(name, index)
            try:
                rows.append(await ask(await self._broker.partitions.open(partition)))
            except (KafkaError, CoreError) as error:
                return HttpReply({"error": f"{partition}: {error}"}, status=503)
        return HttpReply({"topic": name, "partitions": rows})

    async def _partition_stats(self, log: PartitionLog) -> dict[str, Any]:
        cleanable = CleanablePartition(log)
        look = await look_at(cleanable, self._broker.clock.now_ms())
        counts = await count_keys(log, self._in_thread)
        done = await cleanable.checkpoint()
        segments = await cleanable.segments()
        return {
            "partition": log.partition.partition,
            "log_start_offset": log.log_start_offset,
            **counts._asdict(),
            "bound": None if counts.keys is not None else "keys: more than are told apart",
            "size_bytes": sum(each.size_bytes for each in segments),
            "segments": len(segments),
            "tail_bytes": look.clean_bytes,
            "head_bytes": look.total_bytes - look.clean_bytes,
            "dirty_ratio": look.ratio,
            "first_dirty_offset": look.first_dirty,
            "last_clean_ms": done.cleaned_ms or None,
            "saved_bytes": done.bytes_before - done.bytes_after,
        }

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await self._jobs.call(work, WALK_TIMEOUT_S)


def _telling(tell: Callable[[Collection[str]], None], status: Callable[[], Any]) -> Handler:
    def handler(body: bytes) -> HttpReply:
        names = _names(body)
        if isinstance(names, HttpReply):
            return names
        tell(names)
        return HttpReply(status())

    return handler


def _names(body: bytes) -> list[str] | HttpReply:
    try:
        names = json.loads(body or b"[]")
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return HttpReply({"error": "the body must be a JSON list of TOPIC-PARTITION"}, status=400)
    return names


def _record(record: LatestRecord) -> dict[str, Any]:
    return {
        "key": _text(record.key),
        "value": None if record.value is None else _text(record.value),
        "offset": record.offset,
        "timestamp": record.timestamp,
    }


def _text(data: bytes) -> str | dict[str, str]:
    """Return text as it is, other bytes as base64 in an object."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
