"""The door of a bookie that asks of its clients who they are: TLS first, then requests.

    accepted -> `Greeting` says what becomes of each of the first frames -> handshake -> let in

A client that is not known yet costs a task, frames of 16 KiB at most and a deadline; there are at
most `STRANGERS_MAX` of them. Their requests reach neither the bookie nor its budgets.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tailrace.bookie.greeting import Greeting, GreetingRules, Then, Verdict
from tailrace.bookie.metrics import DoorMetrics
from tailrace.bookie.security_config import BookieSecurity
from tailrace.core.runtime.first_frames import (
    HANDSHAKE_S,
    SHUTDOWN_S,
    FirstFrames,
    HandshakeFailed,
    TlsSide,
)
from tailrace.core.runtime.tasks import Tasks
from tailrace.core.security.open_bookkeeper_tls import open_tls
from tailrace.protocol.bookkeeper import v2_answers, v2_requests
from tailrace.protocol.bookkeeper.codec import decode_request, encode_response
from tailrace.protocol.bookkeeper.messages import Response
from tailrace.protocol.bookkeeper.v2_requests import Origin, is_v2
from tailrace.protocol.errors import FrameTooLarge, ProtocolError
from tailrace.protocol.ids import Buffer

if TYPE_CHECKING:
    from tailrace.core.security.bookkeeper_tls import BookKeeperTls

logger = logging.getLogger(__name__)

STRANGERS_MAX: Final = 1_000
"""Connections whose client is not known yet; one more is closed at once."""
KNOWN_WITHIN_S: Final = 2 * HANDSHAKE_S
"""How long a client has for all of it."""


class Door:
    """Lets clients in. All calls come from the loop."""

    def __init__(self, config: BookieSecurity) -> None:
        """Read keys and certificates. Blocks, 50 ms with PKCS12. Errors: InvalidKeys."""
        self.metrics = DoorMetrics()
        self._rules = GreetingRules(config.tls.is_enabled, config.needs_tls)
        self._tls = open_tls(config.tls, is_bookie=True)
        self._tasks = Tasks("bookie_door")
        self._loop = asyncio.get_running_loop()

    def protocol(self, admit: Callable[[], asyncio.BufferedProtocol]) -> FirstFrames:
        """Return the protocol of a new connection; `admit` makes the one of a client let in."""
        return FirstFrames(lambda first: self._welcome(first, admit))

    async def close(self) -> None:
        """End the connections of all that are not let in. Idempotent."""
        await self._tasks.close()
        if self._tls is not None:
            await self._tls.close()

    def _welcome(self, first: FirstFrames, admit: Callable[[], asyncio.BufferedProtocol]) -> None:
        if len(self._tasks) >= STRANGERS_MAX:
            self._refuse(first, f"{STRANGERS_MAX} others are not known yet")
            first.abort()
            return
        visit = _Visit(first, Greeting(self._rules), self._tls)
        self._tasks.start(self._let_in(visit, admit), "greet")

    async def _let_in(self, visit: "_Visit", admit: Callable[[], asyncio.BufferedProtocol]) -> None:
        try:
            limit_s = None if visit.greeting.is_welcome else KNOWN_WITHIN_S
            async with asyncio.timeout(limit_s):
                reason = await visit.run()
            if reason:
                self._refuse(visit.first, reason)
                visit.first.close()
                self._loop.call_later(SHUTDOWN_S, visit.first.abort)
            else:
                visit.first.hand_over(admit())
                self.metrics.tls_connections_total += visit.first.is_inside_tls
        except TimeoutError:
            self._refuse(visit.first, f"not known within {KNOWN_WITHIN_S:.0f} s")
            visit.first.abort()
        except (OSError, HandshakeFailed, ProtocolError) as error:
            self._refuse(visit.first, str(error))
            visit.first.abort()
        except BaseException:
            visit.first.abort()
            raise

    def _refuse(self, first: FirstFrames, reason: str) -> None:
        self.metrics.refusals_total += 1
        logger.warning("connection closed peer=%s reason=%s", first.peer, reason)


class _Visit:
    """One connection at the door."""

    def __init__(self, first: FirstFrames, greeting: Greeting, tls: "BookKeeperTls | None") -> None:
        self.first = first
        self.greeting = greeting
        self._tls = tls

    async def run(self) -> str:
        """Hear the client until it is let in, then return ""; or why it is not.

        Errors: ConnectionError, HandshakeFailed, ProtocolError.
        """
        while True:
            try:
                verdict = self._hear(await self.first.receive())
            except FrameTooLarge:
                if self.greeting.is_welcome:
                    return ""
                raise
            if verdict.then is Then.CLOSE:
                return verdict.reason
            if verdict.then is Then.SUBMIT:
                self.first.take_back()
                return ""
            if verdict.then is Then.START_TLS:
                await self._start_tls()
                if self.greeting.is_welcome:
                    return ""

    def _hear(self, frame: Buffer) -> Verdict:
        origin: int | Origin
        if is_v2(frame):
            origin, request = v2_requests.decode_request(frame)
        else:
            origin, request = decode_request(frame)
        verdict = self.greeting.hear(request, is_v2=isinstance(origin, Origin))
        if verdict.response is not None:
            self._answer(origin, verdict.response)
        return verdict

    async def _start_tls(self) -> None:
        assert self._tls is not None, "START_TLS is refused without it"
        context = await self._tls.context(asyncio.get_running_loop().time())
        self.first = await self.first.start_tls(TlsSide(context, server_side=True))
        self.greeting.enter_tls()

    def _answer(self, origin: int | Origin, response: Response) -> None:
        """Answer in the protocol of the request, as far as that has words for it."""
        if isinstance(origin, Origin):
            self.first.send(v2_answers.encode_response(origin, response))
        else:
            self.first.send(encode_response(origin, response))
