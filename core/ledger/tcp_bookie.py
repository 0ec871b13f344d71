"""A bookie over TCP: BookKeeper's protocol v3, and v2 on a connection of its own for batch reads.

Only v2 has batch reads, and a bookie speaks v2 ever after the first frame of it, so they never
share a connection with anything else. Source: reference BookKeeper 1.2, 1.11.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

from typing_extensions import override

from tailrace.core.ledger.bookie_client import Reply
from tailrace.core.ledger.bookie_connection import BookieConnection, Reach, Wire
from tailrace.core.ledger.bookie_entrance import Entrance, MakeProtocol
from tailrace.core.ledger.config import BookieClientConfig
from tailrace.core.ledger.metrics import BookieClientMetrics
from tailrace.protocol.bookkeeper import codec, v2_answers, v2_requests
from tailrace.protocol.bookkeeper.messages import BatchReadRequest, Request, Response
from tailrace.protocol.ids import BookieId, Buffer

logger = logging.getLogger(__name__)

REFUSED_S: Final = 300.0
"""How long no batch is read from a bookie that ended the connection at one: it is older than 4.17,
which nobody says beforehand, or it went down just then."""


Resolve: TypeAlias = Callable[[], Awaitable[tuple[str, int]]]
"""Finds (host, port) of a bookie now. Errors: CoreError when it is not registered."""


class BatchConnection(BookieConnection):
    """Takes batch reads only."""

    def __init__(
        self,
        bookie_id: BookieId,
        reach: Reach,
        config: BookieClientConfig,
        metrics: BookieClientMetrics,
    ) -> None:
        super().__init__(bookie_id, reach, _V2, config, metrics)
        self._has_answered = False
        self._refused_until_s = 0.0

    @property
    def is_refused(self) -> bool:
        """Whether the bookie seems not to know batch reads."""
        return asyncio.get_running_loop().time() < self._refused_until_s

    @override
    def on_frame(self, frame: memoryview) -> None:
        """Hand an answer to who asked."""
        super().on_frame(frame)
        self._has_answered = True

    @override
    def on_close(self, error: Exception | None) -> None:
        """Fail what is outstanding, and ask no more if that was all that the bookie answered."""
        if self._outstanding and not self._has_answered:
            self._refused_until_s = asyncio.get_running_loop().time() + REFUSED_S
            self._metrics.batch_refusals_total += 1
            logger.warning(
                "batch_reads_refused bookie=%s entries are read one by one for %d s",
                self.bookie_id, REFUSED_S,
            )  # fmt: skip
        self._has_answered = False
        super().on_close(error)


class TcpBookieClient(BookieConnection):
    """A BookieClient over TCP."""

    def __init__(
        self,
        bookie_id: BookieId,
        resolve: Resolve,
        config: BookieClientConfig,
        metrics: BookieClientMetrics | None = None,
        entrance: Entrance | None = None,
    ) -> None:
        """`entrance`: shared with other clients, for whom it is closed; else made of `config`."""
        metrics = metrics or BookieClientMetrics()
        reach = partial(_reach, resolve, entrance or Entrance(config.security))
        super().__init__(bookie_id, reach, _V3, config, metrics)
        self._batches = BatchConnection(bookie_id, reach, config, metrics)

    @property
    def reads_batches(self) -> bool:
        """Whether a BatchReadRequest is worth trying now."""
        return self._config.batch_reads and not self._batches.is_refused

    @override
    def submit(self, request: Request, reply: Reply) -> None:
        """Send a request, connecting first if need be."""
        if type(request) is BatchReadRequest:
            self._batches.submit(request, reply)
        else:
            BookieConnection.submit(self, request, reply)  # hot: super() makes an object each time

    @override
    async def close(self) -> None:
        """Fail what is outstanding, close the connections, end the tasks.

        Cancel: they are closed, only the waiting ends.
        """
        try:
            await self._batches.close()
        finally:
            await super().close()

    @override
    def disconnect_if_idle(self) -> bool:
        """Close the connections unless an answer is owed; tell whether there is none now."""
        return self._batches.disconnect_if_idle() and super().disconnect_if_idle()


async def _reach(resolve: Resolve, entrance: Entrance, make: MakeProtocol) -> None:
    host, port = await resolve()
    await entrance.enter(host, port, make)


def _encode_v2(number: int, request: Request) -> list[Buffer]:
    return v2_requests.encode_request(request, number)


def _decode_v2(frame: Buffer) -> tuple[int, Response]:
    origin, response = v2_answers.decode_response(frame)
    return origin.request_id, response


_V3: Final = Wire(codec.encode_request, codec.decode_response)
_V2: Final = Wire(_encode_v2, _decode_v2)
