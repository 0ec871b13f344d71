"""A broker whose cleaner is quick, and topics of it that are waited for until they are clean."""

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from tests.ports import free_port
from tests.process import TailraceProcess

COMPACTED = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0",
}
"""A topic of small segments that are cleaned whenever something can be."""
_WITHIN_S = 60


class CleanedTopics:
    """Compacted topics of one broker. Ends with the factory that made the broker."""

    def __init__(self, factory: Callable[..., TailraceProcess]) -> None:
        port = free_port()
        given = ("admin.http.enable=true", f"admin.http.port={port}", "log.cleaner.backoff.ms=100")
        self.broker = factory(*(part for each in given for part in ("--set", each))).start()
        self._admin = f"http://127.0.0.1:{port}"

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        new = NewTopic(topic, partitions, 1, config=COMPACTED)
        admin.create_topics([new])[topic].result(30)

    def clean(self, topic: str) -> None:
        """Return once all of a topic is clean; a restart ends the segments that are written."""
        self.broker.kill()
        self.broker.restart()
        ends = {f"{topic}-{row['partition']}": row["end_offset"] for row in self.stats(topic)}
        deadline = time.monotonic() + _WITHIN_S
        while True:
            rows = [row for row in self._get("cleaner/plan") if row["name"] in ends]
            if {row["name"]: row["first_dirty"] for row in rows} == ends:
                return
            assert time.monotonic() < deadline, (rows, ends)
            time.sleep(0.05)

    def stats(self, topic: str) -> list[dict[str, Any]]:
        """Return what each partition holds."""
        rows: list[dict[str, Any]] = self._get(f"topics/{topic}/stats")["partitions"]
        return rows

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._admin}/{path}", timeout=_WITHIN_S) as answer:
            return json.load(answer)
