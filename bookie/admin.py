"""What a bookie says of itself over HTTP: BookKeeper's paths, plus `/health`.

    GET /health                        200 or 503: mode, reason, background tasks that failed
    GET /heartbeat                     OK
    GET /metrics                       Prometheus text
    GET /api/v1/bookie/state           running, readOnly, reason, availableForHighPriorityWrites
    GET, PUT /api/v1/bookie/state/readonly   {"readOnly": true or false}
    GET /api/v1/bookie/is_ready        200, or 503 once it cannot write any more
    GET /api/v1/bookie/info            freeSpace, totalSpace
    PUT /api/v1/bookie/gc              collects garbage and compacts now

Clients are asked for certificates, or for nothing (core/security/http_port.py): then the port
belongs on an address that only operators reach.
Source: BookKeeper's HTTP admin API.
"""

import json
from typing import Protocol

from tailrace.bookie.gc import Removed
from tailrace.bookie.health import Health
from tailrace.core.runtime.files import Space
from tailrace.core.runtime.http import Handler, HttpReply, prometheus_text
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.stored_json import NOT_JSON
from tailrace.core.runtime.task_health import task_health


class AdminBookie(Protocol):
    """What the HTTP port asks of a bookie."""

    @property
    def bookie_id(self) -> str:
        """Its id in ledger metadata."""

    @property
    def has_failed(self) -> bool:
        """Whether it cannot write any more."""

    async def room(self) -> Space:
        """Return the room of all ledger directories. Errors: OSError."""

    async def collect_garbage(self, *, force: bool = False) -> Removed:
        """Remove what metadata does not have any more; `force`: compact too. Errors: OSError."""


Routes = dict[tuple[str, str], Handler]


def routes(bookie: AdminBookie, health: Health, metrics: Metrics) -> Routes:
    """Return the handlers of one bookie's HTTP port."""
    admin = _Admin(bookie, health)
    return {
        ("GET", "/health"): admin.health,
        ("GET", "/heartbeat"): lambda _: HttpReply("OK\n"),
        ("GET", "/metrics"): lambda _: prometheus_text(metrics),
        ("GET", "/api/v1/bookie/state"): admin.state,
        ("GET", "/api/v1/bookie/state/readonly"): admin.read_only,
        ("PUT", "/api/v1/bookie/state/readonly"): admin.set_read_only,
        ("GET", "/api/v1/bookie/is_ready"): admin.is_ready,
        ("GET", "/api/v1/bookie/info"): admin.info,
        ("PUT", "/api/v1/bookie/gc"): admin.collect,
    }


class _Admin:
    def __init__(self, bookie: AdminBookie, health: Health) -> None:
        self._bookie = bookie
        self._health = health

    def health(self, _: bytes) -> HttpReply:
        tasks = task_health().status()
        facts = {
            "status": "failed" if self._bookie.has_failed else tasks["status"],
            "bookie": self._bookie.bookie_id,
            "mode": "read-only" if self._health.is_read_only else "writable",
            "reason": self._health.reason,
            "failed_tasks": tasks["failed_tasks"],
        }
        return HttpReply(facts, status=self._status)

    def state(self, _: bytes) -> HttpReply:
        health, failed = self._health, self._bookie.has_failed
        facts = {
            "running": not failed,
            "readOnly": health.is_read_only,
            "shuttingDown": failed,
            "availableForHighPriorityWrites": not failed and not health.refuses(1),
            "reason": health.reason,
        }
        return HttpReply(facts)

    def read_only(self, _: bytes) -> HttpReply:
        return HttpReply({"readOnly": self._health.is_read_only})

    def set_read_only(self, body: bytes) -> HttpReply:
        wanted = _read_only_of(body)
        if wanted is None:
            return HttpReply('the body must be {"readOnly": true} or {"readOnly": false}\n', 400)
        if not wanted and self._health.is_forced:
            return HttpReply("forceReadOnlyBookie is set: it stays read-only\n", 400)
        self._health.set_manual(read_only=wanted)
        return self.read_only(body)

    def is_ready(self, _: bytes) -> HttpReply:
        return HttpReply("OK\n" if self._status == 200 else "failed\n", self._status)

    async def info(self, _: bytes) -> HttpReply:
        room = await self._bookie.room()
        return HttpReply({"freeSpace": room.free_bytes, "totalSpace": room.total_bytes})

    async def collect(self, _: bytes) -> HttpReply:
        removed = await self._bookie.collect_garbage(force=True)
        return HttpReply({"ledgers": len(removed.ledgers), "entryLogs": len(removed.entry_logs)})

    @property
    def _status(self) -> int:
        return 503 if self._bookie.has_failed else 200


def _read_only_of(body: bytes) -> bool | None:
    try:
        found = json.loads(body)
    except NOT_JSON:
        return None
    wanted = found.get("readOnly") if isinstance(found, dict) else None
    return wanted if isinstance(wanted, bool) else None
