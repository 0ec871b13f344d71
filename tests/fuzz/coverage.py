"""Which lines of the project follow each other while something runs, and how many run."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

from tests.rooms import OWN_PROCESSES, ROOT

OURS: Final = tuple(str(ROOT / "tailrace" / room) + "/" for room in OWN_PROCESSES)

Edge: TypeAlias = tuple[CodeType, int, int]
"""A line after another one of the same function; 0 before its first."""


class TooManySteps(BaseException):
    """Ends a decoder that goes on and on; not an Exception, so that it catches none."""


class Counted:
    """Counts lines of the project. Of one thread, and not reentrant."""

    def __init__(self) -> None:
        self.edges: set[Edge] = set()
        """Of all runs; the owner may clear it."""
        self.steps = 0
        """Of the last run."""
        self._limit = 0

    @contextmanager
    def limited(self, steps_max: int) -> Iterator[None]:
        """Count what runs inside. Errors: TooManySteps."""
        self.steps, self._limit = 0, steps_max
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(OURS):
            return None
        last = 0
        add = self.edges.add

        def step(frame: FrameType, event: str, _argument: Any) -> Any:
            nonlocal last
            if event == "line":
                line = frame.f_lineno
                add((code, last, line))
                last = line
                self.steps += 1
                if self.steps > self._limit:
                    raise TooManySteps
            return step

        add((code, 0, 0))
        return step
