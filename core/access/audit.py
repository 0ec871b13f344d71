"""The audit log: who asked for what from where, and whether it was allowed. One JSON line each.

    {"time":"2026-11-28T05:00:00.123Z","event":"authorization","principal":"User:alice",
     "host":"10.0.0.7","listener":"SASL_SSL","api":"Fetch","operation":"READ",
     "resource":"TOPIC","name":"orders","result":"DENIED"}

`audit.level=denied` has what was refused, `all` what was allowed as well. A question that an answer
leaves something out for is not a refusal. What one request asks again at once is there once.
Secrets are never in it: nothing of a token, a password or a key gets here.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.access.requester import Requester
from tailrace.core.runtime.line_writer import LineMetrics, LineWriter

TEXT_MAX: Final = 1000
"""Characters of a name or a reason that are shown; the rest is cut off."""
CLOSE_S: Final = 5.0
"""How long an ending broker waits for lines that are not written yet."""


class AuditLevel(StrEnum):
    """What is noted."""

    OFF = "off"
    DENIED = "denied"
    ALL = "all"


class Door(NamedTuple):
    """Where somebody asks, and by what."""

    listener: str
    """Name of a listener; `HTTP`, `GRPC` for the other doors."""
    api: str


class Action(NamedTuple):
    """What is asked for."""

    operation: Operation
    resource_type: ResourceType
    name: str


class Entry(NamedTuple):
    """One line, before it is text."""

    time_ms: int
    event: str
    fields: tuple[tuple[str, str], ...]


class Audit:
    """Notes decisions. All calls come from the loop; none waits."""

    def __init__(self, level: AuditLevel, path: Path | None, now_ms: Callable[[], int]) -> None:
        """`path` None: stderr."""
        self._all = level is AuditLevel.ALL
        self._now_ms = now_ms
        self._path = path
        self._writer = LineWriter[Entry]("audit", path, line_of, self._dropped)
        self._last: tuple[object, ...] = ()

    @property
    def metrics(self) -> LineMetrics:
        """What became of the lines."""
        return self._writer.metrics

    def check(self) -> None:
        """Find out whether the log can be written. Errors: OSError, which names the setting."""
        try:
            self._writer.check()
        except OSError as error:
            reason = f"audit.log: {self._path} cannot be written: {error.strerror}"
            raise OSError(error.errno, reason) from error

    async def close(self) -> None:
        """Write what is left, for `CLOSE_S` at most."""
        await self._writer.close(CLOSE_S)

    def authorized(
        self, requester: Requester, door: Door, action: Action, request: object, *, allowed: bool
    ) -> None:
        """Note a decision. `request`: what tells requests apart, of a connection."""
        if allowed and not self._all:
            return
        this = (requester, door, action, request)
        if this == self._last:
            return
        self._last = this
        self._put(
            "authorization",
            ("principal", requester.principal),
            ("host", requester.host),
            ("listener", door.listener),
            ("api", door.api),
            ("operation", action.operation.name),
            ("resource", action.resource_type.name),
            ("name", action.name),
            ("result", "ALLOWED" if allowed else "DENIED"),
        )

    def authenticated(self, requester: Requester, listener: str, mechanism: str) -> None:
        """Note that somebody is known from now on."""
        if self._all:
            self._put(
                "authentication",
                ("principal", requester.principal),
                ("host", requester.host),
                ("listener", listener),
                ("mechanism", mechanism),
                ("result", "ALLOWED"),
            )

    def refused(self, host: str, listener: str, mechanism: str, reason: str) -> None:
        """Note that somebody could not say who it is. `reason`: has no secret in it."""
        self._put(
            "authentication",
            ("host", host),
            ("listener", listener),
            ("mechanism", mechanism),
            ("reason", reason),
            ("result", "DENIED"),
        )

    def _put(self, event: str, *fields: tuple[str, str]) -> None:
        self._writer.put(Entry(self._now_ms(), event, fields))

    def _dropped(self, count: int) -> Entry:
        return Entry(self._now_ms(), "dropped", (("count", str(count)),))


def line_of(entry: Entry) -> str:
    """Return a line of JSON; whatever names have in them, it is one line of ASCII."""
    time = datetime.fromtimestamp(entry.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    shown = {key: text[:TEXT_MAX] for key, text in entry.fields}
    line = {"time": time.replace("+00:00", "Z"), "event": entry.event, **shown}
    return json.dumps(line, separators=(",", ":"))


def audit_of(level: AuditLevel, log: str, now_ms: Callable[[], int]) -> Audit | None:
    """Return what notes decisions as settings say; None: nothing does."""
    if level is AuditLevel.OFF or not log:
        return None
    return Audit(level, None if log == "stderr" else Path(log), now_ms)
