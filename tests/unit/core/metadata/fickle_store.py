"""A store whose sessions end at a bad moment."""

import asyncio
from collections.abc import Callable

from tailrace.core.metadata.store import SessionEvent


class Fickle:
    """A store whose sessions end while a node is made; the node goes with its session."""

    def __init__(self, ends: int) -> None:
        self.session_id = 1
        self.owner: int | None = None
        self._ends = ends
        self._hear: list[Callable[[SessionEvent], None]] = []

    def on_session(self, hear: Callable[[SessionEvent], None]) -> None:
        self._hear.append(hear)

    def end_session(self) -> None:
        self.session_id, self.owner = self.session_id + 1, None
        for hear in self._hear:
            hear(SessionEvent.NEW_SESSION)

    async def create(self, *_: object, **__: object) -> None:
        self.owner = self.session_id
        if self._ends:
            self._ends -= 1
            self.end_session()
        await asyncio.sleep(0)

    async def exists(self, path: str, _watch: object = None) -> None:
        return None
