"""SASL at one connection: until it is known no request gets further; later it may do so again.

Until then each frame is an answer's work of its own, and nothing is read beside it. The bytes count
in a budget that strangers have to themselves.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.broker.authentication.sasl_session import Phase
from tailrace.broker.sasl_dialogue import SASL_APIS, Dialogue, Reply
from tailrace.core.runtime.net import HOLD_LOGIN, HOLD_THROTTLE, FrameChannel
from tailrace.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.broker.connection_owner import ConnectionOwner
    from tailrace.broker.in_flight import InFlight
    from tailrace.broker.listeners import ConnectionInfo
    from tailrace.protocol.ids import Buffer

logger = logging.getLogger(__name__)


class NotAuthenticated(ProtocolError):
    """A request of a client that is not known, or not any more."""


class Behind(NamedTuple):
    """The connection behind the door."""

    info: "Callable[[], ConnectionInfo]"
    become: "Callable[[ConnectionInfo], None]"
    send: "Callable[[InFlight, list[Buffer]], None]"
    """Answer a request of a client that is known."""
    end: "Callable[[InFlight, str], None]"


class SaslDoor:
    """Of one connection, as long as it lasts. All calls come from the loop."""

    def __init__(self, owner: "ConnectionOwner[Any]", behind: Behind, since_s: float) -> None:
        """`since_s`: when the connection came, before its TLS handshake."""
        self._owner = owner
        self._behind = behind
        self._sasl = owner.broker.authentication
        self._dialogue = Dialogue(owner.broker, behind.info().listener, owner.now_s)
        self._session = self._dialogue.session
        self._channel: FrameChannel | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stranger = True
        self._taken = 0
        """Of the budget that strangers have."""
        self._within_s = owner.broker.config.network.handshake_ms_max / 1000
        self._deadline_s = since_s + self._within_s

    def open(self, channel: FrameChannel) -> None:
        """Begin with a connection."""
        self._channel = channel
        self._sasl.metrics.strangers += 1

    def close(self) -> None:
        """Forget the connection: it is gone."""
        self._channel = None
        if self._is_stranger:
            self._sasl.metrics.strangers -= 1
        self._give_back()
        if self._task is not None:
            self._task.cancel()

    def restart_time(self) -> None:
        """Count the client's time from now on: until now it was not read."""
        self._deadline_s = self._owner.now_s() + self._within_s

    def is_late(self, now_s: float) -> bool:
        """Whether the client took too long to say who it is."""
        if not self._is_stranger or now_s <= self._deadline_s:
            return False
        if self._channel is None or self._channel.holds(HOLD_THROTTLE):
            return False  # its turn to be read has not come
        self._sasl.metrics.failed_time_total += 1
        return True

    def takes(self, frame: memoryview) -> bool:
        """Take a frame of a stranger; False: the client is known."""
        if not self._is_stranger:
            return False
        channel = self._channel
        assert channel is not None, "frames come between open and close"
        channel.hold(HOLD_LOGIN)
        self._taken = len(frame)
        self._task = self._owner.spawn(self._answer(channel, frame))
        return True

    def lets_pass(self, api_key: int) -> bool:
        """Whether a request of a client that is known is its handler's; False: `answer_again`.

        Errors: NotAuthenticated: its session is over.
        """
        if api_key in SASL_APIS or self._session.phase is not Phase.KNOWN:
            return False
        self.check(api_key)
        return True

    def check(self, api_key: int) -> None:
        """Refuse what may not be asked now. Errors: NotAuthenticated."""
        if refusal := self._dialogue.refuses(api_key):
            raise NotAuthenticated(refusal)

    async def answer_again(self, item: "InFlight", frame: memoryview) -> None:
        """Answer a request about authentication of a client that is known."""
        channel, behind = self._channel, self._behind
        if channel is None:
            return
        try:
            reply = await self._dialogue.answer(behind.info(), frame)
        except ProtocolError as error:
            behind.end(item, str(error))
        except asyncio.CancelledError:
            behind.end(item, "the broker stops")
            raise
        except Exception:
            logger.exception("authentication failed peer=%s", channel.peer)
            behind.end(item, "authentication failed")
        else:
            self._note()
            await self._delay(reply)
            behind.send(item, reply.parts)
            self._end(channel, reply)

    async def _answer(self, channel: FrameChannel, frame: memoryview) -> None:
        """Answer a stranger; the fault boundary of its task."""
        try:
            reply = await self._dialogue.answer(self._behind.info(), frame)
            self._give_back()
            await self._delay(reply)
        except ProtocolError as error:
            channel.abort(str(error))
        except Exception:
            logger.exception("authentication failed peer=%s", channel.peer)
            channel.discard()
        else:
            channel.send(reply.parts)
            self._end(channel, reply)
            if not channel.is_closing:
                self._note()
                channel.release(HOLD_LOGIN)

    def _give_back(self) -> None:
        """Count a stranger's request out; its task may never have begun. Idempotent."""
        taken, self._taken = self._taken, 0
        self._sasl.strangers.give(taken)

    async def _delay(self, reply: Reply) -> None:
        if reply.ends:
            await asyncio.sleep(self._dialogue.config.failed_delay_ms / 1000)

    def _note(self) -> None:
        """Have the connection be whose it is now."""
        session = self._session
        if session.phase is not Phase.KNOWN or session.known is None:
            return
        info, known = self._behind.info(), session.known
        self._behind.become(
            info._replace(user=known.user, authenticated=known, session_ends_s=session.ends_s)
        )
        if self._is_stranger and self._channel is not None:
            self._is_stranger = False
            self._sasl.metrics.strangers -= 1
            self._owner.admit(self._channel)

    def _end(self, channel: FrameChannel, reply: Reply) -> None:
        if reply.ends:
            logger.warning("connection closed peer=%s reason=%s", channel.peer, reply.ends)
            channel.close()
