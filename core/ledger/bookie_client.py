"""The way to a bookie: one contract for the socket and for a bookie in the same process.

Invariant: every request gets exactly one reply, on the loop, never before `submit` returned; what
went wrong on the way comes as an `ErrorResponse` with a LOCAL_* status, so that callers have one
path. Requests of one client reach the bookie in the order of their calls; replies come in any.
"""

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Protocol, TypeAlias

from tailrace.protocol.bookkeeper.messages import (
    ErrorResponse,
    Request,
    Response,
    StatusCode,
    operation_of,
)
from tailrace.protocol.ids import BookieId

Reply: TypeAlias = Callable[[Response], None]


class BookieClient(Protocol):
    """One bookie, wherever it is."""

    @property
    def bookie_id(self) -> BookieId:
        """Who answers."""

    @property
    def reads_batches(self) -> bool:
        """Whether it takes a BatchReadRequest, as far as is known; what comes back may say no."""

    @property
    def losses(self) -> int:
        """How often contact was lost: what the bookie had not synced by then may be gone."""

    def submit(self, request: Request, reply: Reply) -> None:
        """Send a request; never blocks, never raises for the peer's faults. `reply` runs once."""

    async def close(self) -> None:
        """Fail what is outstanding and let go. Idempotent."""


def ask(client: BookieClient, request: Request) -> "asyncio.Future[Response]":
    """Submit now and return the answer as a future: several may be asked before one is awaited.

    Cancel: the request may still take effect; its answer is dropped.
    """
    future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    client.submit(request, partial(_resolve, future))
    return future


def ask_all(
    clients: Collection[BookieClient], request: Request
) -> "asyncio.Queue[tuple[BookieId, Response]]":
    """Submit one request to all and return the queue in which the answers arrive, one for each."""
    answers: asyncio.Queue[tuple[BookieId, Response]] = asyncio.Queue(maxsize=len(clients))
    for client in clients:
        client.submit(request, partial(_enqueue, answers, client.bookie_id))
    return answers


def _resolve(future: "asyncio.Future[Response]", response: Response) -> None:
    if not future.done():
        future.set_result(response)


def _enqueue(
    answers: "asyncio.Queue[tuple[BookieId, Response]]", bookie_id: BookieId, response: Response
) -> None:
    answers.put_nowait((bookie_id, response))


class UnreachableBookie:
    """Stands for a bookie that nobody knows here: answers LOCAL_UNAVAILABLE to everything."""

    reads_batches = False
    losses = 0

    def __init__(self, bookie_id: BookieId) -> None:
        self.bookie_id = bookie_id

    def submit(self, request: Request, reply: Reply) -> None:
        """Answer that there is nobody."""
        error = ErrorResponse(StatusCode.LOCAL_UNAVAILABLE, operation_of(request))
        asyncio.get_running_loop().call_soon(reply, error)

    async def close(self) -> None:
        """Nothing to let go."""
