"""How the work in the background of a process fares, for its /health and its metrics.

What runs for ever (`Forever`) and what an object starts (`Tasks`) notes its failures here, by a
name of a closed set. One for each event loop, as `asyncio.all_tasks`: a process has one loop, and
whoever puts a process together need not hand it to every object that starts a task.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

from tailrace.core.runtime.metrics import Metrics, counter, gauge

ERROR_CHARS_MAX: Final = 500
"""What is kept of the text of an error."""


@dataclass(slots=True)
class TaskNumbers:
    """What is counted for a name."""

    failures_total: int = counter("steps, or items of a step, of a background task that failed")
    failing: int = gauge("background tasks whose last step failed, or items of it")


class TaskRecord:
    """What is known of all tasks of one name."""

    __slots__ = ("failed_s", "last_error", "numbers")

    def __init__(self) -> None:
        self.numbers = TaskNumbers()
        self.last_error = ""
        self.failed_s = 0.0
        """When `last_error` came, by the clock of the loop."""


class TaskHealth:
    """The background tasks of one loop. All calls come from the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)
        self.random = Random()
        """Spreads pauses; a simulation puts its own here."""
        self._records: dict[str, TaskRecord] = {}

    def record(self, name: str) -> TaskRecord:
        """Return what is known of a name, which it knows from then on."""
        return self._records.setdefault(name, TaskRecord())

    def note(self, record: TaskRecord, error: BaseException, item: str = "") -> None:
        """Take note of a failure. `item`: what of the step failed; the rest of it went on."""
        record.numbers.failures_total += 1
        place = f"{item}: " if item else ""
        record.last_error = f"{place}{type(error).__name__}: {error}"[:ERROR_CHARS_MAX]
        record.failed_s = self._now_s()

    def status(self) -> dict[str, Any]:
        """Return "ok", or "degraded" while a task fails, and each that ever failed: JSON."""
        now_s = self._now_s()
        failed = [
            {
                "task": name,
                "failing": record.numbers.failing > 0,
                "failures": record.numbers.failures_total,
                "error": record.last_error,
                "seconds_ago": round(now_s - record.failed_s, 1),
            }
            for name, record in sorted(self._records.items())
            if record.numbers.failures_total
        ]
        is_failing = any(each["failing"] for each in failed)
        return {"status": "degraded" if is_failing else "ok", "failed_tasks": failed}

    def _now_s(self) -> float:
        loop = self._loop()
        return 0.0 if loop is None else loop.time()

    def register(self, metrics: Metrics) -> None:
        """Show the numbers as `background_task_<field>{task="<name>"}`."""
        metrics.register_each("background_task", self._sources)

    def _sources(self) -> Iterator[tuple[Mapping[str, str], TaskNumbers]]:
        for name, record in sorted(self._records.items()):
            yield {"task": name}, record.numbers


_OF_LOOP: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, TaskHealth]] = WeakKeyDictionary()


def task_health(loop: asyncio.AbstractEventLoop | None = None) -> TaskHealth:
    """Return that of a loop, or of the running one. Errors: RuntimeError if none runs."""
    loop = loop or asyncio.get_running_loop()
    found = _OF_LOOP.get(loop)
    if found is None:
        found = _OF_LOOP[loop] = TaskHealth(loop)
    return found
