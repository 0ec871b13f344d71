"""The one way to do a thing for as long as its owner lives, whatever fails on the way.

    self._expiry = Forever("groups.expiry")
    tasks.start(self._expiry.run(self._step), "expiry")

A step waits for its turn (a time, an event) and does the work once. A step that fails is logged,
counted (`task_health`: /health and metrics tell of it) and followed, after a pause that doubles up
to a bound, by the next one: an unexpected error ends no loop. Where a step goes through several
items, `item` keeps the failure of one from the others. Where going on would be a lie, `ends_after`
such failures in a row end the loop by the error, and with it the owner (`Tasks(on_failure)`).

A step that fails must leave what it had begun to be found by the next one: an event that it has
cleared is set again.

`until_done` is the same for what is to succeed once, however long that takes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Final, NoReturn, TypeVar

from tailrace.core.errors import CoreError
from tailrace.core.runtime.task_health import TaskHealth, task_health

T = TypeVar("T")

logger = logging.getLogger(__name__)

PAUSE_S_FIRST: Final = 0.1
PAUSE_S_MAX: Final = 30.0
"""Pauses after a failure; each is twice the one before, up to this, less up to half of it."""


class StrayCancel(Exception):
    """Something that was awaited was cancelled, though nobody cancelled the one that waits."""


class Item:
    """What became of one item of a step."""

    __slots__ = ("has_failed",)

    def __init__(self) -> None:
        self.has_failed = False


class Forever:
    """One loop. `run`, or `until_done`, one at a time; all calls come from the loop."""

    def __init__(
        self,
        name: str,
        *,
        about: str = "",
        expected: tuple[type[Exception], ...] = (CoreError,),
        pause_s_max: float = PAUSE_S_MAX,
        ends_after: int | None = None,
    ) -> None:
        """`name`: OWNER.WORK, of a closed set. `about`: which of its kind, for people.

        `expected`: errors that pass by themselves (a store that is away): a line without a
        traceback. `ends_after`: so many other failures in a row end it; None: none do.
        """
        self._name = name
        self._about = about
        self._expected = expected
        self._pause_s_max = pause_s_max
        self._ends_after = ends_after
        self._failures = 0
        """Failed steps in a row."""
        self._unexpected = 0
        """How many of them nobody expected."""
        self._has_failed_items = False
        self._is_failing = False
        self._told: set[tuple[str, int]] = set()
        """Where errors came from that the log has whole, since all was well."""

    async def run(self, step: Callable[[], Awaitable[object]]) -> NoReturn:
        """Do the step again and again.

        Errors: the last one after `ends_after` in a row. Cancel: ends it, and nothing else does.
        """
        self._begin()
        try:
            while True:
                await self._once(step)
                await asyncio.sleep(0)  # a step that did not wait holds up nobody
        finally:
            self._set_failing(is_failing=False)

    async def until_done(self, step: Callable[[], Awaitable[T]]) -> T:
        """Try the step until it does not fail; return what it returns. Errors, cancel: as `run`."""
        self._begin()
        try:
            return await self._once(step)
        finally:
            self._set_failing(is_failing=False)

    @contextmanager
    def item(self, name: object) -> Iterator["Item"]:
        """Keep a failure inside the block from what comes behind it. Cancel: passes."""
        item = Item()
        try:
            yield item
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            item.has_failed = True
            self.failed(name, StrayCancel(str(error)))
        except Exception as error:  # noqa: BLE001 - what it is for
            item.has_failed = True
            self.failed(name, error)

    def failed(self, item: object, error: Exception) -> None:
        """Take note that an item has failed, and that the step goes on."""
        self._has_failed_items = True
        self._note(error, str(item))

    def is_well(self) -> None:
        """Take note, inside of a step that goes on for long, that nothing fails."""
        self._failures = self._unexpected = 0
        self._set_failing(is_failing=False)

    def _begin(self) -> None:
        self._health.record(self._name)  # its counter is there before it fails

    @cached_property
    def _health(self) -> TaskHealth:
        return task_health()

    async def _once(self, step: Callable[[], Awaitable[T]]) -> T:
        while True:
            self._has_failed_items = False
            try:
                done = await step()
            except asyncio.CancelledError as error:
                if _is_cancelled():
                    raise
                self._on_failure(StrayCancel(str(error)))
            except Exception as error:  # noqa: BLE001 - what it is for
                self._on_failure(error)
            else:
                self._failures = self._unexpected = 0
                self._set_failing(is_failing=self._has_failed_items)
                return done
            await asyncio.sleep(self._pause_s())

    def _on_failure(self, error: Exception) -> None:
        self._failures += 1
        self._unexpected = 0 if isinstance(error, self._expected) else self._unexpected + 1
        self._set_failing(is_failing=True)
        self._note(error)
        if self._unexpected == self._ends_after:
            raise error

    def _pause_s(self) -> float:
        bound_s = min(PAUSE_S_FIRST * 2.0 ** min(self._failures - 1, 16), self._pause_s_max)
        return bound_s * self._health.random.uniform(0.5, 1)

    def _note(self, error: Exception, item: str = "") -> None:
        """Log it: whole the first time; then a line, of steps ever more rarely."""
        which = " ".join(filter(None, (self._about, item)))
        self._health.note(self._health.record(self._name), error, which)
        place = _place(error)
        is_told = place in self._told
        self._told.add(place)
        line = f"background_task_failed task={self._name} item={which} error={error!r}"
        if not is_told and not isinstance(error, self._expected):
            logger.error(line, exc_info=error)
        elif item or self._failures & (self._failures - 1) == 0:
            logger.warning("%s failures=%d", line, self._failures)

    def _set_failing(self, *, is_failing: bool) -> None:
        if self._is_failing != is_failing:
            self._is_failing = is_failing
            self._health.record(self._name).numbers.failing += 1 if is_failing else -1
        if not is_failing:
            self._told.clear()


def _place(error: BaseException) -> tuple[str, int]:
    """Return what tells errors of one cause from others: kind and line."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return type(error).__name__, -1 if at is None else at.tb_lineno


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
