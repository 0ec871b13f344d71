"""Work in turns: pieces of one key run one after the other, in order of asking; keys side by side.

Invariant: every piece that was taken runs, unless this is closed; then what runs is cancelled and
what waits is dropped, unstarted. A piece that fails is logged by `Tasks`; the next one runs.
"""

from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from tailrace.core.runtime.tasks import Tasks

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Turns:
    """One queue per key; a key without work costs nothing."""

    def __init__(self, name: str, waiting_max: int) -> None:
        """`waiting_max`: pieces that may wait behind the one that runs, of each key."""
        self._tasks = Tasks(name)
        self._waiting_max = waiting_max
        self._queues: dict[str, deque[Work]] = {}

    def is_busy(self, key: str) -> bool:
        """Whether a piece of the key runs."""
        return key in self._queues

    def start(self, key: str, work: Work) -> bool:
        """Run a piece once those before it have ended; False if too many wait already.

        Errors: RuntimeError after close.
        """
        queue = self._queues.get(key)
        if queue is None:
            queue = deque()
            self._tasks.start(self._run(key, work, queue), key)
            self._queues[key] = queue
        elif len(queue) < self._waiting_max:
            queue.append(work)
        else:
            return False
        return True

    async def close(self) -> None:
        """Cancel what runs and drop what waits. Idempotent. Errors: none."""
        await self._tasks.close()
        self._queues.clear()

    async def _run(self, key: str, work: Work, queue: deque[Work]) -> None:
        """Do one piece, and have the next one begin whatever became of it."""
        try:
            await work()
        finally:
            self._queues.pop(key, None)
            if queue:
                self._go_on(key, queue)

    def _go_on(self, key: str, queue: deque[Work]) -> None:
        work = queue.popleft()
        try:
            self._tasks.start(self._run(key, work, queue), key)
        except RuntimeError:
            return  # closed meanwhile
        self._queues[key] = queue
