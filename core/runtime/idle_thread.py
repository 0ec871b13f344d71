"""A thread for work that can wait: it has a core only while nobody else wants that one.

A lower `nice` value is not enough where others must answer at once: whoever wakes up waits until
the turn of what runs is over, a millisecond and more. Who runs idly has no turn.
"""

import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class IdleThread:
    """One such thread, started by its first call. It ends with the process.

    Where the system gives no thread the calls are made in the caller's.
    """

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = ThreadPoolExecutor(1, "idle", _be_idle)

    def call(self, work: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> T:
        """Return what the work gives, when it is done: on a full machine a hundred times later.

        Errors: what it raises. Blocks. Cost: two hand-overs, 0.05 ms.
        """
        if self._thread is None:
            return work(*arguments, **named)
        try:
            answer = self._thread.submit(work, *arguments, **named)
        except RuntimeError as error:  # no more threads; what it queued must not come later
            logger.warning("no idle thread error=%r", error)
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None
            return work(*arguments, **named)
        return answer.result()


def _be_idle() -> None:
    """Give way, where the system knows that (Linux); there is no way back without privileges."""
    if not hasattr(os, "SCHED_IDLE"):
        return
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except OSError as error:  # a sandbox: the work matters more than its place
        logger.warning("idle thread has its process's priority error=%r", error)
