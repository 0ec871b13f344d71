"""A bookie in the same process, reached as every other: requests in, replies on the loop."""

from collections.abc import Callable
from typing import Any

from bookie.requests import Bookie
from protocol.bookkeeper.messages import Request
from protocol.ids import BookieId


class LocalBookieClient:
    """Passes requests to a Bookie as they are; structurally a core.ledger BookieClient."""

    def __init__(self, bookie: Bookie, bookie_id: BookieId) -> None:
        self.bookie_id = bookie_id
        self._submit = bookie.submit

    def submit(self, request: Request, reply: Callable[[Any], Any]) -> None:
        """Submit as to any bookie: never blocks, the reply comes once and later."""
        self._submit(request, reply)

    async def close(self) -> None:
        """Nothing to let go: the bookie closes itself."""
