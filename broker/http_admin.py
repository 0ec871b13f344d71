"""What a broker says and does over HTTP, as JSON.

    GET /health                      200: "ok" or "degraded", background tasks that failed
    GET /metrics                     Prometheus text
    GET /cleaner                     workers, what they clean, what is paused or uncleanable
    GET /cleaner/plan                every compacted log: head, tail, ratio, whether it is due
    PUT /cleaner/run, pause, resume  body: a JSON list of logs (TOPIC-PARTITION); empty: all
    GET /topics/TOPIC/stats          counts: records, live keys, delete markers, head and tail
    GET /topics/TOPIC/latest         latest record of each key; ?key=, ?limit=

Of a topic, the partitions that this broker owns or can open; of others it says why not. Of a large
topic a question may read a part only (`unread_offsets`): asked again, it goes on. What each path
needs is in `http_access.py`.
"""

import json
from collections.abc import Callable, Collection
from typing import Any

from tailrace.broker.broker import Broker
from tailrace.broker.http_topics import TopicContents
from tailrace.compaction.cleaner.choosing import Look
from tailrace.compaction.cleaner.pool import CleanerPool
from tailrace.core.runtime.http import Asked, Handler, HttpReply, prometheus_text
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.stored_json import NOT_JSON
from tailrace.core.runtime.task_health import task_health


class BrokerHttp:
    """The handlers of one broker's HTTP port."""

    def __init__(self, broker: Broker, cleaner: CleanerPool, metrics: Metrics) -> None:
        self._topics = TopicContents(broker)
        self._cleaner = cleaner
        self._metrics = metrics

    def routes(self) -> dict[tuple[str, str], Handler | Asked]:
        """Return what is served where."""
        cleaner = self._cleaner
        return {
            ("GET", "/health"): lambda _: HttpReply(task_health().status()),
            ("GET", "/metrics"): self._scrape,
            ("GET", "/cleaner"): lambda _: HttpReply(cleaner.status()),
            ("GET", "/cleaner/plan"): self._plan,
            ("PUT", "/cleaner/run"): self._run,
            ("PUT", "/cleaner/pause"): self._pause,
            ("PUT", "/cleaner/resume"): self._resume,
            ("GET", "/topics/{topic}/stats"): Asked(self._topics.stats),
            ("GET", "/topics/{topic}/latest"): Asked(self._topics.latest),
        }

    async def close(self) -> None:
        """End the thread that walks records."""
        await self._topics.close()

    def _scrape(self, _: bytes) -> HttpReply:
        self._cleaner.refresh_metrics()
        return prometheus_text(self._metrics)

    async def _plan(self, _: bytes) -> HttpReply:
        looks = await self._cleaner.plan()
        return HttpReply([self._row(look) for look in looks])

    async def _run(self, body: bytes) -> HttpReply:
        names = _names(body)
        if names == []:
            self._cleaner.run(await self._known())
            return HttpReply(self._cleaner.status())
        return await self._tell(self._cleaner.run, names)

    async def _pause(self, body: bytes) -> HttpReply:
        return await self._tell(self._cleaner.pause, _names(body))

    async def _resume(self, body: bytes) -> HttpReply:
        return await self._tell(self._cleaner.resume, _names(body), self._cleaner.states.paused)

    async def _known(self) -> set[str]:
        return {look.name for look in await self._cleaner.plan()}

    async def _tell(
        self,
        tell: Callable[[list[str]], None],
        names: list[str] | HttpReply,
        others: Collection[str] = (),
    ) -> HttpReply:
        """Tell the cleaner what is asked of logs, unless it does not know one of them.

        `others`: that may be named too. Without names nothing is looked at: who pulls the brake
        does not wait for a slow log.
        """
        if isinstance(names, HttpReply):
            return names
        unknown = set(names).difference(others)
        if unknown:
            unknown -= await self._known()
        if unknown:
            text = ", ".join(sorted(unknown))
            return HttpReply({"error": f"not compacted here: {text}"}, status=404)
        tell(names)
        return HttpReply(self._cleaner.status())

    def _row(self, look: Look) -> dict[str, Any]:
        return {**look._asdict(), "state": self._cleaner.states.describe(look.name)}


def _names(body: bytes) -> list[str] | HttpReply:
    try:
        names = json.loads(body or b"[]")
    except NOT_JSON:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return HttpReply({"error": "the body must be a JSON list of TOPIC-PARTITION"}, status=400)
    return names
