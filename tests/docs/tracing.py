"""Which functions of the project a request runs, in this process, on all of its threads."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NamedTuple

from tests.rooms import ROOMS, ROOT

_PACKAGE: Final = f"{ROOT / 'tailrace'}/"


class Call(NamedTuple):
    """A function of the project was called."""

    module: str
    """The path of its file in the repository."""
    function: str


class Calls:
    """Hears of every call while it is asked to."""

    def __init__(self) -> None:
        self._heard: list[Call] | None = None

    def begin(self) -> None:
        """Hear of the calls from here on."""
        self._heard = []

    def end(self) -> list[Call]:
        """Return the calls since `begin`, in order."""
        heard, self._heard = self._heard, None
        assert heard is not None
        return heard

    def on_event(self, frame: FrameType, event: str, _: Any) -> None:
        """Take what Python has to say of a thread."""
        heard, code = self._heard, frame.f_code
        if heard is None or event != "call" or not code.co_filename.startswith(_PACKAGE):
            return
        module = code.co_filename.removeprefix(_PACKAGE)
        if module.partition("/")[0] in ROOMS:
            heard.append(Call(module, code.co_qualname))


@contextmanager
def heard_calls() -> Iterator[Calls]:
    """Hear of calls in this thread and in those that are started meanwhile."""
    calls, before = Calls(), sys.getprofile()
    threading.setprofile(calls.on_event)
    sys.setprofile(calls.on_event)
    try:
        yield calls
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
