"""The other brokers, as this one asks them: `send` a request, get its answer or a `PeerError`.

One connection per broker and API, made when it is needed, kept until it ends, the broker moves or
is no longer alive. Bounds: one request in flight and `WAITING_MAX` behind it, on each; one bound on
the time of a request, waiting and connecting included. Nothing is sent twice: to try again is the
caller's decision, who may have to ask another broker by then.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tailrace.broker.peers.connection import PeerConnection
from tailrace.broker.peers.entrance import OPEN, Entrance
from tailrace.broker.peers.errors import PeerBusy, PeerError, PeerTimeout, PeerUnavailable
from tailrace.broker.peers.metrics import PeerMetrics
from tailrace.broker.peers.routes import Places
from tailrace.core.runtime.metrics import Metrics
from tailrace.core.runtime.receive_buffer import ReceiveBuffer
from tailrace.core.security.tls_config import TlsStores
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.api import Api

logger = logging.getLogger(__name__)

Q = TypeVar("Q")
R = TypeVar("R")

WAITING_MAX: Final = 128
"""Requests for one API of one broker that may wait for the one in flight."""

RECEIVE_BYTES: Final = 64 * 1024
"""The receive buffer that all connections share: answers are small."""


class Peers:
    """Connections to other brokers. All calls come from the loop."""

    def __init__(self, places: Places, client_id: str, entrance: Entrance = OPEN) -> None:
        """`client_id`: how this broker's requests are named in the logs of others."""
        self.metrics = PeerMetrics()
        self._places = places
        self._client_id = client_id
        self._entrance = entrance
        self._lines: dict[tuple[int, int], _Line] = {}
        """By broker and API."""
        self._receive = ReceiveBuffer(RECEIVE_BYTES)
        self._is_closed = False
        places.listen(self._on_moved)

    def start(self, metrics: Metrics) -> None:
        """Follow the files of keys."""
        metrics.register("broker_peers", self.metrics)
        self._entrance.start(metrics)

    def configure(self, stores: TlsStores) -> None:
        """Take other keys and authorities into use, for new connections."""
        self._entrance.configure(stores)

    async def send(
        self, broker_id: int, api: Api[Q, R], request: Q, timeout_s: float, version_min: int = 0
    ) -> R:
        """Ask a broker, in the newest version that both speak, from `version_min` on.

        Errors: PeerUnavailable, PeerBusy, PeerUnsupported: nothing was asked. PeerTimeout,
        PeerLost, cancel: it may have happened.
        """
        line = self._line(broker_id, api.key)
        if line.users > WAITING_MAX:
            self.metrics.failures_total += 1
            raise PeerBusy(f"{line.users} requests wait for broker {broker_id}")
        self.metrics.requests_total += 1
        self.metrics.requests_waiting += 1
        line.users += 1
        try:
            async with asyncio.timeout(timeout_s), line.turn:
                connection = await self._connected(line, broker_id)
                answer = await connection.ask(api, request, version_min)
        except TimeoutError:
            message = f"broker {broker_id}: no answer to {api.name} within {timeout_s:g} s"
            error = PeerTimeout(message)
            self._on_failure(line, broker_id, api.name, error)
            raise error from None
        except PeerError as error:
            self._on_failure(line, broker_id, api.name, error)
            raise
        else:
            if line.failures:
                logger.info(
                    "peer_answers broker=%d api=%s failures=%d", broker_id, api.name, line.failures
                )
                line.failures = 0
            self._note_refusal(line, broker_id, api.name, getattr(answer, "error_code", 0))
            return answer
        finally:
            line.users -= 1
            self.metrics.requests_waiting -= 1

    async def close(self) -> None:
        """Close all connections; whoever waits hears PeerLost. Idempotent."""
        self._is_closed = True
        for line in self._lines.values():
            line.connection.close()
        self._lines.clear()
        await self._entrance.close()
        await asyncio.sleep(0)  # let the transports report that they are closed

    def _on_failure(self, line: "_Line", broker_id: int, api: str, error: PeerError) -> None:
        """Count a failure, and log the first: while a broker is away each request may be one."""
        self.metrics.failures_total += 1
        line.failures += 1
        if line.failures == 1:
            logger.warning("peer_failed broker=%d api=%s error=%s", broker_id, api, error)

    def _note_refusal(self, line: "_Line", broker_id: int, api: str, code: int) -> None:
        """Log the first answer that this broker may not ask."""
        is_refused = code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if is_refused and not line.is_refused:
            logger.error(
                "peer_refuses broker=%d api=%s remedy=%r",
                broker_id,
                api,
                "make the principal of the brokers a super user, or allow it CLUSTER_ACTION",
            )
        line.is_refused = is_refused

    def _line(self, broker_id: int, api_key: int) -> "_Line":
        line = self._lines.get((broker_id, api_key))
        if line is None:
            line = _Line(PeerConnection(self._client_id, self._receive, self._entrance))
            self._lines[broker_id, api_key] = line
        return line

    async def _connected(self, line: "_Line", broker_id: int) -> PeerConnection:
        at = self._places.endpoint(broker_id)
        if at is None or self._is_closed:
            raise PeerUnavailable(f"broker {broker_id} is not alive")
        if not line.connection.is_open:
            self.metrics.connects_total += 1
            line.at = (at.host, at.port)
            await line.connection.open(at)
        return line.connection

    def _on_moved(self) -> None:
        """Drop connections to where a broker is no longer: nobody waits there for a time-out."""
        for (broker_id, api_key), line in list(self._lines.items()):
            at = self._places.endpoint(broker_id)
            if at is None:
                del self._lines[broker_id, api_key]
            if at is None or line.at not in (None, (at.host, at.port)):
                line.connection.drop(f"broker {broker_id} is not there any more")


@dataclass(slots=True, eq=False)
class _Line:
    """The way to one broker for one API."""

    connection: PeerConnection
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    at: tuple[str, int] | None = None
    """Where it was connected last."""
    users: int = 0
    """Requests in flight or waiting for their turn."""
    is_refused: bool = False
    """Whether that broker let this one know that it may not ask."""
    failures: int = 0
    """Requests without an answer since the last one that had one."""
