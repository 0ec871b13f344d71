"""What is open in blocking faces is closed at the end of the interpreter."""

import atexit
import concurrent.futures.thread  # noqa: F401 - registers its end before ours
import logging
import threading
from typing import Any, Final

from tailrace.core.errors import CoreError
from tailrace.dlog.face import Face

logger = logging.getLogger(__name__)

_open: Final[set[Face[Any]]] = set()


def opened(face: Face[Any]) -> None:
    """Take note of something that is open until `closed`."""
    _open.add(face)


def is_open(face: Face[Any]) -> bool:
    """Tell whether it is open still."""
    return face in _open


def closed(face: Face[Any]) -> None:
    """Take note that it is closed."""
    _open.discard(face)


def _close_all() -> None:
    for face in list(_open):
        try:
            face.close()
        except CoreError as error:
            logger.warning("not_closed what=%s error=%r", type(face).__name__, error)


# Not in `atexit`: the standard library's executors have ended then, in which asyncio resolves the
# names of bookies, and no thread can be started. What is registered here runs before they end, as
# it was registered behind them.
getattr(threading, "_register_atexit", atexit.register)(_close_all)
