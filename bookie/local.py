"""A bookie in the same process, reached as every other: requests in, replies on the loop.

Invariant: every request gets exactly one reply. A bookie that fails says nothing more about what it
was writing, as one whose connection is lost; whoever waits for that is told here.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from tailrace.bookie.requests import Bookie
from tailrace.protocol.bookkeeper.messages import (
    ErrorResponse,
    Request,
    Response,
    StatusCode,
    operation_of,
)
from tailrace.protocol.ids import BookieId

Reply: TypeAlias = Callable[[Any], Any]


class LocalBookieClient:
    """Passes requests to a Bookie as they are; structurally a core.ledger BookieClient."""

    reads_batches = True
    losses = 0

    def __init__(self, bookie: Bookie, bookie_id: BookieId) -> None:
        self.bookie_id = bookie_id
        self._submit = bookie.submit
        self._outstanding: dict[int, tuple[Request, Reply]] = {}
        self._last_number = 0
        bookie.failed.add_done_callback(self._on_failed)

    def submit(self, request: Request, reply: Reply) -> None:
        """Submit as to any bookie: never blocks, the reply comes once and later."""
        self._last_number = number = self._last_number + 1
        self._outstanding[number] = (request, reply)
        self._submit(request, partial(self._answer, number))

    async def close(self) -> None:
        """Nothing to let go: the bookie closes itself."""

    def _answer(self, number: int, response: Response) -> None:
        asked = self._outstanding.pop(number, None)
        if asked is not None:  # else the bookie failed in between
            asked[1](response)

    def _on_failed(self, _failed: object) -> None:
        """Fail what is outstanding: whether the bookie did it is unknown."""
        loop = asyncio.get_running_loop()
        outstanding, self._outstanding = self._outstanding, {}
        for request, reply in outstanding.values():
            error = ErrorResponse(StatusCode.LOCAL_UNAVAILABLE, operation_of(request))
            loop.call_soon(reply, error)
